package shard

import "time"

// attestFence notes that an operator has attested that no process of the epoch, or of
// an earlier one, runs or can ever resume.
func (b *batch) attestFence(s *Shard, f *fence, epoch uint64) {
	if epoch > f.attested {
		f.attested = epoch
		b.touchFence(s, f)
	}
}

// judgeAttestation takes a request of a fenced epoch for what it is: if that epoch was
// attested to be gone, the attestation was wrong. The request is refused like any other,
// but what its sender has admitted since may be above the budget, which no ledger shows.
// So it is counted, and of many one in a second is logged, and of one holder one in a
// minute.
func (s *Shard) judgeAttestation(f *fence, epoch uint64) {
	if epoch > f.attested {
		return
	}
	s.stats.RetiredHeard++
	if s.moment.Mono < max(s.retiredAgain, f.retiredAgain) {
		return
	}
	s.retiredAgain, f.retiredAgain = s.moment.Mono+time.Second, s.moment.Mono+time.Minute
	s.log.Error("a limiter has spoken after it was attested that nothing of its epoch runs: the attestation was wrong, unless the network has held the request back, and what was admitted since may be above the budget. It is fenced; make sure that it ends, and run `tokenlease audit list` for who attested that, and why",
		"holder", f.Holder.String(), "epoch", epoch, "so_far", s.stats.RetiredHeard)
}
