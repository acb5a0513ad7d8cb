package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const holdersRetireLong = `Record that no process of the holder's epoch, or of an earlier one, runs or can
ever resume. Its epoch is fenced, and each of its grants is resolved: what is
outstanding counts as spent at that moment, and comes back by the rule of its budget,
through refill or as a window ends, and to a fixed quota never. Slots of a concurrency
rule are free at once instead: the work that holds them must have ended, wherever it
runs.

This is your word against the budgets. If such a process does come back, more is
spent than they have. Silence proves nothing: a region that cannot reach the broker
may still be spending what it holds. Where the limiter can be started again with its
journal, do that: it accounts for itself, and gives back what it has not spent.

What is attested is shown first, and the holder's name has to be typed to confirm
it. Without a terminal, say --yes together with --because. --dry-run only shows.
There is no way to retire several at once.

A holder that was heard less than a minute ago is refused, unless --force says that
you are sure; the record says so as well. If the command fails midway, repeat it.`

// retireFlags say whom to retire, and how.
type retireFlags struct {
	word   attestation
	dryRun bool
	force  bool
}

func (p *program) holdersRetireCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &retireFlags{}
	cmd := &cobra.Command{
		Use:   "retire REGION/INSTANCE --because REASON",
		Short: "Attest that a limiter is gone for good, and free what it held",
		Long:  holdersRetireLong,
		Example: `  # What would be attested?
  tokenlease holders retire eu/limiter-0 --dry-run

  tokenlease holders retire eu/limiter-0 --because "the rack has burned down, ticket 4711"

  # In a script, without the question.
  tokenlease holders retire eu/limiter-0 --because "ticket 4711" --yes`,
		ValidArgsFunction: p.completeArgs(settings, p.holderNames),
	}
	flags.word.register(cmd.Flags())
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "show what would be attested, and change nothing")
	cmd.Flags().BoolVar(&flags.force, "force", false, "also if it was heard a moment ago: recorded")
	return clientCommand(cmd, settings, 1, func(ctx context.Context, args []string) error {
		holder, err := parseHolder("retire takes one holder", args[0])
		if err != nil {
			return err
		}
		request := &tokenleasev1.RetireHolderRequest{
			Holder: holder, Because: flags.word.because, AttestedBy: flags.word.by, DryRun: flags.dryRun, Force: flags.force,
		}
		if flags.dryRun {
			return p.previewRetirement(ctx, settings, request)
		}
		if err := flags.word.check(p, "no process of this holder can ever resume"); err != nil {
			return err
		}
		request.Epoch = 1 // until it is known
		if err := validRequest(request); err != nil {
			return err
		}
		return p.retireHolder(ctx, settings, request, &flags.word)
	})
}

// previewRetirement prints what would be attested.
func (p *program) previewRetirement(ctx context.Context, settings *clientSettings, request *tokenleasev1.RetireHolderRequest) error {
	preview, err := ask(ctx, settings, settings.admin().RetireHolder, request)
	if err != nil {
		return err
	}
	p.tellRetirement(preview)
	return p.writeRetirement(settings, preview)
}

// retireHolder shows what is attested, has it confirmed, and attests.
func (p *program) retireHolder(ctx context.Context, settings *clientSettings, request *tokenleasev1.RetireHolderRequest, word *attestation) error {
	dry := &tokenleasev1.RetireHolderRequest{Holder: request.GetHolder(), DryRun: true, AttestedBy: request.GetAttestedBy(), Force: request.GetForce()}
	preview, err := ask(ctx, settings, settings.admin().RetireHolder, dry)
	if err != nil {
		return err
	}
	p.tellRetirement(preview)
	name := holderName(request.GetHolder())
	if preview.GetNeedsForce() && !request.GetForce() {
		return exitError{code: exitRefused, text: needsForce(name, preview)}
	}
	if !word.yes { // its grants, for who is asked
		if err := retirementTable(preview.GetGrants()).write(p.stderr); err != nil {
			return err
		}
	}
	if err := word.confirm(ctx, p, name, "retire it"); err != nil {
		return err
	}
	request.Epoch = preview.GetStatus().GetEpoch()
	done, err := ask(ctx, settings, settings.admin().RetireHolder, request)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "Retired: %s resolved, %s count as spent now, %s free now.\n", countOf(done.GetGrantsCount(), "grant"),
		countOf(done.GetCountedAsSpentTokens(), "token"), countOf(done.GetFreedSlots(), "slot"))
	return p.writeRetirement(settings, done)
}

// tellRetirement says in words what is attested.
func (p *program) tellRetirement(r *tokenleasev1.RetireHolderResponse) {
	h := r.GetStatus()
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster %s: %s, epoch %d, registered %s, heard %s.\n", cell(r.GetClusterId()), holderName(h.GetHolder()), h.GetEpoch(),
		p.momentAndAge(h.GetRegisteredUnixMs()), heardInWords(r))
	if h.GetRetired() {
		b.WriteString("It was retired before.\n")
	}
	b.WriteString("You attest that no process of this epoch, or of an earlier one, runs or can ever resume.\n")
	fmt.Fprintf(&b, "That resolves %s. %s out", countOf(r.GetGrantsCount(), "grant"), isAre(r.GetCountedAsSpentTokens(), "token"))
	if r.GetCountedAsSpentTokens() > 0 {
		fmt.Fprintf(&b, ". What is out counts as spent at that moment, and %s", comesBack(nil))
	}
	b.WriteString(".\n")
	if r.GetFreedSlots() > 0 {
		fmt.Fprintf(&b, "%s out: they are free at once. The work that holds them must have ended, not only the process.\n", isAre(r.GetFreedSlots(), "slot"))
	}
	if latest, lapsing := latestLapse(r.GetGrants()); lapsing > 0 {
		fmt.Fprintf(&b, "Without your word %s of those listed would lapse, each at the latest %s after its epoch's newest request about its budget, and count as spent then.\n",
			countOf(int64(lapsing), "grant"), strictyaml.FormatDuration(latest))
	}
	if n := r.GetUnusableCount(); n > 0 {
		fmt.Fprintf(&b, "%s in the way: what they hold stays reserved until they are mended; see `tokenlease verify`.\n", isAre(n, "unreadable record"))
		for _, fault := range r.GetUnusable() {
			fmt.Fprintf(&b, "  %s\n", cell(fault))
		}
	}
	if shown := int64(len(r.GetGrants())); shown < r.GetGrantsCount() {
		fmt.Fprintf(&b, "The first %s are listed; see `tokenlease grants list --holder %s` for all.\n", countOf(shown, "grant"), holderName(h.GetHolder()))
	}
	fmt.Fprint(p.stderr, b.String())
}

// isAre is a number of things with its verb.
func isAre(n int64, thing string) string {
	if n == 1 {
		return countOf(n, thing) + " is"
	}
	return countOf(n, thing) + " are"
}

// needsForce says why a holder is not retired without force, and when it would be.
func needsForce(name string, r *tokenleasev1.RetireHolderResponse) string {
	ago := time.Duration(r.GetHeardMsAgo()) * time.Millisecond
	if ago >= 0 && ago < heardLately {
		return fmt.Sprintf("%s was heard %s: it may well be alive.\nStop it and try again in %s, or say --force if you are sure that it has ended: that is recorded",
			name, heardInWords(r), spanInWords(heardLately-ago))
	}
	return fmt.Sprintf("it is not known yet whether %s is silent: the owner of a shard has not answered, or serves it for less than %s.\nTry again then, or say --force if you are sure that it has ended: that is recorded",
		name, spanInWords(heardLately))
}

// heardInWords is how long ago a holder was heard, as the broker tells it.
func heardInWords(r *tokenleasev1.RetireHolderResponse) string {
	if r.GetHeardMsAgo() < 0 {
		return "never"
	}
	return spanInWords(time.Duration(r.GetHeardMsAgo())*time.Millisecond) + " ago"
}

// writeRetirement prints the grants that are resolved, or would be.
func (p *program) writeRetirement(settings *clientSettings, r *tokenleasev1.RetireHolderResponse) error {
	t := retirementTable(r.GetGrants())
	if !r.GetDryRun() {
		for _, row := range t.rows {
			row[slices.Index(t.heading, "STATE")] = "resolved"
		}
	}
	return p.write(settings.output, r, t)
}

// retirementTable is a table of grants as they are before they are resolved: what is
// outstanding is what is attested.
func retirementTable(grants []*tokenleasev1.Grant) *table {
	t := grantTable(grants)
	t.heading = slices.Clone(t.heading)
	t.heading[slices.Index(t.heading, "OUTSTANDING")] = "ATTESTED"
	return t
}
