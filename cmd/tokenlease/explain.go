package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

// explanation is what a code or a reason means, and what to do.
type explanation struct {
	Kind    string `json:"kind"`
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
	ToDo    string `json:"to_do"`
}

// Kinds of what is explained.
const (
	kindExit     = "exit code"
	kindError    = "error code"
	kindReason   = "decision reason"
	kindShortage = "shortage"
	kindEvidence = "evidence"
	kindState    = "grant state"
	kindEvent    = "grant event"
	kindHolder   = "holder state"
	kindPolicy   = "policy"
)

const explainLong = `Tell what a code or a reason means, and what to do about it: exit codes of this
program, error codes of servers, reasons of decisions, why a broker gave less than
was wanted, evidence that it has found, states of grants and of holders, what happens
to grants, and what policies say about silence.

Capitals, dashes and prefixes do not matter: exhausted, REASON_EXHAUSTED and
reason-exhausted are the same. A word that has several meanings gets all of them.
Without a CODE everything is listed.`

// explainCommand needs no server.
func (p *program) explainCommand() *cobra.Command {
	output := formatTable
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Tell what an error code, an exit code, a reason or a state means, and what to do",
		Long:  explainLong,
		Example: `  tokenlease explain exhausted
  tokenlease explain failed_precondition
  tokenlease explain 3
  tokenlease explain`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var codes []string
			for _, e := range explanations {
				if len(args) == 0 && strings.HasPrefix(e.Code, typed) && !slices.Contains(codes, e.Code) {
					codes = append(codes, e.Code)
				}
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return p.listExplanations(output)
			case 1:
				return p.explain(output, args[0])
			}
			return usageErrorf("want one CODE, got %d", len(args))
		},
	}
	addSettings(cmd, func(flags *pflag.FlagSet) { flags.VarP(&output, "output", "o", "table, json or yaml") })
	return cmd
}

// listExplanations prints all of them, a line each.
func (p *program) listExplanations(format outputFormat) error {
	if format != formatTable {
		return p.writeExplanations(format, explanations)
	}
	t := &table{heading: []string{"KIND", "CODE", "MEANING"}}
	for _, e := range explanations {
		t.add(e.Kind, e.Code, e.Meaning)
	}
	return t.write(p.stdout)
}

// explain prints what a word means.
func (p *program) explain(format outputFormat, word string) error {
	found := explained(word)
	if len(found) > 0 {
		return p.writeExplanations(format, found)
	}
	var known []string
	for _, e := range explanations {
		known = append(known, e.Code)
	}
	text := fmt.Sprintf("nothing is known as %.80q", word)
	if near := nearest.Word(plainCode(word), known); near != "" {
		text += fmt.Sprintf(": did you mean %s?", near)
	} else {
		text += ": `tokenlease explain` lists everything"
	}
	return exitError{code: exitNo, text: text}
}

// explained finds what a word means, in any of its forms.
func explained(word string) []explanation {
	plain := plainCode(word)
	var found []explanation
	for _, e := range explanations {
		prefix := prefixOfKind[e.Kind]
		if plainCode(e.Code) == plain || prefix != "" && plain == plainCode(prefix)+plainCode(e.Code) {
			found = append(found, e)
		}
	}
	return found
}

// prefixOfKind is what the API and people put before a code.
var prefixOfKind = map[string]string{
	kindExit: "exit-", kindReason: "reason-", kindShortage: "shortage-", kindEvidence: "evidence-", kindState: "grant-state-", kindError: "code-",
}

// plainCode is a code without what does not matter.
func plainCode(code string) string {
	return strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(code)))
}

// writeExplanations prints a paragraph for each; nothing is cut.
func (p *program) writeExplanations(format outputFormat, all []explanation) error {
	if format != formatTable {
		data, err := encodePlain(format, all)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(data)
		return err
	}
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s\n    %s\n", e.Kind, e.Code, e.Meaning)
		if e.ToDo != "" {
			fmt.Fprintf(&b, "    to do: %s\n", e.ToDo)
		}
	}
	_, err := io.WriteString(p.stdout, b.String())
	return err
}
