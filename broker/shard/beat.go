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
	return min(s.stored+beatEvery, s.polled+pollEvery)
}

// beat stores ledger time when nothing else has for a while.
func (s *Shard) beat(b *batch) {
	if s.headRevision != 0 && s.moment.Mono-s.stored >= beatEvery {
		b.clock = true
	}
}
