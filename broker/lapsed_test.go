package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// byDeadline is the policy with credit that lapses 13 s after its holder was heard last.
func byDeadline(p *pb.Policy) *pb.Policy {
	p.Reclaim, p.MaxStalenessNs, p.ReclaimMarginNs = pb.Reclaim_RECLAIM_DEADLINE, int64(10*time.Second), int64(3*time.Second)
	return p
}

// A grant that lapses is counted, and its story tells what has happened, and what that
// means: before, and after.
func TestLapsedGrantIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(byDeadline(bucket(40, 0)))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		asked := h.asking("acme", 10)
		asked.Budgets[0].BoundNs = 1 // it has nothing yet
		grant := h.sync(asked).GetBudgets()[0].GetGrantId()
		report := h.asking("acme", 5, grant)
		report.Budgets[0].SpentTokens, report.Budgets[0].BoundNs = 4, int64(10*time.Second)
		h.sync(report)

		resp, err := n.explain(grant)
		if err != nil {
			t.Fatal(err)
		}
		advice := strings.Join(resp.GetAdvice(), "\n")
		if resp.GetGrant().GetLapsesAfterNs() != int64(13*time.Second) || !strings.Contains(advice, "weaker than proof. 13s after the newest request about this budget by epoch 1, or") {
			t.Errorf("live, it lapses after %d ns: %s", resp.GetGrant().GetLapsesAfterNs(), advice)
		}
		n.join("eu", "limiter-0", h.epoch).hears("acme", 1)
		if resp, err = n.explain(grant); err != nil {
			t.Fatal(err)
		}
		if advice = strings.Join(resp.GetAdvice(), "\n"); !strings.Contains(advice, "is orphaned") || !strings.Contains(advice, "13s after the newest request about this budget by epoch 1") {
			t.Errorf("orphaned: %s", advice)
		}
		expect(t, observed(t, reg), map[string]float64{"grants_lapsed_total": 0, "tokens_lapsed_total": 0, "grants_ended_total": 0})

		pass(14 * time.Second)
		if resp, err = n.explain(grant); err != nil {
			t.Fatal(err)
		}
		if got := story(resp); !strings.HasSuffix(got, ", lapsed 10/10/0 (nothing was heard of it for 13s)") || !resp.GetEnded() || resp.GetGrant().GetOutstandingTokens() != 0 {
			t.Errorf("ended: %v, story %s", resp.GetEnded(), got)
		}
		if advice = strings.Join(resp.GetAdvice(), "\n"); !strings.Contains(advice, "has ended") || !strings.Contains(advice, "It lapsed") || !strings.Contains(advice, "eu/limiter-0, epoch 1, did not ask about this budget for 13s") {
			t.Errorf("ended: %s", advice)
		}
		expect(t, observed(t, reg), map[string]float64{"grants_lapsed_total": 1, "tokens_lapsed_total": 6, "grants_ended_total": 1})
		s.requireBalance("acme", 30, 0)
		n.verified(0)
	})
}

// A limiter that speaks after its epoch was retired is counted.
func TestRetiredEpochIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		pass(2 * heardLately)
		if _, err := n.retire(h); err != nil {
			t.Fatal(err)
		}
		n.join("eu", "limiter-0", h.epoch).hears("acme", 1)
		expect(t, observed(t, reg), map[string]float64{"retired_epoch_requests_total": 0})
		if resp := h.sync(h.asking("acme", 10, grant)); !resp.GetFenced() {
			t.Errorf("%v", resp)
		}
		pass(time.Second) // the answer comes before it is counted
		expect(t, observed(t, reg), map[string]float64{"retired_epoch_requests_total": 1})
	})
}

// Round trips are told by region, the longest of each, and of so many regions alone.
func TestRoundTripGauges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newLocalSite(t, store.NewMemory(), 2)
		n := s.start("a", func(c *Config) { c.Registerer = reg }).ready()
		for name, trip := range map[string]time.Duration{"limiter-0": 20 * time.Millisecond, "limiter-1": 250 * time.Millisecond} {
			h := n.join("eu", name)
			h.tells(accountIn(0, 2), trip/2)
			h.tells(accountIn(1, 2), trip)
		}
		n.join("us", "limiter-0").tells("acme", 0)
		seen := observed(t, reg)
		expect(t, seen, map[string]float64{"region_round_trip_seconds eu": 0.25})
		if _, told := seen["region_round_trip_seconds us"]; told {
			t.Errorf("us has told no round trip: %v", seen)
		}
		for i := range maxObservedRegions + 5 {
			n.join(fmt.Sprintf("region-%d", i), "limiter-0").tells("acme", time.Duration(i+1)*time.Second/100)
		}
		pass(observeShare * observeWait)
		regions := 0
		seen = observed(t, reg)
		for name := range seen {
			if strings.HasPrefix(name, "region_round_trip_seconds ") {
				regions++
			}
		}
		if regions != maxObservedRegions+1 || seen["region_round_trip_seconds "+otherRegions] == 0 {
			t.Errorf("%d regions are told apart", regions)
		}
		// They are the first by name, so that the same ones are told each time.
		expect(t, seen, map[string]float64{"region_round_trip_seconds eu": 0.25, "region_round_trip_seconds region-0": 0.01})
		if took, told := seen["region_round_trip_seconds region-99"]; told {
			t.Errorf("the last region by name is told, with %v", took)
		}
	})
}

// The slowest region is the first of those that are equally slow, each by the median of
// its limiters: one that lies does not make a region slow, be it one of two.
func TestSlowest(t *testing.T) {
	h := heard{trips: map[lease.Holder]time.Duration{}}
	if region, took := h.slowest(); region != "" || took != 0 {
		t.Errorf("of none: %s, %v", region, took)
	}
	tell := func(region string, trips ...time.Duration) {
		for i, took := range trips {
			h.trips[lease.Holder{Region: region, Instance: fmt.Sprintf("limiter-%d", i)}] = took
		}
	}
	tell("us", time.Second)
	tell("ap", 2*time.Second, time.Second, time.Millisecond)
	tell("eu", time.Minute, time.Second)
	tell("sa", time.Minute, time.Millisecond, 5*time.Millisecond, 6*time.Millisecond)
	for range 20 {
		if region, took := h.slowest(); region != "ap" || took != time.Second {
			t.Fatalf("the slowest is %s with %v", region, took)
		}
	}
	tell("sa", time.Minute, time.Minute, 5*time.Second, 6*time.Second)
	if region, took := h.slowest(); region != "sa" || took != 6*time.Second {
		t.Errorf("the slowest is %s with %v", region, took)
	}
}

// Regions beyond those that are told apart are joined, the last by name; what is of no
// region is told besides.
func TestShownRegions(t *testing.T) {
	all := map[string]*credit{unknownRegion: {reserved: 7}}
	for i := range maxObservedRegions + 3 {
		all[fmt.Sprintf("region-%03d", i)] = &credit{reserved: int64(i), orphaned: 1, liveGrants: 2, orphanedGrants: 3}
	}
	for range 5 {
		shown := shownRegions(all, (*credit).plus)
		if len(shown) != maxObservedRegions+2 || shown[unknownRegion].reserved != 7 || shown["region-099"].reserved != 99 {
			t.Fatalf("%d regions are shown: %v", len(shown), shown)
		}
		if got, want := *shown[otherRegions], (credit{reserved: 303, orphaned: 3, liveGrants: 6, orphanedGrants: 9}); got != want {
			t.Fatalf("the others have %+v, want %+v", got, want)
		}
	}
}
