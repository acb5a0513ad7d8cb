package shard

import (
	"slices"
	"time"
)

// A sweep looks at sweepSize ledgers every sweepEvery, so a pass over a million
// takes a while and no commit waits for it.
const (
	sweepEvery = time.Second
	sweepSize  = 4096
)

func (s *Shard) nextSweep() time.Duration { return s.lastSweep + sweepEvery }

// sweep drops ledgers that were not used for a while: from memory, and when
// they are full with nothing out, which is what no record means, from the store
// as well. What is dropped from memory alone is read again when it is needed.
func (s *Shard) sweep(b *batch) {
	if s.moment.Mono < s.nextSweep() {
		return
	}
	s.lastSweep = s.moment.Mono
	for range min(sweepSize, len(s.order)) {
		if s.swept >= len(s.order) {
			s.swept = 0
		}
		if e := s.order[s.swept]; s.idle(e) && s.dropFull(e, b) {
			delete(s.ledgers, e.key)
			last := len(s.order) - 1
			s.order[s.swept], s.order[last] = s.order[last], nil
			s.order = s.order[:last]
			continue
		}
		s.swept++
	}
}

func (s *Shard) idle(e *entry) bool {
	return !e.dirty && !e.reading && s.moment.Mono-e.touched > s.cfg.IdleAfter &&
		!slices.ContainsFunc(s.parked, func(j *syncJob) bool { return j.asks(e.key) })
}

// dropFull drops the record of an idle budget that is full with nothing out, and
// says false when the batch has no room for that.
func (s *Shard) dropFull(e *entry, b *batch) bool {
	if !e.exists || !e.recorded || e.unknown {
		return true
	}
	if pol, ok := s.policies[e.key.Operation]; ok && pol.Rule.Version > e.ledger.Rule.Version {
		// Dropped under its old rule it would start full under the new one, and a
		// capacity that was raised would be minted at once (C8).
		if !b.full() {
			s.install(e, pol, b)
		}
		return false
	}
	s.turn(e)
	e.ledger.Advance(s.now)
	if !e.ledger.Full() || !s.fullWithout(e.key.Operation) {
		return true
	}
	if b.full() {
		return false
	}
	b.drop(e)
	return true
}

// installJob brings a loaded budget to the newest policy.
type installJob struct{ entry *entry }

func (j *installJob) run(s *Shard, b *batch) progress {
	e := j.entry
	pol, ruled := s.policies[e.key.Operation]
	if !ruled || s.ledgers[e.key] != e || !s.install(e, pol, b) {
		return complete
	}
	for _, g := range e.ledger.Grants {
		b.hintKey(s, g.Holder, e.key)
	}
	s.wake(e)
	return complete
}

func (j *installJob) finish(*Shard) {}
func (j *installJob) fail(error)    {}
func (j *installJob) restart() bool { return false }
