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
	s.forgetRoundTrips()
	for range min(sweepSize, len(s.order)) {
		if s.swept >= len(s.order) {
			s.swept = 0
		}
		if e := s.order[s.swept]; s.idle(e) && s.dropFull(e, b) {
			delete(s.ledgers, e.key)
			s.lapseNever(e)
			last := len(s.order) - 1
			s.order[s.swept], s.order[last] = s.order[last], nil
			s.order = s.order[:last]
			continue
		}
		s.swept++
	}
}

func (s *Shard) idle(e *entry) bool {
	return !e.dirty && !e.reading && !e.asking && !s.lapsingSoon(e) && s.moment.Mono-e.touched > s.cfg.IdleAfter && !s.reminding(e) &&
		!slices.ContainsFunc(s.parked, func(j *syncJob) bool { return j.asks(e.key) })
}

// dropFull drops the record of an idle budget that is full with nothing out, as far as
// no record means the same, and says false when the batch has no room for that.
func (s *Shard) dropFull(e *entry, b *batch) bool {
	if !e.exists || !e.recorded || e.unknown || e.err != nil {
		return true
	}
	if e.fresh { // what is stored is of before a restore, and means what no record means
		if b.full() {
			return false
		}
		b.drop(e)
		return true
	}
	if !s.knowsAccount(e) {
		s.readAccount(e, b) // which policy rules it decides below
		return false
	}
	if s.era.Generation > 1 && e.account != nil {
		return true // without a record it would begin anew, with all of it spent: see unused
	}
	pol, ruled := s.ruling(e)
	if ruled && pol.Rule.Version > e.ledger.Rule.Version {
		// Dropped under its old rule it would start full under the new one, and a
		// capacity that was raised would be minted at once (C8).
		if !b.full() {
			s.install(e, pol, b)
		}
		return false
	}
	s.turn(e)
	e.ledger.Advance(s.now)
	if !e.ledger.Full() || !s.fullWithout(e.key, pol, ruled) {
		return true
	}
	if b.full() {
		return false
	}
	b.drop(e)
	return true
}
