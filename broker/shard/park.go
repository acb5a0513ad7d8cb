package shard

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// minPark keeps a request that refill will serve from waking for every
// nanosecond of rounding.
const minPark = time.Millisecond

// mayHang says that the request asked to wait, and that all there is to tell it
// is a shortage which time or a return can end. It sets when to look again.
func (j *syncJob) mayHang(s *Shard) bool {
	now := s.moment.Mono
	if j.gave || !j.short || now >= j.deadline {
		return false
	}
	recalling := false
	j.wakeAt = j.deadline
	for _, a := range j.resp.Budgets {
		if a.GetShortage() == pb.Shortage_SHORTAGE_RECALLING {
			recalling = true
		}
		again := recallPatience // others may have left by then
		if a.GetHasRetry() {
			again = max(minPark, time.Duration(a.GetRetryInNs()))
		}
		j.wakeAt = min(j.wakeAt, now+again)
	}
	if j.recalling && !recalling {
		return false // what was called back will not come: that is news
	}
	j.rerun, j.recalling = true, recalling
	return true
}

func (j *syncJob) asks(key lease.Key) bool {
	return slices.ContainsFunc(j.req.GetBudgets(), func(r *pb.BudgetReport) bool { return keyOf(r.GetKey()) == key })
}

// wakeParked runs parked requests again whose time has come.
func (s *Shard) wakeParked(m Moment) {
	s.wakeIf(func(j *syncJob) bool { return j.canceled || m.Mono >= j.wakeAt })
}

// wake runs parked requests again that want credit of this budget.
func (s *Shard) wake(e *entry) {
	s.wakeIf(func(j *syncJob) bool { return j.asks(e.key) })
}

func (s *Shard) wakeAllParked() { s.wakeIf(func(*syncJob) bool { return true }) }

func (s *Shard) wakeIf(ready func(*syncJob) bool) {
	s.parked = slices.DeleteFunc(s.parked, func(j *syncJob) bool {
		if !ready(j) {
			return false
		}
		s.hear(j)
		j.reset()
		s.woken = append(s.woken, j)
		return true
	})
}

// hear counts the demands of a request that waited as heard of: its holder is
// there.
func (s *Shard) hear(j *syncJob) {
	for _, r := range j.req.GetBudgets() {
		e := s.ledgers[keyOf(r.GetKey())]
		if e == nil {
			continue
		}
		if at, found := e.findDemand(j.holder); found && e.demands[at].epoch == j.req.GetEpoch() {
			e.demands[at].heard = s.moment.Mono
		}
	}
}

// supersede answers a parked request of the same holder when a newer report of
// one of its budgets arrives: a holder applies only the answer to its newest.
func (s *Shard) supersede(newer *syncJob, key lease.Key, sequence uint64, b *batch) {
	s.parked = slices.DeleteFunc(s.parked, func(j *syncJob) bool {
		if j == newer || j.holder != newer.holder || j.req.GetEpoch() != newer.req.GetEpoch() {
			return false
		}
		at := slices.IndexFunc(j.req.GetBudgets(), func(r *pb.BudgetReport) bool {
			return keyOf(r.GetKey()) == key && r.GetSequence() < sequence
		})
		if at < 0 {
			return false
		}
		for _, a := range j.resp.Budgets { // what it told of the others is old as well
			a.Shortage, a.HasRetry, a.RetryInNs = pb.Shortage_SHORTAGE_SUPERSEDED, false, 0
		}
		b.done = append(b.done, j)
		return true
	})
}
