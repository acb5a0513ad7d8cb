package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// restoreCommand declares that the store was restored from an older copy.
func (p *program) restoreCommand() *cobra.Command {
	cmd := groupCommand("restore", "Declare that etcd was restored from a copy, and attest that its past has ended",
		p.restoreStatusCommand(), p.restoreDeclareCommand(), p.restoreAttestCommand())
	cmd.Long = `Bring a cluster back whose etcd was restored from a copy.

A copy does not know of what was granted, spent and fenced after it was taken. A
broker that served from it would hand out credit a second time. So, in this order:

    1. Stop every broker, and the etcd that the copy replaces.
    2. Restore etcd: its own restore, or the copied data directory.
    3. tokenlease restore declare --data-dir DIR --because "..."
       (or --etcd-endpoints; with --broker where brokers run already)
    4. Start the brokers. Nothing is granted yet.
    5. Start every limiter again, or make sure that it has ended for good: those
       that are reached are fenced, and end by themselves. What manages processes
       starts them again; ` + "`tokenlease dev`" + ` does not, so restart that.
    6. tokenlease restore attest --generation N --because "..."
       (N is what step 3 has printed)

From then on every budget has what refill earns. A fixed quota has no refill: it is
at 0 and stays there, also for accounts and operations that are new.`
	return cmd
}

func (p *program) restoreStatusCommand() *cobra.Command {
	every := watchFlag(0)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the generation in force and the restores that were declared",
		Long: `Show the generation in force and the restores that were declared. Of one that a
later one has replaced before it was attested, ATTESTED says "superseded".

Epochs and grant IDs tell their generation: grants of generation 7 are called
g7-..., and its epochs begin at 1 + 6 * 2^32.`,
		Example: `  tokenlease restore status
  tokenlease restore status --data-dir /var/lib/tokenlease
  tokenlease restore status --watch`,
	}
	every.register(cmd.Flags())
	return p.restoreRun(cmd, func() error { return nil }, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		return p.watch(ctx, every, cmd.CommandPath(), s.client.output, func(ctx context.Context, p *program) error {
			return p.showRestores(ctx, s, admin, every != 0)
		})
	})
}

// showRestores tells the generation in force and the restores that were declared.
// While it is watched all of it is in the frame, or in the documents.
func (p *program) showRestores(ctx context.Context, s *restoreSettings, admin restoreAdmin, watched bool) error {
	status, err := admin.show(ctx)
	if err != nil {
		return err
	}
	say := p.stderr
	switch {
	case watched && s.client.output == formatTable:
		say = p.stdout
	case watched:
		say = io.Discard
	}
	switch g := status.GetGeneration(); {
	case undeclared(status):
		fmt.Fprintf(say, "Generation %d, whose declaration is not stored: nothing is granted. Declare the restore again.\n", g)
	case status.GetUnknown():
		fmt.Fprintf(say, "Generation %d. Nothing is granted until `tokenlease restore attest`; once nothing of before the restore is left:\n\n%s\n", g, attestLine(s, g))
	default:
		fmt.Fprintf(say, "Generation %d.\n", g)
	}
	return p.write(s.client.output, status, restoreTable(status.GetGeneration(), status.GetRestores()...))
}

// declareLong is the help of `restore declare`.
const declareLong = `Declare that etcd was restored from an older copy. Do so before a broker serves
from it: with --data-dir or --etcd-endpoints, while all of them are stopped. What a
broker grants before the declaration is above the budgets.

Everything of before is fenced: limiters have to start again, and what they report
of their past changes nothing. A new generation of epochs and grant IDs begins. All
of every budget is reserved as unknown credit, and nothing is granted, until
` + "`tokenlease restore attest`" + `. There is no way back but the attestation.

The number of the generation jumps: it is drawn, by up to 65,536 above the last one.
The copy may not know of an earlier declaration, and by counting, two histories of
the store would get the same number, and grants of one would count in the other.
Drawn ones meet once in 65,536; naming the highest with --above excludes that too.
If the copy is older than an earlier declaration, or a limiter says that its
journal is ahead, name the highest generation that was ever in force: --above.

Limiters that are fenced end by themselves, and what manages processes starts them
again. ` + "`tokenlease dev`" + ` does not: restart it, or its regions stay unavailable.

A fixed quota, which is a policy without refill, is at 0 from then on and stays
there, also for accounts and operations that are new.
` + "`tokenlease restore attest --help`" + ` tells how to hand it out anew.

What it would fence is shown first, and the ID of the cluster has to be typed to
confirm it. Without a terminal, say --yes together with --because. Where no broker is
asked, nobody tells which holders were heard.

If it is not known whether the store took it, ` + "`tokenlease restore status`" + ` tells.`

func (p *program) restoreDeclareCommand() *cobra.Command {
	request, above, again := &tokenleasev1.DeclareRestoreRequest{Nonce: newNonce()}, generation(0), false
	word := &attestation{}
	cmd := &cobra.Command{
		Use:   "declare --because REASON",
		Short: "Declare that etcd was restored from an older copy",
		Long:  declareLong,
		Example: `  tokenlease restore declare --data-dir /var/lib/tokenlease --because "the backup of Monday 06:00, ticket 4711"
  tokenlease restore declare --broker http://10.0.0.5:7600 --because "..."

  # In a script, without the question.
  tokenlease restore declare --data-dir /var/lib/tokenlease --because "ticket 4711" --yes`,
	}
	word.register(cmd.Flags())
	cmd.Flags().Lookup("because").Usage = "which copy was restored, and why: recorded (required)"
	cmd.Flags().Lookup("by").Usage = "who declares: recorded"
	cmd.Flags().Var(&above, "above", "`generation` that was in force before, where the copy does not know of it")
	cmd.Flags().BoolVar(&again, "again", false, "the store was restored once more since a declaration that is not attested")
	check := func() error {
		if word.because == "" {
			return usageErrorf("--because is required: say which copy was restored")
		}
		if err := word.askable(p); err != nil {
			return err
		}
		request.Because, request.DeclaredBy, request.AboveGeneration = word.because, word.by, uint32(above)
		request.ReplacedGeneration = 1 // until it is known
		return asUsage(request.Validate())
	}
	return p.restoreRun(cmd, check, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		status, err := admin.show(ctx)
		if err != nil {
			return err
		}
		if g := status.GetGeneration(); status.GetUnknown() && !again && !undeclared(status) {
			return exitError{code: exitRefused, text: fmt.Sprintf("a restore is declared already, in generation %d, and not attested: nothing is granted.\nIf the store was restored once more since then, say so with --again. Otherwise, once nothing of before is left:\n\n%s", g, attestLine(s, g))}
		}
		if err := p.confirmRestore(ctx, admin, word, "declare the restore", declaring(status.GetGeneration())); err != nil {
			return err
		}
		request.ReplacedGeneration = status.GetGeneration()
		done, err := admin.declare(ctx, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, `Declared: generation %d has begun, and nothing is granted.
Its number is drawn, not counted, so that no other history of the store has it.
Start every limiter again (with `+"`tokenlease dev`"+`: restart that), or make sure that
it has ended for good. Once no limiter and no broker of before the restore is left:

%s
Fixed quotas, whose policies have no refill, are at 0 and stay there, also for new
accounts and operations: see `+"`tokenlease restore attest --help`"+`.
`, done.GetGeneration(), attestLine(s, done.GetGeneration()))
		return p.write(s.client.output, &tokenleasev1.DeclareRestoreResponse{Restore: done}, restoreTable(done.GetGeneration(), done))
	})
}

// attestLong is the help of `restore attest`.
const attestLong = `Record that nothing of before the declared restore runs, or can ever resume:

  - every limiter was started again on the restored cluster, was fenced and has
    ended, or its machine is gone for good;
  - every broker process of before the restore has ended. A limiter that was
    "started again" at an old etcd which still runs, by a broker there, does not
    count: it has credit that nobody here knows of.

Then what they may have held counts as spent now, and every budget has what refill
earns from now on. If the store was restored again after the declaration, declare
again first: the attestation is of the generation that you name, and of none else.

This is your word against every budget. If such a limiter does come back before it
is told that it is fenced, more is spent than the budgets have. HOLDER and STATE in
` + "`tokenlease holders list`" + ` show which have started again: the others are "fenced".
Limiters that first started after the copy was taken are not in that list.

What counts as spent is shown first, and the ID of the cluster has to be typed to
confirm it. Without a terminal, say --yes together with --because.

A fixed quota, which is a policy without refill, is at 0 and stays there: also that
of accounts and operations that are new, and of policies that are applied later. To
hand it out anew, give its policy a refill, wait until that has filled it, and take
the refill out again.`

func (p *program) restoreAttestCommand() *cobra.Command {
	request, of, word := &tokenleasev1.AttestRestoreRequest{}, generation(0), &attestation{}
	cmd := &cobra.Command{
		Use:   "attest --generation N --because REASON",
		Short: "Attest that no process of before the restore is left",
		Long:  attestLong,
		Example: `  tokenlease restore attest --generation 53411 --because "all 12 gateways were restarted, ticket 4711"

  # In a script, without the question.
  tokenlease restore attest --generation 53411 --because "ticket 4711" --yes`,
	}
	cmd.Flags().Var(&of, "generation", "`number` that the declaration has printed, and that the status shows (required)")
	word.register(cmd.Flags())
	check := func() error {
		switch {
		case word.because == "":
			return usageErrorf("--because is required: say how you know that no limiter and no broker of before the restore can ever resume")
		case of == 0:
			return usageErrorf("--generation is required: `tokenlease restore declare` has printed it, and `tokenlease restore status` shows it")
		}
		if err := word.askable(p); err != nil {
			return err
		}
		request.Generation, request.Because, request.AttestedBy = uint32(of), word.because, word.by
		return asUsage(request.Validate())
	}
	return p.restoreRun(cmd, check, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		status, err := admin.show(ctx)
		if err != nil {
			return err
		}
		if status.GetGeneration() != request.GetGeneration() {
			return exitError{code: exitRefused, text: notInForce(s, status, request.GetGeneration())}
		}
		if status.GetUnknown() { // otherwise it was attested already, and nothing changes
			if err := p.confirmRestore(ctx, admin, word, "attest it", attesting(status.GetGeneration())); err != nil {
				return err
			}
		}
		done, err := admin.attest(ctx, request)
		if err != nil {
			return err
		}
		if status.GetUnknown() && done.GetAttestedBy() == request.GetAttestedBy() && done.GetAttestedBecause() == request.GetBecause() {
			fmt.Fprint(p.stderr, "Attested: what was unknown counts as spent, and every budget refills from now on.\nFixed quotas, whose policies have no refill, stay at 0, also for new accounts and\noperations: see `tokenlease restore attest --help`.\n")
		} else {
			fmt.Fprintf(p.stderr, "Generation %d was attested already, at %s by %s: %s\nNothing has changed, and the new reason is not recorded.\n",
				done.GetGeneration(), cell(moment(done.GetAttestedUnixMs())), cell(done.GetAttestedBy()), cell(done.GetAttestedBecause()))
		}
		return p.write(s.client.output, &tokenleasev1.AttestRestoreResponse{Restore: done}, restoreTable(done.GetGeneration(), done))
	})
}

// notInForce says that another generation is in force than the one to attest, and
// what to do.
func notInForce(s *restoreSettings, status *tokenleasev1.ShowRestoreResponse, named uint32) string {
	g := status.GetGeneration()
	text := fmt.Sprintf("generation %d is in force, not %d: nothing was attested.", g, named)
	switch {
	case named > g:
		text += fmt.Sprintf("\nIf the store was restored once more, from a copy that does not know of generation %d,\ndeclare that first: tokenlease restore declare --again --above %d%s --because \"...\"", named, named, s.again)
		if g < 2 {
			text = "no restore was declared, so there is nothing to attest: " + text
		}
	case status.GetUnknown():
		text += fmt.Sprintf("\nA restore was declared after that of generation %d. Once nothing of before it is left either:\n\n%s", named, attestLine(s, g))
	default:
		text += fmt.Sprintf("\nThat one is attested already, and generation %d is over.", named)
	}
	return text
}

// attestLine is the command that attests the generation.
func attestLine(s *restoreSettings, generation uint32) string {
	return fmt.Sprintf("    tokenlease restore attest --generation %d%s --because \"...\"\n", generation, s.again)
}

// undeclared says that the declaration of the generation in force is not stored.
func undeclared(status *tokenleasev1.ShowRestoreResponse) bool {
	for _, r := range status.GetRestores() {
		if r.GetGeneration() == status.GetGeneration() {
			return false
		}
	}
	return status.GetGeneration() > 1
}

// restoreTable is a table of declared restores.
func restoreTable(inForce uint32, restores ...*tokenleasev1.Restore) *table {
	t := &table{heading: []string{"GENERATION", "REPLACED", "DECLARED", "BY", "BECAUSE", "ATTESTED", "BY", "BECAUSE"}}
	for _, r := range restores {
		attested := "no"
		switch {
		case r.GetAttested():
			attested = moment(r.GetAttestedUnixMs())
		case r.GetGeneration() != inForce:
			attested = "superseded"
		}
		t.add(r.GetGeneration(), r.GetReplacedGeneration(), moment(r.GetDeclaredUnixMs()), r.GetDeclaredBy(), r.GetBecause(),
			attested, r.GetAttestedBy(), r.GetAttestedBecause())
	}
	return t
}

// generation is a flag that takes the number of a generation.
type generation uint32

// String is the flag's value.
func (g *generation) String() string { return strconv.FormatUint(uint64(*g), 10) }

// Type is what help calls the value.
func (g *generation) Type() string { return "generation" }

// Set reads the flag.
func (g *generation) Set(text string) error {
	value, err := strconv.ParseUint(text, 10, 32)
	if err != nil || strconv.FormatUint(value, 10) != text {
		return fmt.Errorf("want the number of a generation, such as 7, not %.40q", text)
	}
	*g = generation(value)
	return nil
}

// asUsage makes the fault of a request one of the command line. It keeps nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// newNonce is 32 hexadecimal digits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
