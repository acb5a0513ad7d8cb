package broker

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// far is a distance that was measured in region ap.
func far(roundTrip time.Duration) distance { return distance{region: "ap", roundTrip: roundTrip} }

// What a policy loses by how far its limiters are, where that was measured, and where
// it is assumed.
func TestStarving(t *testing.T) {
	bucket := func(capacity int64, change ...func(*lease.Policy)) lease.Policy {
		p := lease.Policy{DefaultCost: 1, Rule: lease.Rule{Kind: lease.TokenBucket, Capacity: capacity, Refill: lease.Rate{Tokens: 100, Interval: time.Second}, MaxSharePercent: 100}}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	window := func(d time.Duration) lease.Policy {
		return lease.Policy{DefaultCost: 1, Rule: lease.Rule{Kind: lease.RollingWindow, Capacity: 10, Window: d, MaxSharePercent: 100}}
	}
	stale := func(d time.Duration) func(*lease.Policy) {
		return func(p *lease.Policy) { p.MaxStaleness = d }
	}
	const assumed, measured = "no limiter has told its round trip of late", "as measured in ap, the slowest region heard of late"
	for _, test := range []struct {
		what  string
		p     lease.Policy
		far   distance
		wants []string // in the one warning; none: there is no warning
	}{
		{"fills in what a token is assumed to be out for", bucket(50), distance{}, nil},
		{"fills in less", bucket(25), distance{}, []string{"fills in 250ms", "out for 500ms on average", assumed, "at most 50% of the refill"}},
		{"near: it is out for 310ms", bucket(31), far(5 * time.Millisecond), nil},
		{"near, and fills in 300ms", bucket(30), far(5 * time.Millisecond), []string{"out for 310ms", "of which 10ms for two round trips", measured, "300ms is an assumption", "at most 96% of the refill"}},
		{"far: it is out for 1.1s", bucket(50), far(400 * time.Millisecond), []string{"out for 1.1s", "of which 800ms for two round trips", "at most 45% of the refill"}},
		{"a quota, however far", lease.Policy{DefaultCost: 1, Rule: lease.Rule{Kind: lease.TokenBucket, Capacity: 1, MaxSharePercent: 100}}, far(time.Minute), nil},
		{"disabled, however far", bucket(1, func(p *lease.Policy) { p.Disabled = true }), far(time.Minute), nil},
		{"a window of nine times that", window(4500 * time.Millisecond), distance{}, []string{"at most 90% of the limit", assumed}},
		{"a longer window", window(4600 * time.Millisecond), distance{}, nil},
		{"a longer window, far", window(4600 * time.Millisecond), far(400 * time.Millisecond), []string{"out for 1.1s", measured, "at most 81% of the limit"}},
		{"a longer window, near", window(2800 * time.Millisecond), far(5 * time.Millisecond), nil},
		{"stale after ten round trips", bucket(1000, stale(5*time.Second)), far(500 * time.Millisecond), nil},
		{"stale after less", bucket(1000, stale(5*time.Second)), far(501 * time.Millisecond), []string{"its max-staleness, 5s, is less than 10 round trips, 5.01s, which take 501ms each", measured}},
		{"stale after less, disabled", bucket(1000, stale(5*time.Second), func(p *lease.Policy) { p.Disabled = true }), far(time.Second), nil},
		{"stale after whatever, and nothing measured", bucket(1000, stale(5*time.Second)), distance{}, nil},
	} {
		all := starving(test.p, test.far)
		if want := min(len(test.wants), 1); len(all) != want {
			t.Errorf("%s: warnings %q", test.what, all)
			continue
		}
		for _, w := range test.wants {
			if !strings.Contains(all[0], w) {
				t.Errorf("%s: %q, want %q", test.what, all[0], w)
			}
		}
	}
}

// Whoever declares a deadline is told what it rests on, and what it costs.
func TestLapsingWarnings(t *testing.T) {
	s := newSite(t, store.NewMemory(), 2)
	n := s.start("a").ready()
	n.apply(bucket(40, 0))
	deadline := func(perSecond int64) *pb.Policy { return byDeadline(bucket(40, perSecond)) }
	const weaker, after, gone, takesEffect = "reclaim: deadline is weaker than proof", "13s after its newest request about the budget (max-staleness, 10s, and reclaim-margin, 3s)", "a fixed quota has no refill: what lapses is gone for good", "only once its limiter has said that it goes by it"
	other := deadline(10)
	other.Operation = "another"
	for _, test := range []struct {
		what    string
		req     *pb.ApplyPoliciesRequest
		has, no []string
	}{
		{"of proof before", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{deadline(10)}, DryRun: true}, []string{weaker, "by reclaim-margin, 3s, or more in all", after, takesEffect}, []string{gone}},
		{"new", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{other}, DryRun: true}, []string{weaker, after}, []string{gone, takesEffect}},
		{"a quota of a plan", &pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("free", deadline(0))}, DryRun: true}, []string{"plan free, report.create: reclaim: deadline", gone}, nil},
		{"in force", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{deadline(10)}}, []string{weaker, after, takesEffect}, []string{gone}},
		{"again", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{deadline(10)}}, nil, []string{weaker}},
		{"with other numbers", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{deadline(20)}}, []string{weaker}, []string{takesEffect}},
		{"of an account that the policy for everybody had", &pb.ApplyPoliciesRequest{Accounts: []*pb.AccountPolicies{account("a", "", deadline(0))}, DryRun: true}, []string{weaker, gone}, []string{takesEffect}},
		{"back to proof", &pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(40, 10)}}, nil, []string{weaker, takesEffect}},
	} {
		warnings := strings.Join(n.change(test.req).GetWarnings(), "\n")
		for _, w := range test.has {
			if !strings.Contains(warnings, w) {
				t.Errorf("%s: no %q in\n%s", test.what, w, warnings)
			}
		}
		for _, w := range test.no {
			if strings.Contains(warnings, w) {
				t.Errorf("%s: %q in\n%s", test.what, w, warnings)
			}
		}
	}
}

// ofHolder is what is told of one holder.
func (n *node) ofHolder(h *holder) *pb.HolderStatus {
	n.site.t.Helper()
	resp, err := n.admin.ListHolders(n.site.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	one, err := n.admin.ShowHolder(n.site.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: h.name}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	for _, status := range resp.Msg.GetHolders() {
		if holderOf(status.GetHolder()) == holderOf(h.name) {
			if shown := one.Msg.GetStatus().GetRoundTripNs(); shown != status.GetRoundTripNs() {
				n.site.t.Errorf("shown is a round trip of %d ns, listed one of %d ns", shown, status.GetRoundTripNs())
			}
			return status
		}
	}
	n.site.t.Fatalf("%v is not listed", h.name)
	return nil
}

// tells sends how long requests to the account's shard take.
func (h *holder) tells(account string, roundTrip time.Duration) {
	h.node.site.t.Helper()
	req := h.request(account)
	req.RoundTripNs = int64(roundTrip)
	h.sync(req)
}

// Of the round trips that a holder tells the shards, wherever these are, the largest
// counts, for some minutes. Telling them writes nothing, and warnings go by the slowest.
func TestRoundTripsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 4)
		a, b := s.start("a"), s.start("b")
		a.ready()
		b.ready()
		pass(10 * time.Second)
		if x, y := len(a.ownership.serving()), len(b.ownership.serving()); x != 2 || y != 2 {
			t.Fatalf("the brokers have %d and %d shards", x, y)
		}
		eu, us := a.join("eu", "limiter-0"), b.join("us", "limiter-0")
		for shard := range uint32(4) { // so that nothing is left to be recorded
			eu.insist(eu.request(accountIn(shard, 4)))
			us.insist(us.request(accountIn(shard, 4)))
		}
		warned := func(n *node) string {
			t.Helper()
			return strings.Join(n.change(&pb.ApplyPoliciesRequest{Policies: []*pb.Policy{bucket(10, 100)}, DryRun: true}).GetWarnings(), "\n")
		}
		if got := a.ofHolder(eu).GetRoundTripNs(); got != 0 {
			t.Errorf("before it has told any: %d ns", got)
		}
		if got := warned(a); !strings.Contains(got, "no limiter has told its round trip of late") {
			t.Errorf("nothing was measured: %q", got)
		}
		before := s.revision()
		for i, trip := range []time.Duration{20 * time.Millisecond, 250 * time.Millisecond, 90 * time.Millisecond, 0} {
			eu.tells(accountIn(uint32(i), 4), trip)
		}
		us.tells(accountIn(0, 4), time.Hour) // which no request takes
		for _, n := range []*node{a, b} {
			if got := time.Duration(n.ofHolder(eu).GetRoundTripNs()); got != 250*time.Millisecond {
				t.Errorf("broker %s: eu has %v", n.cfg.ID, got)
			}
			if got := time.Duration(n.ofHolder(us).GetRoundTripNs()); got != time.Minute {
				t.Errorf("broker %s: us has %v", n.cfg.ID, got)
			}
			if got := warned(n); !strings.Contains(got, "of which 2m0s for two round trips, as measured in us, the slowest region heard of late") {
				t.Errorf("broker %s: %q", n.cfg.ID, got)
			}
		}
		us.tells(accountIn(0, 4), 40*time.Millisecond) // it is quicker now
		eu.tells(accountIn(1, 4), 0)                   // it does not know: what it has told stands
		if got := warned(b); !strings.Contains(got, "of which 500ms for two round trips, as measured in eu") {
			t.Errorf("us is quicker now: %q", got)
		}
		if s.revision() != before {
			t.Error("a round trip was written down")
		}
		pass(shard.RoundTripsFor - time.Second)
		eu.tells(accountIn(2, 4), 100*time.Millisecond)
		pass(2 * time.Second)
		if got := time.Duration(a.ofHolder(eu).GetRoundTripNs()); got != 100*time.Millisecond {
			t.Errorf("some minutes later eu has %v", got)
		}
		if got := a.ofHolder(us).GetRoundTripNs(); got != 0 {
			t.Errorf("some minutes later us has %d ns", got)
		}
	})
}
