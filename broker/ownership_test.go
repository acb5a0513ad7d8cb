package broker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
)

// settled waits until each shard is run by the broker that it belongs to among
// the nodes, and all of them know.
func (s *site) settled(nodes ...*node) {
	s.t.Helper()
	brokers := make([]record.Broker, len(nodes))
	for i, n := range nodes {
		brokers[i] = record.Broker{ID: n.cfg.ID}
	}
	for _, n := range nodes {
		for id := range s.shards {
			for {
				local, remote, changed := n.ownership.route(id)
				want := preferred(id, brokers)
				if remote.BrokerID == want && (local != nil) == (want == n.cfg.ID) {
					break
				}
				select {
				case <-changed:
				case <-s.ctx.Done():
					s.t.Fatalf("shard %d at %s: owner %q, running %v, want %q", id, n.cfg.ID, remote.BrokerID, local != nil, want)
				}
			}
		}
	}
}

// owned is how many shards a node runs.
func (n *node) owned() int { return n.ownership.count() }

// client is a store of its own on the shared etcd, which Close cuts off from it
// as a crash would: its sessions end when their time to live has passed.
func client(t *testing.T) *etcdstore.Store {
	t.Helper()
	st, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: etcd(t).Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// Two and three brokers on one etcd share the shards; one that joins gets its
// share, and one that stops in order leaves its share to the others at once.
func TestOwnershipSpreads(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s := newSite(t, st, 16)
		a := s.start("a")
		s.settled(a)
		if a.owned() != 16 {
			t.Errorf("alone it owns %d of 16", a.owned())
		}
		b := s.start("b")
		s.settled(a, b)
		c := s.start("c")
		s.settled(a, b, c)
		for _, n := range []*node{a, b, c} {
			if n.owned() == 0 || n.owned() == 16 {
				t.Errorf("%s owns %d of 16", n.cfg.ID, n.owned())
			}
		}
		b.stop()
		s.settled(a, c)
		if b.Ready() {
			t.Error("a stopped broker says that it is ready")
		}
	})
}

// CASE 11: one of three brokers is stopped in order, while callers ask the other
// two for budgets of every shard: they see errors for one deadline at most. What
// was granted before stays granted.
func TestCase11StoppedInOrder(t *testing.T) {
	const shards, deadline = 8, 5 * time.Second
	s := newSite(t, etcd(t).Store(), shards)
	a, b, c := s.start("a"), s.start("b"), s.start("c")
	s.settled(a, b, c)
	a.apply(bucket(1000, 0))
	stopping, stop := make(chan struct{}), make(chan struct{})
	var ready, all sync.WaitGroup
	for id := range uint32(shards) {
		h := []*node{a, c}[id%2].join("eu", string(rune('0'+id)))
		account := accountIn(id, shards)
		h.hears(account, 1)
		ready.Add(1)
		all.Go(func() {
			if got := h.insist(h.asking(account, 7)).GetBudgets()[0]; got.GetIssuedTokens() != 7 {
				t.Errorf("%s: %v", account, got)
			}
			ready.Done()
			<-stopping
			for after := false; !after; {
				select {
				case <-stop:
					after = true // one more round
				default:
				}
				start := time.Now()
				got := h.insist(h.asking(account, 7)).GetBudgets()[0]
				if got.GetIssuedTokens() != 7 {
					t.Errorf("%s: %v", account, got)
				}
				if took := time.Since(start); took > deadline {
					t.Errorf("shard %d was unavailable for %v", id, took)
				}
			}
		})
	}
	ready.Wait()
	close(stopping)
	b.stop()
	s.settled(a, c)
	close(stop)
	all.Wait()
	for id := range uint32(shards) {
		s.requireBalance(accountIn(id, shards), 993, 7)
	}
}

// CASES 7 and 9: the owning broker is killed. Until its session has ended nobody
// gets more than there is; then the other broker takes over without help, and
// the grants are as they were.
func TestCase09AnotherBrokerServes(t *testing.T) {
	const shards = 4
	s := newSite(t, etcd(t).Store(), shards)
	doomed := client(t)
	survivor := s.start("survivor", func(c *Config) { c.SessionTTL = 2 * time.Second })
	victim := s.start("victim", func(c *Config) { c.Store, c.SessionTTL = doomed, 2*time.Second })
	s.settled(survivor, victim)
	var shard uint32
	for preferred(shard, []record.Broker{{ID: "survivor"}, {ID: "victim"}}) != "victim" {
		shard++
	}
	account := accountIn(shard, shards)
	survivor.apply(bucket(90, 0))
	var holders []*holder
	var issued int64
	for _, region := range []string{"eu", "us", "ap"} {
		h := survivor.join(region, "limiter-0").hears(account, 1)
		issued += h.ask(account, 30).GetIssuedTokens()
		holders = append(holders, h)
	}
	if issued != 90 {
		t.Fatalf("%d of 90 are out", issued)
	}
	_ = doomed.Close()
	for _, h := range holders {
		req := h.asking(account, 30)
		if got := h.insist(req).GetBudgets()[0]; got.GetIssuedTokens() != 30 {
			t.Errorf("%v after the take-over: %v", h.name, got)
		}
	}
	s.requireBalance(account, 0, 90)
	s.settled(survivor)
}

// CASE 13: the etcd member restarts while grants are out: the broker goes on by
// itself, nothing is reused early, and nothing lives for ever.
func TestCase13EtcdRestarts(t *testing.T) {
	dir := t.TempDir()
	start := func(address string) *etcdstore.Embedded {
		e, err := etcdstore.StartEmbedded(t.Context(), etcdstore.EmbeddedConfig{Dir: dir, ClientAddr: address})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start("")
	address := e.Endpoints()[0][len("http://"):]
	st, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: e.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, st, 1)
	t.Cleanup(func() { _ = st.Close(); _ = e.Close() })
	n := s.start("a").ready()
	n.apply(bucket(40, 0))
	h := n.join("eu", "limiter-0").hears("acme", 1)
	grant := h.ask("acme", 25).GetGrantId()

	_ = e.Close()
	e = start(address)
	other := n.join("us", "limiter-0")
	if got := other.insist(other.asking("acme", 16)).GetBudgets()[0]; got.GetIssuedTokens() != 0 {
		t.Errorf("16 of 15 after the restart: %v", got)
	}
	settle := h.asking("acme", 10, grant)
	settle.Budgets[0].SpentTokens = 15
	if got := h.insist(settle).GetBudgets()[0]; got.GetGrantId() != grant || got.GetIssuedTokens() != 25 {
		t.Errorf("the grant after the restart: %v", got)
	}
	s.requireBalance("acme", 15, 10)
	if got := other.insist(other.asking("beta", 1)).GetBudgets()[0]; got.GetGrantId() <= grant {
		t.Errorf("grant %s after %s", got.GetGrantId(), grant)
	}
	h.insist(h.closing("acme", grant, 20, 0))
	s.requireBalance("acme", 20, 0)
}

// An acquisition whose outcome is unknown, though it was applied, does not keep
// the shard from everybody.
func TestAcquireUncertain(t *testing.T) {
	st := store.NewFaulty(store.NewMemory())
	var once sync.Once
	s := newSite(t, st, 1)
	st.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
		res, err := next()
		if len(txn.Then) == 1 && txn.Then[0].Key == s.layout.Owner(0) {
			once.Do(func() { err = errDeadline })
		}
		return res, err
	}
	n := s.start("a").ready()
	n.apply(bucket(40, 0))
	h := n.join("eu", "limiter-0").hears("acme", 1)
	if got := h.ask("acme", 10); got.GetIssuedTokens() != 10 {
		t.Errorf("after an uncertain acquisition: %v", got)
	}
}

// A broker that is stopping says so at once, and one whose store has another
// cluster does not start.
func TestStopping(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.start("a").ready()
	h := n.join("eu", "limiter-0")
	n.cancel()
	<-n.ownership.ended
	_, err := h.send(h.asking("acme", 1))
	requireCode(t, err, connect.CodeUnavailable)

	_, err = New(t.Context(), Config{
		Store: s.store, Prefix: s.layout.Prefix(), ClusterID: "another", AdvertiseURL: "http://x:1", HTTPClient: s.client,
	})
	if err == nil || !errors.Is(err, ErrOtherCluster) {
		t.Errorf("another cluster: %v", err)
	}
}
