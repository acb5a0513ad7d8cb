package policywire

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// periods of the calendar, in both forms.
var periods = map[pb.Period]lease.Period{
	pb.Period_PERIOD_MINUTE: lease.Minute,
	pb.Period_PERIOD_HOUR:   lease.Hour,
	pb.Period_PERIOD_DAY:    lease.Day,
	pb.Period_PERIOD_WEEK:   lease.Week,
	pb.Period_PERIOD_MONTH:  lease.Month,
}

// To is a policy as a message.
func To(p lease.Policy) *pb.Policy {
	out := &pb.Policy{
		Operation: p.Operation, Version: p.Rule.Version,
		DefaultCostTokens: p.DefaultCost, MaxCostTokens: p.MaxCost, AllowZeroCost: p.AllowZeroCost,
		MaxSharePercent: p.Rule.MaxSharePercent, Reclaim: pb.Reclaim_RECLAIM_PROOF,
		MaxStalenessNs: int64(p.MaxStaleness), ReclaimMarginNs: int64(p.ReclaimMargin),
		OnUnavailable: pb.Unavailability_UNAVAILABILITY_REJECT, UpdatedUnixMs: p.UpdatedUnixMs,
		HoldNs: int64(p.Hold), Postpaid: p.Postpaid, Shadow: p.Shadow,
		Disabled: p.Disabled, DisabledBecause: p.DisabledBecause,
	}
	if p.ReclaimMargin != 0 {
		out.Reclaim = pb.Reclaim_RECLAIM_DEADLINE
	}
	if a := p.Local; a != (lease.Allowance{}) {
		out.OnUnavailable = pb.Unavailability_UNAVAILABILITY_LOCAL
		out.Local = &pb.LocalAllowance{
			CapacityTokens: a.Capacity, RefillTokens: a.Refill.Tokens, RefillIntervalNs: int64(a.Refill.Interval), ForNs: int64(a.For),
		}
	}
	putRule(out, p.Rule)
	return out
}

func putRule(out *pb.Policy, r lease.Rule) {
	switch r.Kind {
	case lease.TokenBucket:
		out.Rule = &pb.Policy_TokenBucket{TokenBucket: &pb.TokenBucket{
			CapacityTokens: r.Capacity, RefillTokens: r.Refill.Tokens, RefillIntervalNs: int64(r.Refill.Interval),
		}}
	case lease.FixedWindow:
		window := &pb.FixedWindow{LimitTokens: r.Capacity, TimeZone: r.Zone}
		for wire, period := range periods {
			if period == r.Period {
				window.Period = wire
			}
		}
		out.Rule = &pb.Policy_FixedWindow{FixedWindow: window}
	case lease.RollingWindow:
		out.Rule = &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{LimitTokens: r.Capacity, WindowNs: int64(r.Window)}}
	case lease.Concurrency:
		out.Rule = &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: r.Capacity}}
	}
}

// From reads a validated policy, with one form for what reads alike, so that equal
// policies compare equal.
func From(p *pb.Policy) lease.Policy {
	out := lease.Policy{
		Operation: p.GetOperation(), Rule: rule(p),
		DefaultCost: p.GetDefaultCostTokens(), MaxCost: p.GetMaxCostTokens(), AllowZeroCost: p.GetAllowZeroCost(),
		Hold: time.Duration(p.GetHoldNs()), Postpaid: p.GetPostpaid(), Shadow: p.GetShadow(),
		Disabled: p.GetDisabled(), DisabledBecause: p.GetDisabledBecause(), UpdatedUnixMs: p.GetUpdatedUnixMs(),
	}
	out.MaxStaleness, out.ReclaimMargin = time.Duration(p.GetMaxStalenessNs()), time.Duration(p.GetReclaimMarginNs())
	if out.Hold == lease.DefaultHold {
		out.Hold = 0
	}
	if a := p.GetLocal(); a != nil && p.GetOnUnavailable() == pb.Unavailability_UNAVAILABILITY_LOCAL {
		out.Local = lease.Allowance{
			Capacity: a.GetCapacityTokens(), Refill: rate(a.GetRefillTokens(), a.GetRefillIntervalNs()), For: time.Duration(a.GetForNs()),
		}
	}
	return out
}

func rule(p *pb.Policy) lease.Rule {
	r := lease.Rule{Version: p.GetVersion(), MaxSharePercent: p.GetMaxSharePercent()}
	if r.MaxSharePercent == 0 {
		r.MaxSharePercent = pb.MaxSharePercent
	}
	switch {
	case p.GetFixedWindow() != nil:
		w := p.GetFixedWindow()
		r.Kind, r.Capacity, r.Period, r.Zone = lease.FixedWindow, w.GetLimitTokens(), periods[w.GetPeriod()], w.GetTimeZone()
		if r.Zone == "" {
			r.Zone = "UTC"
		}
	case p.GetRollingWindow() != nil:
		w := p.GetRollingWindow()
		r.Kind, r.Capacity, r.Window = lease.RollingWindow, w.GetLimitTokens(), time.Duration(w.GetWindowNs())
	case p.GetConcurrency() != nil:
		r.Kind, r.Capacity = lease.Concurrency, p.GetConcurrency().GetSlots()
	default:
		b := p.GetTokenBucket()
		r.Kind, r.Capacity, r.Refill = lease.TokenBucket, b.GetCapacityTokens(), rate(b.GetRefillTokens(), b.GetRefillIntervalNs())
	}
	return r
}

func rate(tokens, interval int64) lease.Rate {
	if tokens == 0 {
		return lease.Rate{} // one form for "never"
	}
	return lease.Rate{Tokens: tokens, Interval: time.Duration(interval)}
}
