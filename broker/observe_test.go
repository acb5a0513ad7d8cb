package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// observed are all series of a registry by name and label values.
func observed(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "tokenlease_broker_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// expect holds series to values.
func expect(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if is, ok := got[name]; !ok || is != value {
			t.Errorf("%s is %v (%v), want %v", name, is, ok, value)
		}
	}
}

// The gauges of every broker together are what verify says, before and at once after
// a grant is resolved.
func TestCase54GaugesAgreeWithVerify(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		reg := prometheus.NewRegistry()
		s := newSite(t, st, 2)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(bucket(40, 0))
		old := n.join("eu", "limiter-0").hears("acme", 1)
		grant := old.ask("acme", 10).GetGrantId()
		n.join("us", "limiter-0").hears("acme", 1).ask("acme", 4)
		expect(t, observed(t, reg), map[string]float64{
			"reserved_tokens eu": 10, "orphaned_tokens eu": 0, "grants eu live": 1, "grants eu orphaned": 0, "reserved_tokens us": 4,
			"shards_owned": 2, "shards_unowned": 0, "policy_version": 1, "holder_policy_version eu/limiter-0": 1, "holder_grants_behind eu/limiter-0": 0,
		})
		n.join("eu", "limiter-0", old.epoch)
		n.verified(10)
		if _, err := n.resolve(grant, false); err != nil {
			t.Fatal(err)
		}
		n.verified(0)
		got := observed(t, reg)
		expect(t, got, map[string]float64{"reserved_tokens us": 4, "orphaned_tokens us": 0, "grants us live": 1})
		if got["reserved_tokens eu"]+got["orphaned_tokens eu"] != 0 {
			t.Errorf("what was resolved is still told: %v", got)
		}
	})
}

// Orphaned credit, a holder that lags, and who has how much, from both brokers.
func TestGaugesOverBrokers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 4)
		var regs []*prometheus.Registry
		var n *node
		for _, id := range []string{"a", "b"} {
			reg := prometheus.NewRegistry()
			regs = append(regs, reg)
			n = s.start(id, func(c *Config) { c.Registerer = reg })
		}
		n.ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0")
		for shard := range uint32(4) {
			h.hears(accountIn(shard, 4), 1)
			h.ask(accountIn(shard, 4), 10)
		}
		n.apply(bucket(41, 0)) // which the holder has not heard of
		sums := func() map[string]float64 {
			sum := map[string]float64{}
			pass(observeShare * observeWait)
			for _, reg := range regs {
				for name, value := range observed(t, reg) {
					sum[name] += value
				}
			}
			return sum
		}
		expect(t, sums(), map[string]float64{"reserved_tokens eu": 40, "grants eu live": 4, "holder_grants_behind eu/limiter-0": 4, "shards_owned": 4})
		n.join("eu", "limiter-0", h.epoch)
		expect(t, sums(), map[string]float64{"reserved_tokens eu": 40, "orphaned_tokens eu": 40, "grants eu live": 0, "grants eu orphaned": 4})
		n.verified(40)
	})
}

// What a restore leaves unknown is told as such, as verify does.
func TestGaugesAfterARestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newLocalSite(t, store.NewMemory(), 2)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(bucket(40, 0))
		n.join("eu", "limiter-0").hears("acme", 1).ask("acme", 10)
		_, err := n.admin.DeclareRestore(s.ctx, connect.NewRequest(&pb.DeclareRestoreRequest{
			ReplacedGeneration: 1, Nonce: strings.Repeat("n", 16), DeclaredBy: "ann", Because: "a test",
		}))
		if err != nil {
			t.Fatal(err)
		}
		pass(observeShare * observeWait)
		expect(t, observed(t, reg), map[string]float64{"reserved_tokens (restore)": 40, "orphaned_tokens (restore)": 40})
		n.verified(40)
	})
}

// However many regions and holders there are, their series are bounded, and no token
// is lost on the way.
func TestCase33RegionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(bucket(1000, 0))
		const regions = maxObservedHolders + 20
		for i := range regions {
			h := n.join(fmt.Sprintf("region-%d", i), "limiter-0")
			if i%2 == 0 {
				h.hears("acme", 1)
			}
			h.ask("acme", 1)
		}
		pass(observeShare * observeWait)
		counts, sum := map[string]int{}, 0.0
		for name, value := range observed(t, reg) {
			metric, _, _ := strings.Cut(name, " ")
			counts[metric]++
			if metric == "reserved_tokens" {
				sum += value
			}
		}
		if sum != regions || counts["reserved_tokens"] != maxObservedRegions+1 || counts["holder_policy_version"] != maxObservedHolders {
			t.Errorf("%v tokens in %v", sum, counts)
		}
	})
}

// deafStore fails every read while it is told to.
type deafStore struct {
	*store.Memory
	deaf atomic.Bool
}

// A store that cannot be read leaves what was read before, and is counted.
func TestGaugesWithoutTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		st := &deafStore{Memory: store.NewMemory()}
		s := newLocalSite(t, st, 2)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(bucket(40, 0))
		n.join("eu", "limiter-0").hears("acme", 1).ask("acme", 10)
		pass(observeShare * observeWait)
		expect(t, observed(t, reg), map[string]float64{"reserved_tokens eu": 10, "observe_failures_total": 0})
		st.deaf.Store(true)
		pass(observeShare * observeWait)
		observed(t, reg) // counts in the next
		expect(t, observed(t, reg), map[string]float64{"reserved_tokens eu": 10})
		if n := observed(t, reg)["observe_failures_total"]; n < 1 {
			t.Errorf("%v failures are counted", n)
		}
		st.deaf.Store(false)
	})
}

var errDeaf = errors.New("the store is deaf")

// Range implements store.Store.
func (s *deafStore) Range(ctx context.Context, req store.RangeRequest) (store.RangeResult, error) {
	if s.deaf.Load() {
		return store.RangeResult{}, errDeaf
	}
	return s.Memory.Range(ctx, req)
}
