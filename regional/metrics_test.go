package regional_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// registry is metrics that a test reads.
type registry struct{ *prometheus.Registry }

func newRegistry() registry { return registry{prometheus.NewRegistry()} }

// series are all values by name and labels; of a histogram its count.
func (r registry) series(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", label.GetName(), label.GetValue())
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func (r registry) value(t *testing.T, name string) float64 {
	t.Helper()
	v, ok := r.series(t)[name]
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	return v
}

func TestCase33NoAccountBecomesASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		f := newFakeBroker(bucket, policy{operation: "slots", capacity: 5, cost: 1, terms: func(p *lease.Policy) { p.Rule.Kind, p.Rule.Refill = lease.Concurrency, lease.Rate{} }})
		l, _ := start(t, f, func(c *regional.Config) { c.Registerer = reg })
		warm := func(operation string) {
			l.Reserve(t.Context(), ask(func(r *decision.Request) { r.Key.Operation = operation }))
		}
		warm("report.create")
		warm("slots")
		before := len(reg.series(t))
		for i := range 2000 {
			account := func(r *decision.Request) { r.Key.Account = fmt.Sprintf("secret-account-%d", i) }
			l.Decide(t.Context(), ask(account, withID(fmt.Sprintf("secret-id-%d", i))))
			l.Decide(t.Context(), ask(account, withCost(41)))
			l.Decide(t.Context(), ask(account, func(r *decision.Request) { r.Key.Operation = fmt.Sprintf("secret-operation-%d", i%50) }))
			if i < 100 {
				l.Reserve(t.Context(), ask(account, func(r *decision.Request) { r.Key.Operation = "slots" }))
			}
		}
		after := reg.series(t)
		if len(after) != before {
			t.Errorf("%d series became %d", before, len(after))
		}
		for name := range after {
			if strings.Contains(name, "secret") || strings.Contains(name, "grant=") {
				t.Errorf("a caller's name is in %s", name)
			}
		}
		for number := range pb.Reason_name {
			if number == 0 {
				continue
			}
			label := strings.ToLower(strings.TrimPrefix(pb.Reason(number).String(), "REASON_"))
			if _, ok := after[fmt.Sprintf("tokenlease_limiter_decisions_total{operation=\"report.create\"}{reason=%q}", label)]; !ok {
				t.Errorf("decisions of reason %s are not counted", label)
			}
		}
		if after[`tokenlease_limiter_decisions_total{operation="report.create"}{reason="cost_above_capacity"}`] != 2000 {
			t.Errorf("got %v", after)
		}
		if after["tokenlease_limiter_held_tokens"] != 106 {
			t.Errorf("100 slots, one more and 5 tokens are held, told %v", after["tokenlease_limiter_held_tokens"])
		}
	})
}
