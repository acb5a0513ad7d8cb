package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The tests in this file run on simulated time, which passes when every
// goroutine of the cluster waits.

// sessions is a store in memory whose sessions end when a test says so.
type sessions struct {
	*store.Memory
	mu   sync.Mutex
	last store.Session
	made int
}

func (s *sessions) NewSession(ctx context.Context, ttl time.Duration) (store.Session, error) {
	session, err := s.Memory.NewSession(ctx, ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.made = session, s.made+1
	return session, err
}

func (s *sessions) expire(notify bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ExpireSession(s.last.ID(), notify)
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// bubble runs a test on simulated time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A broker whose session has ended joins again with a new one, and takes its
// shards again; the grants are as they were.
func TestSessionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := store.NewMemory()
		mine := &sessions{Memory: mem}
		s := newLocalSite(t, mem, 4)
		n := s.start("a", func(c *Config) { c.Store = mine }).ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		h.ask("acme", 10)
		for i := range 3 {
			mine.expire(true)
			pass(10 * time.Second)
			if got := h.insist(h.asking("acme", 10)).GetBudgets()[0]; got.GetIssuedTokens() != 10 {
				t.Fatalf("after %d sessions: %v", i+1, got)
			}
		}
		if mine.count() != 4 {
			t.Errorf("%d sessions, want 4", mine.count())
		}
		s.settled(n)
		s.requireBalance("acme", 30, 10)
	})
}

// One of three brokers loses its session and does not notice: the others take
// over. When it notices it joins again, and gets its share back.
func TestSessionEndsUnnoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := store.NewMemory()
		paused := &sessions{Memory: mem}
		s := newLocalSite(t, mem, 16)
		a, b := s.start("a"), s.start("b")
		c := s.start("c", func(cfg *Config) { cfg.Store = paused })
		s.settled(a, b, c)
		paused.expire(false)
		pass(10 * time.Second)
		s.settled(a, b)
		paused.expire(true)
		pass(10 * time.Second)
		s.settled(a, b, c)
	})
}

// A shard that belongs to a broker which is announced but does not take it is
// taken by another after a while, and kept.
func TestAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := store.NewMemory()
		s := newLocalSite(t, mem, 1)
		ghost := ""
		for i := 0; preferred(0, []record.Broker{{ID: "a"}, {ID: ghost}}) != ghost || ghost == ""; i++ {
			ghost = fmt.Sprintf("ghost-%d", i)
		}
		s.putRecord(s.layout.Broker(ghost), record.Broker{ID: ghost, URL: "http://nowhere"})
		n := s.start("a")
		pass(adoptAfter - time.Millisecond)
		if n.owned() != 0 {
			t.Error("taken at once from the broker that it belongs to")
		}
		pass(2 * time.Second)
		taken := n.ownership.runner(0)
		pass(time.Minute)
		if taken == nil || n.ownership.runner(0) != taken {
			t.Error("not taken, or not kept")
		}
		s.remove(s.layout.Broker(ghost))
		pass(10 * time.Second)
		if n.ownership.runner(0) != taken {
			t.Error("not kept when it belongs to this broker anyway")
		}
	})
}

// Time in which nobody owned a shard earns nothing, and a new owner's clock
// continues where the last commit of the old one stood (contract C2).
func TestLedgerTimeStandsStill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 1))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		settle := h.asking("acme", 0, h.ask("acme", 40).GetGrantId())
		settle.Budgets[0].SpentTokens = 40
		h.sync(settle)
		n.stop()
		pass(time.Hour)
		next := h.at(s.start("b").ready())
		req := next.asking("acme", 40)
		req.Budgets[0].NeedTokens = 0
		if got := next.insist(req).GetBudgets()[0].GetIssuedTokens(); got > 41 {
			t.Errorf("%d tokens were issued for an hour without an owner", got-40)
		}
		pass(10 * time.Second)
		if got := next.insist(next.asking("acme", 9)).GetBudgets()[0]; got.GetIssuedTokens() < 49 {
			t.Errorf("after 10s under an owner: %v", got)
		}
	})
}

// CASE 22: many tiny budgets, each touched once: memory and keys return to where
// they were.
func TestCase22IdleBudgetsGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const budgets = 500
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 20))
		h := n.join("eu", "limiter-0").hears("warm-up", 1)
		pass(time.Minute)
		start, end := record.All(s.layout.Shard(0))
		before := len(s.keys(start, end))

		req := h.request("acme")
		for i := range budgets {
			req.Budgets = append(req.Budgets, &pb.BudgetReport{Key: key(fmt.Sprint(i)), Sequence: 100, WantTokens: 5, NeedTokens: 5})
		}
		var closes []*pb.GrantAccount
		for _, answer := range h.sync(req).GetBudgets() {
			closes = append(closes, &pb.GrantAccount{Key: answer.GetKey(), GrantId: answer.GetGrantId(), SpentTokens: 5})
		}
		if during := len(s.keys(start, end)); during != before+2*budgets {
			t.Fatalf("%d keys for %d budgets with a grant each, before %d", during, budgets, before)
		}
		pass(time.Minute)
		if during := len(s.keys(start, end)); during != before+2*budgets {
			t.Errorf("%d keys while everything is out, want %d", during, before+2*budgets)
		}
		final := h.request("acme")
		final.Closes = closes
		h.sync(final)
		pass(time.Minute)
		if after := len(s.keys(start, end)); after != before {
			t.Errorf("%d keys, before %d", after, before)
		}
		loaded := make(chan int, 1)
		n.ownership.runner(0).insist(func(s *shard.Shard, _ shard.Moment) { loaded <- s.Budgets() })
		if in := <-loaded; in != 0 {
			t.Errorf("%d budgets are still in memory", in)
		}
		if got := h.asking("7", 40); h.sync(got).GetBudgets()[0].GetIssuedTokens() != 40 {
			t.Error("a budget without a record is not full")
		}
	})
}

// What an attestation counts as spent comes back through refill alone.
func TestResolvedComesBackByRefill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 20))
		old := n.join("eu", "limiter-0").hears("acme", 1)
		grant := old.ask("acme", 40).GetGrantId()
		fresh := n.join("eu", "limiter-0", old.epoch)
		pass(time.Hour) // all is out: nothing is earned, and silence proves nothing
		if got := fresh.ask("acme", 1); got.GetIssuedTokens() != 0 {
			t.Fatalf("with all out under a dead epoch: %v", got)
		}
		if resp, err := n.resolve(grant, false); err != nil || resp.GetCountedAsSpentTokens() != 40 {
			t.Fatalf("resolved: %v, %v", resp, err)
		}
		pass(500 * time.Millisecond)
		req := fresh.asking("acme", 40)
		req.Budgets[0].NeedTokens = 1
		if got := fresh.sync(req).GetBudgets()[0].GetIssuedTokens(); got != 10 {
			t.Errorf("%d tokens half a second after the attestation, want 10", got)
		}
	})
}

// A shard whose head cannot be read is read again now and then, not as fast as
// the store can answer.
func TestUnreadableHead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := store.NewFaulty(store.NewMemory())
		s := newLocalSite(t, mem, 1)
		var mu sync.Mutex
		reads := 0
		mem.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if ofShard(txn) {
				reads++
			}
			return next()
		}
		s.put(s.layout.Head(0), []byte("{"))
		s.start("a").ready()
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most := 2 * int(10*time.Second/storePause); reads < 2 || reads > most {
			t.Errorf("%d reads in 10s, want 2 to %d", reads, most)
		}
	})
}
