package simulations

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// script is a world without faults and without demand of its own, for tests that
// say what happens.
type script struct {
	*World
	t *testing.T
}

// bucket is a policy of capacity and refill a second.
func bucket(capacity, refill int64) lease.Policy {
	return lease.Policy{Operation: "op-a", DefaultCost: 1, Rule: lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: capacity, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: refill, Interval: time.Second},
	}}
}

// newScript runs a world until its processes are up.
func newScript(t *testing.T, sites int, policy lease.Policy, change func(*Config)) *script {
	t.Helper()
	cfg := Config{Seed: 1, Replay: "go test ./simulations -run " + t.Name(), Brokers: 2, Policies: []lease.Policy{policy}}
	for range sites {
		cfg.Journals = append(cfg.Journals, holder.JournalBlock)
	}
	if change != nil {
		change(&cfg)
	}
	s := &script{New(cfg), t}
	s.quiet = true
	s.pass(2 * time.Second)
	return s
}

// pass lets time go by.
func (s *script) pass(d time.Duration) {
	s.t.Helper()
	if err := s.RunUntil(s.now + d); err != nil {
		s.t.Fatal(err)
	}
}

// outcome is how a check ends; unspecified while it waits.
type outcome struct{ reason pb.Reason }

// check starts a check at a site.
func (s *script) check(site int, cost int64) *outcome {
	o := &outcome{}
	s.sites[site].serving().check(0, cost, func(r pb.Reason) { o.reason = r })
	return o
}

// allowed counts how many checks were admitted.
func allowed(outcomes []*outcome) (n int) {
	for _, o := range outcomes {
		if o.reason == pb.Reason_REASON_ALLOWED {
			n++
		}
	}
	return n
}

// ledger is the budget as the store has it, brought to now where refill counts.
func (s *script) ledger() *lease.Ledger {
	return s.mirror.ledgers[s.keys[0]].ledger
}

// brokersDown stops all brokers for a time.
func (s *script) brokersDown(d time.Duration) {
	for _, b := range s.brokers {
		b.crash(d, time.Second)
	}
}

// A budget that was lowered is not full until it would have been full without
// that: else its record goes, and a policy that is rolled back gives out again
// what was spent.
func TestLoweredThenRaised(t *testing.T) {
	s := newScript(t, 1, bucket(10, 0), nil)
	var got []*outcome
	spend := func(n int) {
		for range n {
			got = append(got, s.check(0, 1))
			s.pass(50 * time.Millisecond)
		}
	}
	spend(5)
	s.pass(6 * time.Second) // what is left has come back
	lowered, raised := bucket(5, 0), bucket(10, 0)
	lowered.Rule.Version, raised.Rule.Version = 2, 3
	s.SetPolicy(0, lowered)
	s.pass(20 * time.Second) // the broker has looked whether it may forget the budget
	s.SetPolicy(0, raised)
	s.pass(time.Second)
	spend(12)
	if n := allowed(got); n != 10 {
		t.Errorf("a quota of 10, lowered to 5 after 5 were spent, and raised to 10 again: %d were admitted", n)
	}
}
