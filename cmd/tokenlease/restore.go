package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

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

    1. Stop every broker.
    2. Restore etcd: its own restore, or the copied data directory.
    3. tokenlease restore declare --data-dir DIR --because "..."
       (or --etcd-endpoints; with --broker where brokers run already)
    4. Start the brokers. Nothing is granted yet.
    5. Start every limiter again, or make sure that it has ended for good: those
       that are reached are fenced, and end by themselves.
    6. tokenlease restore attest --because "..."

From then on every budget has what refill earns.`
	return cmd
}

func (p *program) restoreStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the generation in force and the restores that were declared",
		Long: `Show the generation in force and the restores that were declared.

Epochs and grant IDs tell their generation: grants of generation 7 are called
g7-..., and its epochs begin at 1 + 6 * 2^32.`,
		Example: `  tokenlease restore status
  tokenlease restore status --data-dir /var/lib/tokenlease`,
	}
	return p.restoreRun(cmd, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		status, err := admin.show(ctx)
		if err != nil {
			return err
		}
		switch {
		case status.GetUnknown():
			fmt.Fprintf(p.stderr, "Generation %d. Nothing is granted until `tokenlease restore attest`.\n", status.GetGeneration())
		default:
			fmt.Fprintf(p.stderr, "Generation %d.\n", status.GetGeneration())
		}
		return p.write(s.client.output, status, restoreTable(status.GetRestores()...))
	})
}

func (p *program) restoreDeclareCommand() *cobra.Command {
	request := &tokenleasev1.DeclareRestoreRequest{Nonce: newNonce()}
	again := false
	cmd := &cobra.Command{
		Use:   "declare --because REASON",
		Short: "Declare that etcd was restored from an older copy",
		Long: `Declare that etcd was restored from an older copy. Do so before a broker serves
from it: with --data-dir or --etcd-endpoints, while all of them are stopped. What a
broker grants before the declaration is above the budgets.

Everything of before is fenced: limiters have to start again, and what they report
of their past changes nothing. A new generation of epochs and grant IDs begins. All
of every budget is reserved as unknown credit, and nothing is granted, until
` + "`tokenlease restore attest`" + `. There is no way back but the attestation.

If the copy is older than an earlier declaration, or a limiter says that its
journal is ahead, name the highest generation that was ever in force: --above.

If it is not known whether the store took it, ` + "`tokenlease restore status`" + ` tells.`,
		Example: `  tokenlease restore declare --data-dir /var/lib/tokenlease --because "the backup of Monday 06:00, ticket 4711"
  tokenlease restore declare --broker http://10.0.0.5:7600 --because "..."`,
	}
	cmd.Flags().StringVar(&request.Because, "because", "", "which copy was restored, and why: recorded (required)")
	cmd.Flags().StringVar(&request.DeclaredBy, "by", currentUser(), "who declares: recorded")
	cmd.Flags().Uint32Var(&request.AboveGeneration, "above", 0, "`generation` that was in force before, where the copy does not know of it")
	cmd.Flags().BoolVar(&again, "again", false, "the store was restored once more since a declaration that is not attested")
	return p.restoreRun(cmd, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		if request.GetBecause() == "" {
			return usageErrorf("--because is required: say which copy was restored")
		}
		status, err := admin.show(ctx)
		if err != nil {
			return err
		}
		if status.GetUnknown() && !again {
			return exitError{code: exitRefused, text: fmt.Sprintf("a restore is declared already, in generation %d, and not attested: nothing is granted.\nIf the store was restored once more since then, say so with --again", status.GetGeneration())}
		}
		request.ReplacedGeneration = status.GetGeneration()
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		done, err := admin.declare(ctx, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, "Declared: generation %d has begun, and nothing is granted.\nStart every limiter again, or make sure that it has ended for good; then run `tokenlease restore attest`.\n", done.GetGeneration())
		return p.write(s.client.output, &tokenleasev1.DeclareRestoreResponse{Restore: done}, restoreTable(done))
	})
}

func (p *program) restoreAttestCommand() *cobra.Command {
	request := &tokenleasev1.AttestRestoreRequest{}
	cmd := &cobra.Command{
		Use:   "attest --because REASON",
		Short: "Attest that no process of before the restore is left",
		Long: `Record that no limiter of before the declared restore runs, or can ever resume:
each was started again, was fenced and has ended, or its machine is gone for good.
Then what they may have held counts as spent now, and every budget has what refill
earns from now on.

This is your word against every budget. If such a limiter does come back before it
is told that it is fenced, more is spent than the budgets have. HOLDER and STATE in
` + "`tokenlease holders list`" + ` show which have started again: the others are "fenced".
Limiters that first started after the copy was taken are not in that list.

A fixed quota never refills, so it stays at 0. To hand it out anew, give its policy
a refill, wait until that has filled it, and take the refill out again.`,
		Example: `  tokenlease restore attest --because "all 12 gateways were restarted, ticket 4711"`,
	}
	cmd.Flags().StringVar(&request.Because, "because", "", "how you know: recorded (required)")
	cmd.Flags().StringVar(&request.AttestedBy, "by", currentUser(), "who attests: recorded")
	return p.restoreRun(cmd, func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error {
		if request.GetBecause() == "" {
			return usageErrorf("--because is required: say how you know that no limiter of before the restore can ever resume")
		}
		status, err := admin.show(ctx)
		if err != nil {
			return err
		}
		if status.GetGeneration() < 2 {
			return exitError{code: exitRefused, text: "no restore was declared, so there is nothing to attest"}
		}
		request.Generation = status.GetGeneration()
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		done, err := admin.attest(ctx, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, "Attested: what was unknown counts as spent, and every budget refills from now on.\n")
		return p.write(s.client.output, &tokenleasev1.AttestRestoreResponse{Restore: done}, restoreTable(done))
	})
}

// restoreTable is a table of declared restores.
func restoreTable(restores ...*tokenleasev1.Restore) *table {
	t := &table{heading: []string{"GENERATION", "REPLACED", "DECLARED", "BY", "BECAUSE", "ATTESTED", "BY", "BECAUSE"}}
	for _, r := range restores {
		attested := "no"
		if r.GetAttested() {
			attested = moment(r.GetAttestedUnixMs())
		}
		t.add(r.GetGeneration(), r.GetReplacedGeneration(), moment(r.GetDeclaredUnixMs()), r.GetDeclaredBy(), r.GetBecause(),
			attested, r.GetAttestedBy(), r.GetAttestedBecause())
	}
	return t
}

// newNonce is 32 hexadecimal digits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
