package simulations

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Situations from the field, by number.

// B 4, refill 0: three checks in eu and four in us, both live: 4 in all.
func TestCase01TwoRegionsShareFour(t *testing.T) {
	s := newScript(t, 2, bucket(4, 0), nil)
	var got []*outcome
	for i := range 7 {
		got = append(got, s.check(i%2, 1))
	}
	s.pass(20 * time.Second)
	for i := range 7 { // whoever was told to wait asks again
		got = append(got, s.check(i%2, 1))
		s.pass(3 * time.Second)
	}
	if n := allowed(got); n != 4 {
		t.Errorf("%d were admitted, want 4", n)
	}
}

// The clock steps back 2 s while idle state is being dropped: no live state is
// lost.
func TestCase05ClockStepsBack(t *testing.T) {
	readings, stepped := 0, false
	s := newScript(t, 2, bucket(10, 1), func(c *Config) {
		c.Faults.ForgetIdle = true
		c.Hooks.Moment = func(_ *owner, m *shard.Moment) {
			if readings++; stepped && readings%2 == 0 {
				m.Mono -= 2 * time.Second
			}
		}
	})
	s.check(0, 3)
	s.pass(time.Second)
	for range 20 {
		stepped = true
		s.check(1, 1)
		s.pass(300 * time.Millisecond)
	}
	stepped = false
	s.pass(20 * time.Second)
	if l := s.ledger(); l.Reserved() != 0 {
		t.Errorf("all is closed, and this is left: %v", l)
	}
	got := s.check(0, 10)
	s.pass(2 * time.Second)
	if got.reason != pb.Reason_REASON_ALLOWED {
		t.Errorf("a full budget answers %v", got.reason)
	}
}

// Wall clocks are a minute or a year off: nothing is granted early.
func TestCase06WallClocks(t *testing.T) {
	wall := int64(0)
	s := newScript(t, 1, bucket(3, 3), func(c *Config) {
		c.Hooks.Moment = func(_ *owner, m *shard.Moment) { m.UnixMs += wall }
	})
	for i := range 100 {
		wall = []int64{60_000, -60_000, 31_536_000_000}[i%3]
		s.check(0, 1)
		s.pass(100 * time.Millisecond) // the judge watches each
	}
}

// Broker down, three regions, B 90: the total stays at 90 or below.
func TestCase07BrokerDownThreeRegions(t *testing.T) {
	s := newScript(t, 3, bucket(90, 0), nil)
	for range 5 {
		for site := range 3 {
			s.check(site, 4)
		}
		s.pass(100 * time.Millisecond)
	}
	s.brokersDown(time.Minute)
	for range 100 {
		for site := range 3 {
			s.check(site, 1)
		}
		s.pass(50 * time.Millisecond)
	}
	if s.Stats().Admitted > 90 {
		t.Errorf("%d were admitted of 90", s.Stats().Admitted)
	}
	s.pass(2 * time.Minute)
	for range 100 {
		for site := range 3 {
			s.check(site, 1)
		}
		s.pass(100 * time.Millisecond)
	}
	if s.Stats().Admitted != 90 {
		t.Errorf("%d were admitted of 90 in the end", s.Stats().Admitted)
	}
}

// The broker answers that it is overloaded: the region spends the credit that it
// has, and nothing else.
func TestCase08BrokerOverloaded(t *testing.T) {
	overloaded := false
	s := newScript(t, 1, bucket(20, 0), func(c *Config) {
		c.Hooks.Refuse = func() bool { return overloaded }
	})
	for range 8 {
		s.check(0, 1)
		s.pass(200 * time.Millisecond)
	}
	overloaded = true
	before := s.Stats().Admitted
	_, has := s.sites[0].serving().mgr.Held(s.keys[0])
	if has == 0 {
		t.Fatal("the region holds nothing to spend")
	}
	var got []*outcome
	for range 30 {
		got = append(got, s.check(0, 1))
		s.pass(100 * time.Millisecond)
	}
	s.pass(5 * time.Second)
	if spent := s.Stats().Admitted - before; spent != has {
		t.Errorf("%d were admitted of the %d that the region held", spent, has)
	}
	for i, o := range got[has:] {
		if o.reason != pb.Reason_REASON_UNAVAILABLE {
			t.Errorf("check %d without credit is answered %v", int(has)+i, o.reason)
		}
	}
}

// The owning broker is killed: holders renew at another, without help.
func TestCase09OwnerKilled(t *testing.T) {
	s := newScript(t, 2, bucket(100, 50), nil)
	var got []*outcome
	for i := range 200 {
		for site := range 2 {
			got = append(got, s.check(site, 1))
		}
		s.pass(100 * time.Millisecond)
		if i == 50 {
			s.route(0).crash(time.Hour, time.Second)
		}
	}
	s.pass(5 * time.Second)
	if n := allowed(got); n < 360 {
		t.Errorf("only %d of 400 were admitted, far below what refills", n)
	}
	if n := allowed(got[200:]); n < 190 {
		t.Errorf("only %d of the last 200 were admitted", n)
	}
}

// The broker is gone for ten minutes, then back: all holders reconnect by
// themselves, spread out.
func TestCase10TenMinutes(t *testing.T) {
	const sites = 20
	var contacts []time.Duration
	var s *script
	back := time.Duration(1 << 62)
	seen := map[string]bool{}
	s = newScript(t, sites, bucket(1000, 100), func(c *Config) {
		c.Brokers = 1
		c.Hooks.Request = func(w *World, p *process, _ *pb.SyncRequest) {
			if w.now >= back && !seen[p.name] {
				seen[p.name] = true
				contacts = append(contacts, w.now-back)
			}
		}
	})
	for site := range sites {
		s.check(site, 1)
	}
	s.pass(time.Second)
	s.brokersDown(10 * time.Minute)
	back = s.now + 10*time.Minute
	for range 600 {
		for site := range sites {
			s.check(site, 3)
		}
		s.pass(time.Second)
	}
	s.pass(10 * time.Second)
	if len(contacts) != sites {
		t.Fatalf("%d of %d holders came back", len(contacts), sites)
	}
	slices.Sort(contacts)
	if spread := contacts[sites-1] - contacts[0]; spread < 500*time.Millisecond {
		t.Errorf("all came back within %v: %v", spread, contacts)
	}
	for site := range sites {
		o := s.check(site, 1)
		s.pass(time.Second)
		if o.reason != pb.Reason_REASON_ALLOWED {
			t.Errorf("site %d is answered %v after the return", site, o.reason)
		}
	}
}

// A holder with 50 of 100 is killed: what it held stays visibly reserved; its
// restart hands the unspent part back.
func TestCase12KilledHolderComesBack(t *testing.T) {
	s := newScript(t, 1, bucket(100, 0), nil)
	s.check(0, 40)
	s.pass(500 * time.Millisecond)
	s.check(0, 10)
	s.pass(time.Second)
	p := s.sites[0].serving()
	spent := s.Stats().Admitted
	_, held := p.mgr.Held(s.keys[0])
	p.alive = false // killed, and not started again yet
	p.disk.lock = nil
	s.sites[0].current = nil
	s.healed = true // no chaos that restarts it
	s.pass(10 * time.Minute)
	if got := s.ledger().Reserved(); got < held || got == 0 {
		t.Errorf("%d are reserved, at least the %d that the dead holder held should be", got, held)
	}
	s.sites[0].start()
	s.pass(time.Minute)
	if l := s.ledger(); l.Reserved() != 0 || l.Available > 100-spent {
		t.Errorf("after the restart: %v, %d were spent", l, spent)
	}
}

// A grant request is repeated with the same identity: debited once.
func TestCase15RepeatedRequest(t *testing.T) {
	s := newScript(t, 1, bucket(10, 0), func(c *Config) { c.Faults.Duplicate = 100 })
	for range 30 {
		s.check(0, 1)
		s.pass(500 * time.Millisecond)
	}
	if s.Stats().Admitted != 10 {
		t.Errorf("%d of 10 were admitted", s.Stats().Admitted)
	}
	s.pass(20 * time.Second)
	if l := s.ledger(); l.Available != 0 || l.Reserved() != 0 {
		t.Errorf("all is spent, and the ledger says %v", l)
	}
}

// A policy so generous that it never binds: at most one sync per interval, not
// one per check.
func TestCase18NeverBinds(t *testing.T) {
	s := newScript(t, 1, bucket(1_000_000, 1_000_000), nil)
	p := s.sites[0].serving()
	var got []*outcome
	check := func(d time.Duration) {
		for end := s.now + d; s.now < end; {
			got = append(got, s.check(0, 1))
			s.pass(2 * time.Millisecond)
		}
	}
	check(3 * time.Second) // it learns the demand
	before, from := p.sent, s.now
	check(10 * time.Second)
	most := int((s.now-from)/s.cfg.SyncInterval) + 3 // lists on top
	if sent := p.sent - before; sent > most {
		t.Errorf("%d requests in %v, want at most %d", sent, s.now-from, most)
	}
	s.pass(time.Second)
	if n := allowed(got); n != len(got) {
		reasons := map[pb.Reason]int{}
		for _, o := range got {
			reasons[o.reason]++
		}
		t.Errorf("%d of %d were admitted: %v", n, len(got), reasons)
	}
}

// 200 callers on one key while credit remains: all are admitted.
func TestCase20ManyCallers(t *testing.T) {
	s := newScript(t, 1, bucket(200, 0), nil)
	var got []*outcome
	for range 200 {
		got = append(got, s.check(0, 1))
	}
	s.pass(2 * time.Second)
	if n := allowed(got); n != 200 {
		t.Errorf("%d of 200 were admitted", n)
	}
}

// Capacity 100 lowered to 10 with 60 leased: nothing new is granted until less
// than 10 is out.
func TestCase31LoweredCapacity(t *testing.T) {
	s := newScript(t, 2, bucket(100, 0), nil)
	s.check(0, 60)
	s.check(0, 60) // waits: 60 are asked for once more
	s.pass(100 * time.Millisecond)
	p := bucket(10, 1)
	p.Rule.Version = 2
	s.SetPolicy(0, p)
	before := s.ledger()
	for range 200 {
		s.check(1, 1)
		s.pass(20 * time.Millisecond)
		after := s.ledger()
		if reserved := before.Reserved(); after.Rule.Version == 2 && reserved > 10 && issued(after) > issued(before) {
			t.Fatalf("granted with %d out: %v", reserved, after)
		}
		before = after
	}
	s.pass(20 * time.Second)
	o := s.check(1, 1)
	s.pass(2 * time.Second)
	if o.reason != pb.Reason_REASON_ALLOWED {
		t.Errorf("the new capacity is never served: %v, %v", o.reason, s.ledger())
	}
}

// issued is all that was issued under the grants that live.
func issued(l *lease.Ledger) (n int64) {
	for _, g := range l.Grants {
		n += g.Issued
	}
	return n
}

// etcd members restart while grants are out: nothing is reused early, nothing
// lives for ever.
func TestCase13StoreRestarts(t *testing.T) {
	s := newScript(t, 2, bucket(100, 0), nil)
	for range 10 {
		s.check(0, 2)
		s.check(1, 3)
		s.pass(100 * time.Millisecond)
	}
	for range 3 {
		s.trouble.outage++ // no member answers
		for range 50 {
			s.check(0, 1)
			s.check(1, 1)
			s.pass(100 * time.Millisecond)
		}
		s.trouble = trouble{uncertain: 1} // the first answers are lost
		s.pass(2 * time.Second)
		s.trouble = trouble{}
		for _, b := range s.brokers {
			b.loseSession(time.Second)
		}
		s.pass(5 * time.Second)
	}
	for range 100 {
		s.check(0, 1)
		s.check(1, 1)
		s.pass(100 * time.Millisecond)
	}
	s.pass(30 * time.Second)
	if s.Stats().Admitted != 100 {
		t.Errorf("%d were admitted of 100, first and last", s.Stats().Admitted)
	}
	if l := s.ledger(); l.Reserved() != 0 || l.Available != 0 {
		t.Errorf("all is spent, and the ledger says %v", l)
	}
}

// 10,000 grants fall due for renewal in one second: here that is, 10,000 budgets
// are used at the same moment, twice. Grants do not expire, so nothing falls due
// while they are idle, and what is written goes in batches.
func TestCase14ManyGrantsAtOnce(t *testing.T) {
	const budgets = 10_000
	cfg := Config{Seed: 1, Replay: "go test ./simulations -run " + t.Name(), Brokers: 2, IdleAfter: time.Hour, SyncInterval: 100 * time.Millisecond}
	for i := range budgets {
		p := bucket(1000, 0)
		p.Operation = fmt.Sprintf("op-%05d", i)
		cfg.Policies = append(cfg.Policies, p)
	}
	cfg.Journals = append(cfg.Journals, holder.JournalOff)
	s := &script{New(cfg), t}
	s.quiet = true
	s.pass(2 * time.Second)
	p := s.sites[0].serving()
	use := func() (requests int, commits int64) {
		requests, commits = p.sent, s.Stats().Commits
		for i := range budgets {
			p.check(i, 1, nil)
		}
		s.pass(10 * time.Second)
		return p.sent - requests, s.Stats().Commits - commits
	}
	requests, commits := use()
	t.Logf("first use: %d requests, %d commits", requests, commits)
	if n := len(s.mirror.grants); n != budgets {
		t.Fatalf("%d grants for %d budgets", n, budgets)
	}
	// A budget and its grant are two writes, 126 of which fit a transaction.
	if most := int64(3 * 2 * budgets / 126); commits > most {
		t.Errorf("%d commits for %d first grants, want at most %d", commits, budgets, most)
	}
	requests, commits = p.sent, s.Stats().Commits
	s.pass(time.Minute)
	if n, c := p.sent-requests, s.Stats().Commits-commits; n > 20 || c > 30 { // lists, and ledger time
		t.Errorf("%d requests and %d commits in a minute for grants that nobody uses", n, c)
	}
	requests, commits = use()
	t.Logf("second use: %d requests, %d commits", requests, commits)
	if most := int64(3 * 2 * budgets / 126); commits > most || requests > budgets/100 {
		t.Errorf("%d requests and %d commits for %d reports, want at most %d and %d", requests, commits, budgets, budgets/100, most)
	}
}

// A budget is exhausted, then its capacity is raised: waiters go on at the next
// sync.
func TestCase19RaisedCapacity(t *testing.T) {
	s := newScript(t, 2, bucket(10, 1), func(c *Config) { c.Faults = Faults{} })
	for range 2 {
		s.check(0, 10)
	}
	s.pass(time.Second)
	waits := make([]*outcome, 2)
	for site := range waits {
		waits[site] = &outcome{}
		s.sites[site].serving().await(0, 8, func(r pb.Reason) { waits[site].reason = r })
	}
	s.pass(time.Second)
	p := bucket(100, 100)
	p.Rule.Version = 2
	s.SetPolicy(0, p)
	s.pass(time.Second)
	for site, o := range waits {
		if o.reason != pb.Reason_REASON_ALLOWED {
			t.Errorf("the check that waits at site %d is %v a second after refill was raised: %v", site, o.reason, s.ledger())
		}
	}
}

// An idle connection is cut silently, and the holder with it: no grant is lost.
func TestCase35IdleConnectionCut(t *testing.T) {
	s := newScript(t, 1, bucket(100, 0), func(c *Config) { c.IdleAfter = time.Hour })
	s.check(0, 5)
	s.pass(5 * time.Second)
	held := s.ledger().Reserved()
	for i := range s.brokers {
		s.net.cut(s.sites[0].node, s.brokers[i].node, 0)
		s.net.cut(s.brokers[i].node, s.sites[0].node, 0)
	}
	s.pass(time.Hour)
	if l := s.ledger(); l.Reserved() != held || held == 0 {
		t.Errorf("%d were held, and after an hour without a word %v", held, l)
	}
	s.net.mend()
	var got []*outcome
	for range 100 {
		got = append(got, s.check(0, 1))
		s.pass(50 * time.Millisecond)
	}
	s.pass(5 * time.Second)
	if n := allowed(got); n != 95 {
		t.Errorf("%d of the 95 left were admitted", n)
	}
}
