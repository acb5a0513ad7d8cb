package policywire_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// TestLimitsAgree: the bounds stand in both packages, since neither imports the
// other.
func TestLimitsAgree(t *testing.T) {
	for _, pair := range []struct {
		name       string
		core, wire int64
	}{
		{"capacity", lease.MaxCapacity, pb.MaxCapacityTokens},
		{"refill interval", int64(lease.MaxInterval), int64(pb.MaxRefillInterval)},
		{"shortest window", int64(lease.MinWindow), int64(pb.MinWindow)},
		{"longest window", int64(lease.MaxWindow), int64(pb.MaxWindow)},
		{"shortest hold", int64(lease.MinHold), int64(pb.MinHold)},
		{"longest hold", int64(lease.MaxHold), int64(pb.MaxHold)},
		{"usual hold", int64(lease.DefaultHold), int64(pb.DefaultHold)},
		{"local allowance", int64(lease.MaxHold), int64(pb.MaxLocalFor)},
		{"shortest staleness", int64(lease.MinStaleness), int64(pb.MinStaleness)},
		{"longest staleness", int64(lease.MaxHold), int64(pb.MaxStaleness)},
		{"shortest margin", int64(lease.MinReclaimMargin), int64(pb.MinReclaimMargin)},
		{"longest margin", int64(lease.MaxHold), int64(pb.MaxReclaimMargin)},
	} {
		if pair.core != pair.wire {
			t.Errorf("%s: the core has %d, the message %d", pair.name, pair.core, pair.wire)
		}
	}
}

// TestEveryKind has one policy of each kind, with every field, in both forms.
func TestEveryKind(t *testing.T) {
	for _, test := range []struct {
		core lease.Policy
		wire *pb.Policy
	}{
		{
			lease.Policy{
				Operation: "report.create", DefaultCost: 5, MaxCost: 40, UpdatedUnixMs: 9, Postpaid: true, Hold: 90 * time.Second,
				Rule:  lease.Rule{Kind: lease.TokenBucket, Version: 3, Capacity: 40, Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 60},
				Local: lease.Allowance{Capacity: 5, Refill: lease.Rate{Tokens: 1, Interval: time.Minute}, For: time.Hour},

				MaxStaleness: 30 * time.Second, ReclaimMargin: 15 * time.Second,
			},
			&pb.Policy{
				Operation: "report.create", Version: 3, DefaultCostTokens: 5, MaxCostTokens: 40, UpdatedUnixMs: 9, Postpaid: true, HoldNs: 90e9,
				Rule:            &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{CapacityTokens: 40, RefillTokens: 20, RefillIntervalNs: 1e9}},
				MaxSharePercent: 60, OnUnavailable: pb.Unavailability_UNAVAILABILITY_LOCAL,
				Reclaim: pb.Reclaim_RECLAIM_DEADLINE, MaxStalenessNs: 30e9, ReclaimMarginNs: 15e9,
				Local: &pb.LocalAllowance{CapacityTokens: 5, RefillTokens: 1, RefillIntervalNs: 60e9, ForNs: 3600e9},
			},
		},
		{
			lease.Policy{
				Operation: "export", DefaultCost: 0, AllowZeroCost: true, Shadow: true,
				Rule: lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 1000, Period: lease.Day, Zone: "Europe/Berlin", MaxSharePercent: 100},
			},
			&pb.Policy{
				Operation: "export", Version: 1, AllowZeroCost: true, Shadow: true,
				Rule:            &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{LimitTokens: 1000, Period: pb.Period_PERIOD_DAY, TimeZone: "Europe/Berlin"}},
				MaxSharePercent: 100, Reclaim: pb.Reclaim_RECLAIM_PROOF, OnUnavailable: pb.Unavailability_UNAVAILABILITY_REJECT,
			},
		},
		{
			lease.Policy{
				Operation: "login", DefaultCost: 1,
				Rule:         lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: time.Minute, MaxSharePercent: 100},
				MaxStaleness: time.Hour,
			},
			&pb.Policy{
				Operation: "login", DefaultCostTokens: 1,
				Rule:            &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{LimitTokens: 3, WindowNs: 60e9}},
				MaxSharePercent: 100, Reclaim: pb.Reclaim_RECLAIM_PROOF, OnUnavailable: pb.Unavailability_UNAVAILABILITY_REJECT,
				MaxStalenessNs: 3600e9,
			},
		},
		{
			lease.Policy{
				Operation: "render", DefaultCost: 1, Disabled: true, DisabledBecause: "abuse",
				Rule: lease.Rule{Kind: lease.Concurrency, Capacity: 10, MaxSharePercent: 50},
			},
			&pb.Policy{
				Operation: "render", DefaultCostTokens: 1, Disabled: true, DisabledBecause: "abuse",
				Rule:            &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: 10}},
				MaxSharePercent: 50, Reclaim: pb.Reclaim_RECLAIM_PROOF, OnUnavailable: pb.Unavailability_UNAVAILABILITY_REJECT,
			},
		},
	} {
		if got := policywire.To(test.core); !proto.Equal(got, test.wire) {
			t.Errorf("To:\n got %v\nwant %v", got, test.wire)
		}
		if got := policywire.From(test.wire); got != test.core {
			t.Errorf("From:\n got %+v\nwant %+v", got, test.core)
		}
	}
}

// TestWhatIsLeftOut: policies that mean the same are equal in the core.
func TestWhatIsLeftOut(t *testing.T) {
	short := &pb.Policy{
		Operation: "o", DefaultCostTokens: 1,
		Rule: &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{LimitTokens: 1, Period: pb.Period_PERIOD_MONTH}},
	}
	long := proto.CloneOf(short)
	long.GetFixedWindow().TimeZone, long.MaxSharePercent, long.HoldNs = "UTC", 100, 60e9
	long.Reclaim, long.OnUnavailable = pb.Reclaim_RECLAIM_PROOF, pb.Unavailability_UNAVAILABILITY_REJECT
	if a, b := policywire.From(short), policywire.From(long); a != b {
		t.Errorf("From:\n%+v\n%+v", a, b)
	}
	never := &pb.Policy{Rule: &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{CapacityTokens: 1, RefillIntervalNs: 5}}}
	if got := policywire.From(never).Rule.Refill; got != (lease.Rate{}) {
		t.Errorf("a refill of 0 per 5ns became %+v", got)
	}
}

// TestNoRuleAdmitsNothing: a rule of a later version, which this one does not
// know, is no rule here.
func TestNoRuleAdmitsNothing(t *testing.T) {
	if got := policywire.From(&pb.Policy{Operation: "o", DefaultCostTokens: 1}).Rule; got.Capacity != 0 {
		t.Errorf("a policy without a rule has the capacity %d", got.Capacity)
	}
}

// normal is a message in the one form that To writes.
func normal(p *pb.Policy) *pb.Policy {
	p = proto.CloneOf(p)
	if p.MaxSharePercent == 0 {
		p.MaxSharePercent = 100
	}
	if p.Reclaim == 0 {
		p.Reclaim = pb.Reclaim_RECLAIM_PROOF
	}
	if p.OnUnavailable == 0 {
		p.OnUnavailable = pb.Unavailability_UNAVAILABILITY_REJECT
	}
	if p.HoldNs == 60e9 {
		p.HoldNs = 0
	}
	if w := p.GetFixedWindow(); w != nil && w.TimeZone == "" {
		w.TimeZone = "UTC"
	}
	if b := p.GetTokenBucket(); b != nil && b.RefillTokens == 0 {
		b.RefillIntervalNs = 0
	}
	if a := p.GetLocal(); a != nil && a.RefillTokens == 0 {
		a.RefillIntervalNs = 0
	}
	return p
}

// TestMessagesAndCoreAgree: what validates as a message validates in the core, and
// survives the way there and back. What does not validate as a message is refused
// by the core as well, but for texts, which the core takes as they are.
func TestMessagesAndCoreAgree(t *testing.T) {
	valid, invalid := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		wire := drawMessage(rt)
		core := policywire.From(wire)
		switch err := wire.Validate(); {
		case err == nil:
			valid++
			if err := core.Validate(); err != nil {
				rt.Fatalf("the message is valid, the policy is not: %v\n%v\n%+v", err, wire, core)
			}
			if back := policywire.To(core); !proto.Equal(back, normal(wire)) {
				rt.Fatalf("there and back:\n got %v\nwant %v", back, normal(wire))
			}
		case unsaid(wire):
			// The message holds a contradiction that the core has no place for.
		default:
			invalid++
			if core.Validate() == nil {
				rt.Fatalf("the message is not valid (%v), the policy is\n%v\n%+v", err, wire, core)
			}
		}
	})
	if valid < 5 || invalid < 5 {
		t.Errorf("%d valid and %d invalid messages were drawn: too few to mean something", valid, invalid)
	}
}

// unsaid says whether a message has what From leaves out: an allowance that is out
// of use or all zero, the interval of no refill, or a choice that it does not know, or
// one that contradicts the margin that goes with it.
func unsaid(p *pb.Policy) bool {
	never := func(tokens, interval int64) bool { return tokens == 0 && interval > int64(lease.MaxInterval) }
	local := p.GetOnUnavailable() == pb.Unavailability_UNAVAILABILITY_LOCAL
	none := local && policywire.From(p).Local == lease.Allowance{}
	deadline := p.GetReclaim() == pb.Reclaim_RECLAIM_DEADLINE
	return (p.GetLocal() != nil) != local || none || deadline != (p.GetReclaimMarginNs() != 0) || p.GetReclaim() > 2 || p.GetOnUnavailable() > 2 || p.GetRule() == nil ||
		never(p.GetTokenBucket().GetRefillTokens(), p.GetTokenBucket().GetRefillIntervalNs()) ||
		never(p.GetLocal().GetRefillTokens(), p.GetLocal().GetRefillIntervalNs())
}

// TestCoreAndMessagesAgree is the other direction.
func TestCoreAndMessagesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		core := policywire.From(drawMessage(rt))
		if core.Validate() != nil {
			return
		}
		wire := policywire.To(core)
		if err := wire.Validate(); err != nil {
			rt.Fatalf("the policy is valid, the message is not: %v\n%v", err, wire)
		}
		if again := policywire.From(wire); again != core {
			rt.Fatalf("there and back:\n got %+v\nwant %+v", again, core)
		}
	})
}

// edges draws a number at or beside one of the bounds, mostly within them.
func edges(rt *rapid.T, name string, least, most int64) int64 {
	return rapid.SampledFrom([]int64{
		least - 1, least, least, least + 1, (least + most) / 2, (least + most) / 2, most - 1, most, most, most + 1,
	}).Draw(rt, name)
}

// drawMessage draws a policy that is about as often valid as not.
func drawMessage(rt *rapid.T) *pb.Policy {
	flag := func(name string) bool { return rapid.Bool().Draw(rt, name) }
	p := &pb.Policy{
		Operation: "o", Version: rapid.Int64Range(0, 9).Draw(rt, "version"), UpdatedUnixMs: rapid.Int64Range(0, 9).Draw(rt, "updated"),
		DefaultCostTokens: rapid.Int64Range(0, 9).Draw(rt, "cost"), AllowZeroCost: flag("zero"),
		MaxSharePercent: rapid.SampledFrom([]int32{0, 0, 1, 50, 100, 100, 101}).Draw(rt, "share"),
		Reclaim:         pb.Reclaim(rapid.SampledFrom([]int32{0, 1, 1, 2, 2, 3}).Draw(rt, "reclaim")),
		OnUnavailable:   pb.Unavailability(rapid.SampledFrom([]int32{0, 1, 1, 2, 2, 3}).Draw(rt, "unavailable")),
		Postpaid:        flag("postpaid"), Shadow: flag("shadow"), Disabled: flag("disabled"),
	}
	if flag("has most") {
		p.MaxCostTokens = rapid.Int64Range(1, 9).Draw(rt, "most")
	}
	if flag("has hold") {
		p.HoldNs = rapid.OneOf(rapid.Just(int64(60e9)), rapid.Custom(func(rt *rapid.T) int64 {
			return edges(rt, "hold", int64(lease.MinHold), int64(lease.MaxHold))
		})).Draw(rt, "hold")
	}
	drawStaleness(rt, p)
	if p.Disabled && flag("because") {
		p.DisabledBecause = "abuse"
	}
	if p.OnUnavailable == pb.Unavailability_UNAVAILABILITY_LOCAL || rapid.IntRange(0, 9).Draw(rt, "stray") == 0 {
		tokens, interval := drawRefill(rt)
		p.Local = &pb.LocalAllowance{
			CapacityTokens: edges(rt, "local", 1, lease.MaxCapacity), RefillTokens: tokens, RefillIntervalNs: interval,
			ForNs: edges(rt, "for", 1, int64(lease.MaxHold)),
		}
	}
	drawRule(rt, p)
	return p
}

// drawStaleness draws for how long credit is spent without news, and what is waited
// beyond that.
func drawStaleness(rt *rapid.T, p *pb.Policy) {
	deadline := p.Reclaim == pb.Reclaim_RECLAIM_DEADLINE
	if deadline && rapid.IntRange(0, 9).Draw(rt, "no bound") > 0 || !deadline && rapid.Bool().Draw(rt, "bound") {
		p.MaxStalenessNs = edges(rt, "staleness", int64(lease.MinStaleness), int64(lease.MaxHold))
	}
	if deadline && rapid.IntRange(0, 9).Draw(rt, "no margin") > 0 || rapid.IntRange(0, 9).Draw(rt, "stray margin") == 0 {
		p.ReclaimMarginNs = edges(rt, "margin", int64(lease.MinReclaimMargin), int64(lease.MaxHold))
	}
}

func drawRule(rt *rapid.T, p *pb.Policy) {
	capacity := edges(rt, "capacity", 0, lease.MaxCapacity)
	switch rapid.IntRange(0, 8).Draw(rt, "kind") {
	case 0, 1:
		tokens, interval := drawRefill(rt)
		p.Rule = &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{CapacityTokens: capacity, RefillTokens: tokens, RefillIntervalNs: interval}}
	case 2, 3:
		p.Rule = &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{
			LimitTokens: capacity, Period: pb.Period(rapid.Int32Range(0, 6).Draw(rt, "period")),
			TimeZone: rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin", "America/New_York"}).Draw(rt, "zone"),
		}}
	case 4, 5:
		p.Rule = &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{
			LimitTokens: capacity, WindowNs: edges(rt, "window", int64(lease.MinWindow), int64(lease.MaxWindow)),
		}}
	case 6, 7:
		p.Rule = &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: capacity}}
		if rapid.IntRange(0, 3).Draw(rt, "as slots") > 0 { // which have none of these
			p.Postpaid, p.Local, p.OnUnavailable = false, nil, pb.Unavailability_UNAVAILABILITY_REJECT
			p.Reclaim, p.ReclaimMarginNs = pb.Reclaim_RECLAIM_PROOF, 0
		}
	}
}

func drawRefill(rt *rapid.T) (tokens, interval int64) {
	return rapid.SampledFrom([]int64{-1, 0, 1, 20, 1<<63 - 1}).Draw(rt, "refill"),
		rapid.SampledFrom([]int64{0, 1, 1e9, int64(lease.MaxInterval), int64(lease.MaxInterval) + 1}).Draw(rt, "interval")
}
