package shard

import "time"

const (
	// beatEvery bounds what a new owner loses: ledger time runs on from the value
	// that was stored last, so time after it earns nothing.
	beatEvery = 5 * time.Second
	// pollEvery bounds how long a missed hint keeps a policy from this shard.
	pollEvery = 15 * time.Second
)

func (s *Shard) nextBeat() time.Duration {
	if s.headRevision == 0 {
		return s.polled + pollEvery // nothing was ever recorded
	}
	return min(s.beaten+beatEvery, s.polled+pollEvery)
}

// beat stores ledger time when no commit has for a while, and reads on among the
// stored budgets.
func (s *Shard) beat(b *batch) {
	now := s.moment.Mono
	if s.headRevision == 0 || now-s.beaten < beatEvery {
		return
	}
	s.beaten = now
	s.remind()
	b.clock = now-s.stored >= beatEvery/2
	if !s.scanning {
		s.scanning = true
		s.queue = append(s.queue, &scanJob{})
	}
}
