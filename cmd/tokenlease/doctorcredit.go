package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// shardSilentWarn: an owner stores its ledger time every five seconds once it
	// has committed anything.
	shardSilentWarn = 30 * time.Second
	// holderSilentWarn is far above the time in which a limiter reports, and the help
	// names it.
	holderSilentWarn = 2 * time.Minute
	// namedMost is how many things a finding names.
	namedMost = 10
)

// restoreHealth is about a declared restore.
func restoreHealth(d *diagnosis, e *examination) {
	switch {
	case unseen(d, "restore", e.restoreErr):
	case e.restore.GetUnknown():
		d.fail("restore", "once nothing of before the restore runs: tokenlease restore attest",
			"generation %d was declared to be a restored copy, and is not attested: nothing is granted", e.restore.GetGeneration())
	default:
		d.ok("restore", "none is open, in generation %d", e.restore.GetGeneration())
	}
}

// shardHealth is about owners.
func shardHealth(d *diagnosis, e *examination) {
	if unseen(d, "shards", e.shardsErr) {
		return
	}
	shards := e.shards.GetShards()
	if without := shardsWithoutOwner(shards); len(without) > 0 {
		d.fail("shards", "see that a broker is live and reaches etcd; limiters spend what they hold meanwhile",
			"%s without an owner: nothing of theirs is granted", shardList(without))
	}
	silent := silentShards(e)
	if len(silent) > 0 {
		d.warn("shards", "see the logs of their owners, and how long etcd takes to commit",
			"%s with an owner that has committed nothing for %v", shardList(silent), shardSilentWarn)
	}
	if len(silent)+len(shardsWithoutOwner(shards)) == 0 {
		d.ok("shards", "all %d have an owner that commits", len(shards))
	}
}

// silentShards are those whose owner has stopped committing.
func silentShards(e *examination) (silent []uint32) {
	brokerNow := time.UnixMilli(e.answering().cluster.GetUnixMs())
	for _, s := range e.shards.GetShards() {
		if s.GetBrokerId() != "" && s.GetHead() > 0 && s.GetCommittedUnixMs() > 0 && brokerNow.Sub(time.UnixMilli(s.GetCommittedUnixMs())) > shardSilentWarn {
			silent = append(silent, s.GetShard())
		}
	}
	return silent
}

// policyHealth is about versions that are not everywhere, and limits that were
// lowered below what is out.
func policyHealth(d *diagnosis, e *examination) {
	if unseen(d, "policies", e.policyErr) {
		return
	}
	s := e.policy
	if behind := s.GetShardsBehind(); len(behind) > 0 {
		d.warn("policies", "it takes some seconds; if it does not pass, see the logs of their owners", "%s behind policy version %d", shardList(behind), s.GetVersion())
	}
	if behind := s.GetHoldersBehind(); len(behind) > 0 {
		list := named(behind, func(h *tokenleasev1.HolderLag) string {
			return fmt.Sprintf("%s holds credit under version %d or older", holderName(h.GetHolder()), h.GetPolicyVersion())
		})
		d.warn("policies", "it takes up to 30 s; if it does not pass, see whether they reach a broker: tokenlease holders list",
			"%s behind policy version %d: %s", isAre(int64(len(behind)), "limiter"), s.GetVersion(), list)
	}
	whole := s.GetUnusableCount() == 0 // else see recordHealth
	if len(s.GetShardsBehind())+len(s.GetHoldersBehind()) == 0 && whole {
		d.ok("policies", "nobody holds credit under an older version than %d", s.GetVersion())
	}
	if above := s.GetBudgetsAboveCount(); above > 0 {
		d.warn("limits", "it is called back; see who holds it: tokenlease policy status",
			"%s more out than the capacity: until it is in, the old one is the guarantee", hasHave(above, "budget"))
		return
	}
	if whole {
		d.ok("limits", "no budget has more out than its capacity")
	}
}

// holderHealth is about limiters that hold credit in silence.
func holderHealth(d *diagnosis, e *examination) {
	if unseen(d, "holders", e.holdersErr) {
		return
	}
	brokerNow := time.UnixMilli(e.answering().cluster.GetUnixMs())
	silent := 0
	for _, h := range e.holders.GetHolders() {
		heard := max(h.GetLastHeardUnixMs(), h.GetRegisteredUnixMs())
		if quiet := brokerNow.Sub(time.UnixMilli(heard)); h.GetLiveTokens() > 0 && !h.GetRetired() && quiet > holderSilentWarn {
			silent++
			name := holderName(h.GetHolder())
			d.warn("holders", "it may be cut off and still spend that. Start it again with its journal; if it is gone for good: tokenlease holders retire "+name,
				"%s has not been heard of for %s, more than %s, and holds %s of %s", name, spanInWords(quiet), spanInWords(holderSilentWarn), countOf(h.GetLiveTokens(), "token"), countOf(h.GetLiveGrants(), "grant"))
		}
	}
	if silent == 0 {
		d.ok("holders", "none of %d holds credit and was silent for more than %s", len(e.holders.GetHolders()), spanInWords(holderSilentWarn))
	}
}

// orphanHealth is about credit that nobody has accounted for, by the holder that
// had it.
func orphanHealth(d *diagnosis, e *examination) {
	if unseen(d, "orphaned", e.holdersErr) {
		return
	}
	found := false
	for _, h := range e.holders.GetHolders() {
		if h.GetOrphanedGrants() == 0 {
			continue
		}
		found = true
		name := holderName(h.GetHolder())
		next := fmt.Sprintf("start %s with the journal of that time: it accounts for it. If that journal is lost and no such process can ever resume: tokenlease grants resolve ID for each of tokenlease grants list --holder %s --state orphaned; or stop it, and after a minute: tokenlease holders retire %s", name, name, name)
		if h.GetRetired() || h.GetFenced() {
			next = fmt.Sprintf("start %s again with its journal: it accounts for it. If it is gone for good: tokenlease holders retire %s", name, name)
		}
		of := orphansOf(e, h.GetHolder())
		d.warn("orphaned", lapsing(of, h.GetOrphanedGrants())+next, "%s in %s of earlier epochs of %s stay reserved%s", countOf(h.GetOrphanedTokens(), "token"),
			countOf(h.GetOrphanedGrants(), "grant"), name, examples(of))
	}
	if !found && e.holders.GetUnusableCount() == 0 {
		d.ok("orphaned", "all credit is accounted for or live")
	}
}

// recordHealth is about records that cannot be read, of those that were asked about:
// what they hold is in no figure, and nothing is well for sure that they are about.
func recordHealth(d *diagnosis, e *examination) {
	var faults []string
	count := int64(0)
	for _, answer := range []partial{e.holders, e.policy, e.shards} {
		faults, count = addUnusable(faults, count, answer)
	}
	if count == 0 {
		if !unseen(d, "records", errors.Join(e.holdersErr, e.policyErr, e.shardsErr)) {
			d.ok("records", "all that were asked about can be read")
		}
		return
	}
	d.fail("records", "keep the store as it is, and see `tokenlease verify`, which names all; what they hold stays reserved until they are mended",
		"%s cannot be read, so figures of credit are too low, and more may be orphaned, behind or above a capacity than is told: %s", countOf(count, "record"), oneLine(strings.Join(faults, "; ")))
}

// orphansOf are a holder's orphaned grants, as far as they were looked at.
func orphansOf(e *examination, holder *tokenleasev1.Holder) (of []*tokenleasev1.Grant) {
	for _, g := range e.orphans {
		if holderName(g.GetHolder()) == holderName(holder) {
			of = append(of, g)
		}
	}
	return of
}

// examples names some grants.
func examples(grants []*tokenleasev1.Grant) string {
	if len(grants) == 0 {
		return ""
	}
	return ": " + named(grants, (*tokenleasev1.Grant).GetGrantId)
}

// lapsing says which of so many orphaned grants need nobody, since their policies
// reclaim by deadline; empty for none.
func lapsing(looked []*tokenleasev1.Grant, all int64) string {
	latest, count := latestLapse(looked)
	which := fmt.Sprintf("of %d of these grants the credit lapses", count)
	switch {
	case count == 0:
		return ""
	case int64(count) == all:
		which = "wait: all of it lapses"
	}
	return fmt.Sprintf("%s by itself, at the latest %s after that epoch's newest request about the budget, or after a change of the shard's owner, and counts as spent then (reclaim: deadline). To have back before what was not spent: ",
		which, strictyaml.FormatDuration(latest))
}

// named are some of many, by name.
func named[T any](all []T, name func(T) string) string {
	var some []string
	for _, one := range all[:min(len(all), namedMost)] {
		some = append(some, name(one))
	}
	slices.Sort(some)
	if left := len(all) - len(some); left > 0 {
		some = append(some, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(some, ", ")
}

// hasHave is a number of things with its verb.
func hasHave(n int64, thing string) string {
	if n == 1 {
		return countOf(n, thing) + " has"
	}
	return countOf(n, thing) + " have"
}
