package simulations

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func rollingWindow(version, limit int64, window time.Duration) lease.Policy {
	p := bucket(limit, 0)
	p.Rule = lease.Rule{Kind: lease.RollingWindow, Version: version, Capacity: limit, Window: window, MaxSharePercent: 100}
	return p
}

func concurrency(version, slots int64) lease.Policy {
	p := bucket(slots, 0)
	p.Rule = lease.Rule{Kind: lease.Concurrency, Version: version, Capacity: slots, MaxSharePercent: 100}
	return p
}

// reportDelay is how long it takes at the most until a spend is settled, in a world
// without faults: the interval of reports, a step, two messages and a commit. A window
// ends so much later than an ideal one, and never earlier: the ledger counts from the
// settlement on.
const reportDelay = 350 * time.Millisecond

// window is a world with checks at exact instants, counted from the first of them.
type window struct {
	*script
	first time.Duration
}

// at goes on to an instant.
func (w *window) at(d time.Duration) {
	w.t.Helper()
	if w.first == 0 {
		w.first = w.now
	}
	w.pass(w.first + d - w.now)
}

// admits holds that a check of 1 is admitted at an instant.
func (w *window) admits(d time.Duration) {
	w.t.Helper()
	w.at(d)
	o := w.check(0, 1)
	w.pass(time.Second / 2)
	if o.reason != pb.Reason_REASON_ALLOWED {
		w.t.Errorf("at %v: %v", d, o.reason)
	}
}

// waits holds that a check is denied at an instant, with the right time to wait.
func (w *window) waits(d, want time.Duration) {
	w.t.Helper()
	w.at(d)
	o, p := w.check(0, 1), w.sites[0].serving()
	for o.reason == pb.Reason_REASON_UNSPECIFIED {
		w.pass(time.Millisecond)
	}
	spent := w.now - w.first - d
	v := p.budget(0).Judge(1, p.mono())
	if o.reason != pb.Reason_REASON_EXHAUSTED || !v.HasRetry || v.RetryIn < want-spent || v.RetryIn > want-spent+reportDelay {
		w.t.Errorf("at %v: %v, wait %+v, want %v", d, o.reason, v, want-spent)
	}
}

// CASE 41: three in 60 s, admitted at 0, 10 and 20 s. At 50 s the wait is 10 s, at
// 59 s 1 s, and when that has passed a check is admitted: never before 60 s.
func TestCase41RollingWindowAtExactInstants(t *testing.T) {
	w := &window{script: newScript(t, 1, rollingWindow(1, 3, time.Minute), nil)}
	for _, at := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		w.admits(at)
	}
	w.waits(50*time.Second, 10*time.Second)
	w.waits(59*time.Second, time.Second)
	w.waits(time.Minute-1, 1)
	w.admits(time.Minute + reportDelay)
	w.waits(65*time.Second, 5*time.Second)
}

// CASE 42: lowered from five to three with five retained, the wait is until the
// first three have left.
func TestCase42LoweredWithFiveRetained(t *testing.T) {
	w := &window{script: newScript(t, 1, rollingWindow(1, 5, time.Minute), nil)}
	for at := range 5 {
		w.admits(time.Duration(10*at) * time.Second)
	}
	w.at(45 * time.Second)
	w.SetPolicy(0, rollingWindow(2, 3, time.Minute))
	w.waits(50*time.Second, 30*time.Second)
	w.waits(79*time.Second, time.Second)
	w.admits(80*time.Second + reportDelay)
}

// CASE 16: a holder dies with two of three slots in use. They stay reserved, beyond
// the end of their work, until that is attested; the third comes back by the journal
// if it was not drawn, or with them.
func TestCase16HolderDiesWithSlotsInUse(t *testing.T) {
	for _, journal := range []string{"block", "off"} {
		s := newScript(t, 2, concurrency(1, 3), func(c *Config) {
			c.Journals[0], c.Work = "block", 10*time.Second
			if journal == "off" {
				c.Journals[0] = "off"
			}
		})
		p := s.sites[0].serving()
		for range 2 {
			p.start(0, &waiter{cost: 1, until: s.now + time.Second, plan: plan{lasts: 20 * time.Second}})
		}
		s.pass(2 * time.Second)
		if n := p.inUse(0); n != 2 {
			t.Fatalf("%d slots are in use", n)
		}
		p.crash()
		s.pass(10 * time.Second)
		other := s.sites[1].serving()
		free := s.ledger().Available + heldBy(other)
		if most := map[string]int64{"block": 1}[journal]; free > most {
			t.Errorf("journal %s: with the work going on %d slots are free, want %d at the most: %v", journal, free, most, s.ledger())
		}
		s.attest(true)
		s.pass(5 * time.Second)
		if p.inUse(0) != 2 || s.ledger().Reserved()-heldBy(other)-heldBy(s.sites[0].serving()) < 2 {
			t.Errorf("journal %s: the attestation came before the work had ended: %v", journal, s.ledger())
		}
		s.pass(10 * time.Second)
		s.attest(true)
		s.pass(10 * time.Second)
		o := &outcome{}
		other.await(0, 3, func(r pb.Reason) { o.reason = r })
		s.pass(15 * time.Second)
		if o.reason != pb.Reason_REASON_ALLOWED {
			t.Errorf("journal %s: three slots are not free at last: %v", journal, s.ledger())
		}
	}
}

// heldBy is what a process has of the first budget.
func heldBy(p *process) int64 {
	_, unspent := p.mgr.Held(p.w.keys[0])
	return unspent
}

// A reservation that is settled for less frees the rest at once, and one that nobody
// settles is spent when its time is over.
func TestReservationsInTheWorld(t *testing.T) {
	s := newScript(t, 1, func() lease.Policy { p := bucket(10, 0); p.Hold = 3 * time.Second; return p }(), nil)
	p := s.sites[0].serving()
	reserve := func(cost int64, uses int, lasts time.Duration) {
		p.start(0, &waiter{cost: cost, until: s.now + time.Second, plan: plan{reserves: true, uses: uses, lasts: lasts}})
	}
	reserve(6, 50, 2*time.Second) // uses 3
	reserve(4, 0, 20*time.Second) // nobody settles it in time
	s.pass(time.Second)
	if o := s.check(0, 1); o.reason == pb.Reason_REASON_ALLOWED {
		t.Error("what is reserved was spent")
	}
	s.pass(2 * time.Second)
	all := []*outcome{s.check(0, 2), s.check(0, 1), s.check(0, 1)}
	s.pass(10 * time.Second)
	if n := allowed(all); n != 2 || s.stats.Admitted != 3+4+3 {
		t.Errorf("%d of three checks were admitted, %d tokens in all: %v", n, s.stats.Admitted, s.ledger())
	}
}

// A holder closes its grant when slots become something else, with work going on. If
// that is heard only when there are slots again, the epoch is not left with a grant
// that it has closed, and that is in the way of others (seed 3499): the slots stay
// reserved beside what it opens next, and are attested when it and its work have
// ended.
func TestSlotsThatComeBackBeforeACloseIsHeard(t *testing.T) {
	s := newScript(t, 1, concurrency(1, 2), nil)
	p := s.sites[0].serving()
	p.start(0, &waiter{cost: 2, until: s.now + time.Second, plan: plan{lasts: 10 * time.Second}})
	s.pass(time.Second)
	s.SetPolicy(0, rollingWindow(2, 4, time.Second))
	for p.budget(0).policy().Rule.Version < 2 {
		if s.now > time.Minute {
			t.Fatal("the process hears of no other policy")
		}
		s.pass(50 * time.Microsecond)
	}
	s.sites[0].cut(2 * time.Second)
	for i := range s.brokers {
		s.net.cut(s.sites[0].node, s.net.broker(i), 2*time.Second)
	}
	s.SetPolicy(0, concurrency(3, 2))
	s.pass(15 * time.Second)
	p.crash()
	s.pass(10 * time.Second)
	s.attest(true)
	s.pass(time.Second)
	o := &outcome{}
	s.sites[0].serving().await(0, 2, func(r pb.Reason) { o.reason = r })
	s.pass(10 * time.Second)
	if o.reason != pb.Reason_REASON_ALLOWED {
		t.Errorf("there are two slots, and nobody gets them: %v", s.ledger())
	}
}

// What a lost history has spent of a window may be more than the copy's limit. So a
// limit that is raised after a restore, before the window has ended, frees nothing at
// once (seed 16897).
func TestLimitRaisedAfterARestore(t *testing.T) {
	s := newScript(t, 1, rollingWindow(1, 5, 10*time.Second), nil)
	copied := s.backup()
	s.SetPolicy(0, rollingWindow(2, 8, 10*time.Second))
	s.pass(time.Second)
	all := []*outcome{}
	spend := func(n int) {
		for range n {
			all = append(all, s.check(0, 1))
			s.pass(20 * time.Millisecond)
		}
	}
	spend(8)
	s.pass(time.Second)
	before := allowed(all)
	if before < 7 {
		t.Fatalf("%d of 8 were admitted", before)
	}
	s.sites[0].serving().crash()
	s.setBackDeclared(copied)
	s.pass(100 * time.Millisecond)
	s.attestRestore()
	s.pass(500 * time.Millisecond)
	s.SetPolicy(0, rollingWindow(3, 9, 10*time.Second))
	s.pass(time.Second)
	s.sites[0].restart()
	s.pass(2 * time.Second)
	spend(9)
	if n := allowed(all); n != before {
		t.Errorf("%d more were admitted, where nobody knows what the lost history has spent", n-before)
	}
	s.pass(12 * time.Second)
	spend(9)
	s.pass(time.Second)
	if n := allowed(all) - before; n < 8 {
		t.Errorf("after the window has ended %d are free, want 9", n)
	}
}
