package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// attestation is an operator's word, and how sure it must be: what is attested is
// shown first, and then typed or confirmed by flags.
type attestation struct {
	because string
	by      string
	yes     bool
}

// register adds the flags.
func (a *attestation) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.because, "because", "", "how you know: recorded (required)")
	flags.StringVar(&a.by, "by", currentUser(), "who attests: recorded")
	flags.BoolVar(&a.yes, "yes", false, "do not ask for confirmation; only together with --because")
}

// check finds out what is missing before anything is asked or shown. What says what
// has to be known, for people.
func (a *attestation) check(p *program, what string) error {
	if err := a.askable(p); err != nil {
		return err
	}
	if a.because == "" {
		return usageErrorf("--because is required: say how you know that %s", what)
	}
	return nil
}

// askable finds out whether there is somebody to ask, unless --yes has said it.
func (a *attestation) askable(p *program) error {
	if !a.yes && !p.console().Asks() {
		return usageErrorf("there is no terminal to confirm this at: say --yes together with --because REASON to go ahead without the question")
	}
	return nil
}

// confirm asks for a word to be typed, unless --yes has said it.
func (a *attestation) confirm(ctx context.Context, p *program, word, to string) error {
	if a.yes {
		return nil
	}
	fmt.Fprintf(p.stderr, "Type %s to %s: ", word, to)
	typed := make(chan string, 1)
	go func() { // ends with the line, or with the program
		line, _ := bufio.NewReader(p.stdin).ReadString('\n') // what was typed before an end counts
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return exitError{code: exitNo, text: "interrupted: nothing was changed"}
	case line := <-typed:
		if line == word {
			return nil
		}
		return exitError{code: exitNo, text: fmt.Sprintf("%q is not %s: nothing was changed", line, word)}
	}
}
