package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// shardSilentWarn: an owner stores its ledger time every five seconds once it
	// has committed anything.
	shardSilentWarn = 30 * time.Second
	// holderSilentWarn is far above the time in which a limiter reports.
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
			return fmt.Sprintf("%s has version %d", holderName(h.GetHolder()), h.GetPolicyVersion())
		})
		d.warn("policies", "it takes up to 30 s; if it does not pass, see whether they reach a broker: tokenlease holders list",
			"%s behind policy version %d: %s", isAre(int64(len(behind)), "limiter"), s.GetVersion(), list)
	}
	if len(s.GetShardsBehind())+len(s.GetHoldersBehind()) == 0 {
		d.ok("policies", "version %d is everywhere", s.GetVersion())
	}
	if above := s.GetBudgetsAboveCount(); above > 0 {
		d.warn("limits", "it is called back; see who holds it: tokenlease policy status",
			"%s more out than the capacity: until it is in, the old one is the guarantee", hasHave(above, "budget"))
		return
	}
	d.ok("limits", "no budget has more out than its capacity")
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
				"%s has not been heard of for %s, and holds %s of %s", name, spanInWords(quiet), countOf(h.GetLiveTokens(), "token"), countOf(h.GetLiveGrants(), "grant"))
		}
	}
	if silent == 0 {
		d.ok("holders", "none of %d holds credit in silence", len(e.holders.GetHolders()))
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
		next := fmt.Sprintf("start %s with the journal of that time: it accounts for it. If that journal is lost and no such process can ever resume: tokenlease grants resolve ID, see tokenlease grants list --holder %s --state orphaned", name, name)
		if h.GetRetired() || h.GetFenced() {
			next = fmt.Sprintf("start %s again with its journal: it accounts for it. If it is gone for good: tokenlease holders retire %s", name, name)
		}
		d.warn("orphaned", next, "%s in %s of earlier epochs of %s stay reserved%s", countOf(h.GetOrphanedTokens(), "token"),
			countOf(h.GetOrphanedGrants(), "grant"), name, orphanExamples(e, h.GetHolder()))
	}
	if !found {
		d.ok("orphaned", "all credit is accounted for or live")
	}
}

// orphanExamples names some of a holder's orphaned grants.
func orphanExamples(e *examination, holder *tokenleasev1.Holder) string {
	var of []*tokenleasev1.Grant
	for _, g := range e.orphans {
		if holderName(g.GetHolder()) == holderName(holder) {
			of = append(of, g)
		}
	}
	if len(of) == 0 {
		return ""
	}
	return ": " + named(of, (*tokenleasev1.Grant).GetGrantId)
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
