package shard

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// spreadLoads is how many budgets a spread loads at a time, so that requests keep
// most of each transaction.
const spreadLoads = 16

// remindFor is for how long holders are hinted again, at every beat, that a newer
// policy is in force: a hint may be lost.
const remindFor = time.Minute

// maxHinted is how many budgets one hint names: what does not fit into the
// subscriber's queue waits for the next reminder.
const maxHinted = 1000

// spreadJob brings a policy version to the stored budgets that are not in memory and
// have credit out: their holders may have nothing to ask for, and have to hear of it.
// Budgets of which nothing is out take it up when they are used, or dropped.
//
// The shard has taken a version up, as its head tells, once a spread of it is
// through. Answers are under the version as soon as it was read.
type spreadJob struct {
	version int64
	changed policyset.Delta
	from    string // where the next page starts; empty: from the first budget
	reading bool
	read    bool
	last    bool // the page is the last one
	found   []lease.Key
}

// startSpread brings a version that is not taken up yet to the stored budgets. One
// that is on its way finds by itself that there is a newer one. A store without a
// policy version has none to take up.
func (s *Shard) startSpread() {
	if !s.policies.Recorded || s.policies.Version == s.taken {
		s.taken = s.policies.Version
		return
	}
	s.remindUntil = s.moment.Mono + remindFor
	if !s.spreading {
		s.spreading = true
		s.queue = append(s.queue, &spreadJob{version: -1})
	}
}

func (j *spreadJob) run(s *Shard, b *batch) progress {
	if j.version != s.policies.Version {
		*j = spreadJob{version: s.policies.Version, changed: s.policies.ChangedSince(s.taken), last: s.era.Unknown()}
		j.last = j.last || j.changed.Empty()
		j.read = j.last
	}
	for !b.full() {
		if !j.read {
			if !j.reading {
				j.readPage(s, b)
			}
			return again
		}
		if !j.load(s, b) {
			return again
		}
		if j.last {
			s.taken, s.spreading = j.version, false
			b.clock = true
			return complete
		}
		j.read = false
	}
	return again
}

// load brings up what the page has found, as far as the batch has room, and says
// whether all of it is done.
func (j *spreadJob) load(s *Shard, b *batch) bool {
	for len(j.found) > 0 {
		if b.full() {
			return false
		}
		e, ok := s.entry(j.found[0], b)
		if !ok {
			for _, key := range j.found[1:min(spreadLoads, len(j.found))] {
				s.entry(key, b)
			}
			return false
		}
		s.bringUp(e, b)
		j.found = j.found[1:]
	}
	return true
}

func (j *spreadJob) readPage(s *Shard, b *batch) {
	key, end := record.All(s.cfg.Layout.Budgets(s.cfg.ID))
	op := store.Op{Kind: store.OpRange, Key: max(key, j.from), End: end, Limit: scanSize}
	j.reading = b.read(op, func(r store.OpResult) error {
		j.reading, j.read, j.last = false, true, !r.More
		for _, kv := range r.KVs {
			j.from = kv.Key + "\x00"
			stored, err := record.Decode[record.Budget](kv)
			if err == nil && j.concerns(s, stored) {
				j.found = append(j.found, lease.Key{Account: stored.Account, Operation: stored.Operation})
			}
		}
		return nil
	})
}

// concerns says that the budget has credit out, perhaps under another policy than the
// one that rules it. Of those in memory only the ones that are known to be under it are
// seen to already: another may still be read, or have been read for something else.
func (j *spreadJob) concerns(s *Shard, stored record.Budget) bool {
	key := lease.Key{Account: stored.Account, Operation: stored.Operation}
	if len(stored.Grants) == 0 || stored.Since() != s.era.Generation || !j.changed.Concerns(key) {
		return false
	}
	if e := s.ledgers[key]; e != nil && e.known && e.accountKnown {
		pol, ruled := s.ruling(e)
		return ruled && pol.Rule.Version > e.ledger.Rule.Version
	}
	pol, ruled := s.common(stored.Operation)
	return s.policies.Accounts || !ruled || pol.Rule.Version > stored.Rule.Version
}

func (j *spreadJob) finish(*Shard) {}
func (j *spreadJob) fail(error)    {}
func (j *spreadJob) restart() bool { return false }

// outdated says that the grant's holder has not installed the budget's policy, as far
// as it has told, and could still.
func (s *Shard) outdated(e *entry, g *lease.Grant) bool {
	return !g.Kept && e.installed[g.ID] < e.ledger.Rule.Version && !s.fence(g.Holder).Fences(g.Epoch)
}

// awaited are the budgets in memory of which the holder epoch has a grant and not the
// policy: the hint may have been lost.
func (s *Shard) awaited(h lease.Holder, epoch uint64) []lease.Key {
	var keys []lease.Key
	for _, e := range s.order {
		if live := e.ledger.Live(h, epoch); live != nil && s.outdated(e, live) {
			keys = append(keys, e.key)
		}
	}
	return keys
}

// remind hints the holders of budgets in memory again that have not installed their
// policy.
func (s *Shard) remind() {
	if s.moment.Mono >= s.remindUntil || len(s.subs) == 0 {
		return
	}
	awaited := map[lease.GrantHolder][]lease.Key{}
	for _, e := range s.order {
		for i := range e.ledger.Grants {
			if g := &e.ledger.Grants[i]; s.outdated(e, g) {
				awaited[g.Of()] = append(awaited[g.Of()], e.key)
			}
		}
	}
	for _, sub := range s.subs {
		sub.tell(slices.Clone(awaited[lease.GrantHolder{Holder: sub.holder, Epoch: sub.epoch}]), false)
	}
}

// reminding says that the budget is kept in memory for its holders to be reminded.
func (s *Shard) reminding(e *entry) bool {
	return s.moment.Mono < s.remindUntil &&
		slices.ContainsFunc(e.ledger.Grants, func(g lease.Grant) bool { return s.outdated(e, &g) })
}
