package lease

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the kind of a rule: a small closed set. Code that switches over it
// has a case for each.
type Kind string

// The rule kinds.
const (
	// TokenBucket admits up to Capacity at once and Refill over time. With a
	// refill of 0 it is a fixed quota.
	TokenBucket Kind = "token-bucket"
	// FixedWindow admits up to Capacity in each Period of the calendar of Zone.
	FixedWindow Kind = "fixed-window"
	// RollingWindow admits up to Capacity in every interval (t-Window, t].
	RollingWindow Kind = "rolling-window"
	// Concurrency lets up to Capacity slots be held at the same time.
	Concurrency Kind = "concurrency"
)

// Bounds of a rolling window.
const (
	MinWindow = time.Millisecond
	MaxWindow = 366 * 24 * time.Hour
)

// Rule is the part of a policy that a ledger runs under. What a kind does not use
// is zero.
type Rule struct {
	Kind     Kind          `json:"kind"`
	Version  int64         `json:"version"`             // of the policy; only ever grows
	Capacity int64         `json:"capacity"`            // tokens, 0 to MaxCapacity; 0 denies all
	Refill   Rate          `json:"refill"`              // of a token bucket
	Window   time.Duration `json:"window_ns,omitempty"` // of a rolling window, MinWindow to MaxWindow
	Period   Period        `json:"period,omitempty"`    // of a fixed window
	Zone     string        `json:"zone,omitempty"`      // the time zone that Period is of
	// MaxSharePercent is the most of the capacity that one holder may have
	// out, over all its epochs: 1 to 100.
	MaxSharePercent int32 `json:"max_share_percent"`
}

// Policy is the versioned rule for one operation.
type Policy struct {
	Operation     string `json:"operation"`
	Rule          Rule   `json:"rule"`
	DefaultCost   int64  `json:"default_cost"`              // tokens of a check that names no cost
	MaxCost       int64  `json:"max_cost,omitempty"`        // highest cost a check may name; 0: the capacity alone
	AllowZeroCost bool   `json:"allow_zero_cost,omitempty"` // a check of cost 0 is a pure query
	// Hold is how long a reservation may go unsettled, or a slot be held: MinHold
	// to MaxHold. 0 reads as DefaultHold.
	Hold            time.Duration `json:"hold_ns,omitempty"`
	Postpaid        bool          `json:"postpaid,omitempty"`         // a settlement may be above its reservation, and leaves a debt
	Shadow          bool          `json:"shadow,omitempty"`           // decide, count, and admit whatever comes out
	Disabled        bool          `json:"disabled,omitempty"`         // deny everything
	DisabledBecause string        `json:"disabled_because,omitempty"` // for people
	Local           Allowance     `json:"local,omitzero"`             // without authority; zero: none, reject
	// MaxStaleness is for how long after the sending of its newest answered request a
	// holder spends what it has: MinStaleness to MaxHold. 0: as long as it has it.
	MaxStaleness time.Duration `json:"max_staleness_ns,omitempty"`
	// ReclaimMargin is what is waited beyond MaxStaleness until what a silent holder
	// has out counts as spent: MinReclaimMargin to MaxHold. 0: that never happens, since
	// silence proves nothing (contract C4).
	ReclaimMargin time.Duration `json:"reclaim_margin_ns,omitempty"`
	UpdatedUnixMs int64         `json:"updated_unix_ms,omitempty"` // for display
}

// Allowance is a token bucket that each limiter has of its own for a budget of
// which it reaches no authority. The zero value is none.
type Allowance struct {
	Capacity int64         `json:"capacity"`
	Refill   Rate          `json:"refill"`
	For      time.Duration `json:"for_ns"` // from its first use in an outage
}

// Bounds of Policy.Hold.
const (
	MinHold     = time.Millisecond
	MaxHold     = 366 * 24 * time.Hour
	DefaultHold = time.Minute
)

// Least values of Policy.MaxStaleness and Policy.ReclaimMargin.
const (
	MinStaleness     = 5 * time.Second
	MinReclaimMargin = time.Second
)

// Strict says that no more than the rule is ever admitted under the policy.
func (p Policy) Strict() bool { return !p.Shadow && !p.Postpaid && p.Local == Allowance{} }

// LapsesAfter is how long after its newest request about a budget what a holder that goes by this
// policy has out counts as spent; 0: never.
func (p Policy) LapsesAfter() time.Duration {
	if p.ReclaimMargin == 0 {
		return 0
	}
	return p.MaxStaleness + p.ReclaimMargin
}

// HoldTime is how long a reservation may go unsettled.
func (p Policy) HoldTime() time.Duration {
	if p.Hold == 0 {
		return DefaultHold
	}
	return p.Hold
}

// Validate says what is wrong with the rule's numbers, together.
func (r Rule) Validate() error {
	if err := r.checkUnused(); err != nil {
		return err
	}
	switch {
	case r.Capacity < 0 || r.Capacity > MaxCapacity:
		return fmt.Errorf("capacity %d is not between 0 and %d", r.Capacity, MaxCapacity)
	case r.MaxSharePercent < 1 || r.MaxSharePercent > 100:
		return fmt.Errorf("max share of %d%% is not between 1%% and 100%%", r.MaxSharePercent)
	}
	switch r.Kind {
	case TokenBucket:
		return r.Refill.validate()
	case RollingWindow:
		if r.Window < MinWindow || r.Window > MaxWindow {
			return fmt.Errorf("window %v is not between %v and %v", r.Window, MinWindow, MaxWindow)
		}
	case FixedWindow:
		if !r.Period.known() {
			return fmt.Errorf("period %q is not known", r.Period)
		}
		if r.Zone == "" {
			return errors.New("the time zone is empty")
		}
	case Concurrency:
	}
	return nil
}

// checkUnused checks that the kind is known, and what it does not use is zero.
func (r Rule) checkUnused() error {
	switch r.Kind {
	case TokenBucket, FixedWindow, RollingWindow, Concurrency:
	default:
		return fmt.Errorf("rule kind %q is not known", r.Kind)
	}
	switch {
	case r.Kind != TokenBucket && r.Refill != Rate{}:
		return fmt.Errorf("a %s has no refill", r.Kind)
	case r.Kind != RollingWindow && r.Window != 0:
		return fmt.Errorf("a %s has no window", r.Kind)
	case r.Kind != FixedWindow && (r.Period != "" || r.Zone != ""):
		return fmt.Errorf("a %s has no period", r.Kind)
	}
	return nil
}

func (r Rate) validate() error {
	switch {
	case r.Tokens < 0:
		return fmt.Errorf("refill of %d tokens is negative", r.Tokens)
	case r.Tokens > 0 && (r.Interval <= 0 || r.Interval > MaxInterval):
		return fmt.Errorf("refill interval %v is not between 1ns and %v", r.Interval, MaxInterval)
	case r.Interval < 0:
		return fmt.Errorf("refill interval %v is negative", r.Interval)
	}
	return nil
}

func (a Allowance) validate() error {
	switch {
	case a == Allowance{}:
		return nil
	case a.Capacity < 1 || a.Capacity > MaxCapacity:
		return fmt.Errorf("local capacity %d is not between 1 and %d", a.Capacity, MaxCapacity)
	case a.For < 1 || a.For > MaxHold:
		return fmt.Errorf("a local allowance for %v is not for 1ns to %v", a.For, MaxHold)
	}
	return a.Refill.validate()
}

// ShareCap is the most that one holder may have out, in tokens, rounded down.
// A cost above it can never be met.
func (r Rule) ShareCap() int64 {
	whole, rest := r.Capacity/100, r.Capacity%100
	return whole*int64(r.MaxSharePercent) + rest*int64(r.MaxSharePercent)/100
}

// Validate says what is wrong with the policy.
func (p Policy) Validate() error {
	if err := p.Rule.Validate(); err != nil {
		return err
	}
	if err := p.Local.validate(); err != nil {
		return err
	}
	if err := p.validateReclaim(); err != nil {
		return err
	}
	switch {
	case p.Operation == "":
		return errors.New("operation is empty")
	case p.Hold != 0 && (p.Hold < MinHold || p.Hold > MaxHold):
		return fmt.Errorf("hold %v is not between %v and %v", p.Hold, MinHold, MaxHold)
	case p.Postpaid && p.Rule.Kind == Concurrency:
		return errors.New("slots cannot be postpaid")
	case p.Local != Allowance{} && p.Rule.Kind == Concurrency:
		return errors.New("slots have no local allowance")
	case p.DisabledBecause != "" && !p.Disabled:
		return errors.New("a reason is given, and the operation is not disabled")
	case p.DefaultCost < 0 || p.MaxCost < 0:
		return errors.New("costs are negative")
	case p.DefaultCost == 0 && !p.AllowZeroCost:
		return errors.New("default cost is 0, which allow-zero-cost would have to permit")
	case p.MaxCost > 0 && p.DefaultCost > p.MaxCost:
		return fmt.Errorf("default cost %d is above the highest cost %d", p.DefaultCost, p.MaxCost)
	}
	return nil
}

// validateReclaim says what is wrong with how long credit is spent without news, and what
// becomes of it then.
func (p Policy) validateReclaim() error {
	switch {
	case p.MaxStaleness != 0 && (p.MaxStaleness < MinStaleness || p.MaxStaleness > MaxHold):
		return fmt.Errorf("max staleness %v is not between %v and %v", p.MaxStaleness, MinStaleness, MaxHold)
	case p.ReclaimMargin != 0 && (p.ReclaimMargin < MinReclaimMargin || p.ReclaimMargin > MaxHold):
		return fmt.Errorf("reclaim margin %v is not between %v and %v", p.ReclaimMargin, MinReclaimMargin, MaxHold)
	case p.ReclaimMargin != 0 && p.MaxStaleness == 0:
		return errors.New("a deadline needs a max staleness")
	case p.ReclaimMargin != 0 && p.Rule.Kind == Concurrency:
		return errors.New("no deadline ends the work that holds a slot")
	case p.ReclaimMargin != 0 && p.Postpaid:
		return errors.New("what a silent holder owes is lost with a deadline")
	}
	return nil
}

// SameTerms says that both policies rule alike, whatever their version and
// time: applying one over the other changes nothing.
func (p Policy) SameTerms(other Policy) bool {
	p.Rule.Version, p.UpdatedUnixMs = other.Rule.Version, other.UpdatedUnixMs
	return p == other
}

// FullAfter is the time in which an empty budget is full again if nothing is spent
// of it, and false where that is not known: a quota never is, a fixed window by
// the calendar, and slots when their work ends.
func (r Rule) FullAfter() (time.Duration, bool) {
	switch r.Kind {
	case TokenBucket:
		return r.Refill.wait(r.Capacity, 0)
	case RollingWindow:
		return r.Window, true
	case FixedWindow, Concurrency:
	}
	return 0, false
}

// Per is the time that the capacity is for, as rate limits are told: what an empty
// bucket takes to fill, the window, or the usual length of the period. 0: none.
func (r Rule) Per() time.Duration {
	if r.Kind == FixedWindow {
		return r.Period.usual()
	}
	per, _ := r.FullAfter()
	return per
}
