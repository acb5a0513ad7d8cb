package simulations

import (
	"fmt"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// many is a world of one site with so many budgets that requests, final accounts
// and lists take several transactions.
func many(t *testing.T, budgets, txnOps int) *script {
	cfg := Config{Seed: 1, Replay: "go test ./simulations -run " + t.Name(), Brokers: 2, TxnOps: txnOps, IdleAfter: time.Hour}
	for i := range budgets {
		p := bucket(10, 0)
		p.Operation = fmt.Sprintf("op-%03d", i)
		cfg.Policies = append(cfg.Policies, p)
	}
	cfg.Journals = append(cfg.Journals, "block")
	s := &script{New(cfg), t}
	s.quiet = true
	s.pass(2 * time.Second)
	for i := range budgets {
		s.sites[0].serving().check(i, 3, nil)
	}
	s.pass(10 * time.Second)
	if n := len(s.mirror.grants); n != budgets {
		t.Fatalf("%d grants for %d budgets", n, budgets)
	}
	return s
}

// settled holds that nothing is reserved, and exactly what was spent is gone, or
// at the most what was drawn.
func (s *script) settled(exactly bool) {
	s.t.Helper()
	for _, b := range s.mirror.ledgers {
		l := b.ledger
		if l.Reserved() != 0 || l.Available > 7 || exactly && l.Available != 7 {
			s.t.Errorf("3 of 10 were spent, and this is left: %v", l)
		}
	}
}

// The grants of a killed holder come back by its journal, page by page, also
// when the owner changes in between.
func TestManyGrantsOfKilledHolder(t *testing.T) {
	for _, txnOps := range []int{8, 20, 128} {
		for _, failOver := range []bool{false, true} {
			s := many(t, 100, txnOps)
			s.sites[0].serving().crash()
			s.after(6*time.Second, "start", "", 0, s.sites[0].restart)
			if failOver {
				s.after(6*time.Second+150*time.Millisecond, "lose", "", 0, func() { s.route(0).loseSession(time.Second) })
			}
			s.pass(time.Minute)
			s.settled(false)
		}
	}
}

// A holder that stops in order hands in exact counters of all its grants.
func TestManyGrantsOfStoppedHolder(t *testing.T) {
	for _, txnOps := range []int{8, 20, 128} {
		s := many(t, 100, txnOps)
		p := s.sites[0].serving()
		p.stop()
		s.pass(30 * time.Second)
		if !p.clean {
			t.Error("the holder has not ended")
		}
		s.settled(true)
	}
}

// An operator resolves the grants of a holder that never comes back, one by one.
func TestManyGrantsAttested(t *testing.T) {
	s := many(t, 40, 20)
	h := s.sites[0].holder
	s.sites[0].serving().exit()
	s.healed = true // nobody starts it again
	s.attest(true)
	s.pass(10 * time.Second)
	if n := len(s.mirror.grants); n != 0 {
		t.Errorf("%d grants of %v are left", n, h)
	}
	for _, b := range s.mirror.ledgers {
		if b.ledger.Available+b.ledger.Cut > 7 || b.ledger.Rule.Kind != lease.TokenBucket {
			t.Errorf("what was out came back as a burst: %v", b.ledger)
		}
	}
}
