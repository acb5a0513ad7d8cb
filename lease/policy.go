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
)

// Rule is the part of a policy that a ledger runs under.
type Rule struct {
	Kind     Kind  `json:"kind"`
	Version  int64 `json:"version"`  // of the policy; only ever grows
	Capacity int64 `json:"capacity"` // tokens, 0 to MaxCapacity; 0 denies all
	Refill   Rate  `json:"refill"`
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
	UpdatedUnixMs int64  `json:"updated_unix_ms,omitempty"` // for display
}

// Validate says what is wrong with the rule's numbers, together.
func (r Rule) Validate() error {
	switch {
	case r.Kind != TokenBucket:
		return fmt.Errorf("rule kind %q is not known", r.Kind)
	case r.Capacity < 0 || r.Capacity > MaxCapacity:
		return fmt.Errorf("capacity %d is not between 0 and %d", r.Capacity, MaxCapacity)
	case r.Refill.Tokens < 0:
		return fmt.Errorf("refill of %d tokens is negative", r.Refill.Tokens)
	case r.Refill.Tokens > 0 && (r.Refill.Interval <= 0 || r.Refill.Interval > MaxInterval):
		return fmt.Errorf("refill interval %v is not between 1ns and %v", r.Refill.Interval, MaxInterval)
	case r.Refill.Interval < 0:
		return fmt.Errorf("refill interval %v is negative", r.Refill.Interval)
	case r.MaxSharePercent < 1 || r.MaxSharePercent > 100:
		return fmt.Errorf("max share of %d%% is not between 1%% and 100%%", r.MaxSharePercent)
	}
	return nil
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
	switch {
	case p.Operation == "":
		return errors.New("operation is empty")
	case p.DefaultCost < 0 || p.MaxCost < 0:
		return errors.New("costs are negative")
	case p.DefaultCost == 0 && !p.AllowZeroCost:
		return errors.New("default cost is 0, which allow-zero-cost would have to permit")
	case p.MaxCost > 0 && p.DefaultCost > p.MaxCost:
		return fmt.Errorf("default cost %d is above the highest cost %d", p.DefaultCost, p.MaxCost)
	}
	return nil
}

// SameTerms says that both policies rule alike, whatever their version and
// time: applying one over the other changes nothing.
func (p Policy) SameTerms(other Policy) bool {
	p.Rule.Version, p.UpdatedUnixMs = other.Rule.Version, other.UpdatedUnixMs
	return p == other
}

// FullAfter is the time in which an empty budget refills, and false for one
// that never does.
func (r Rule) FullAfter() (time.Duration, bool) { return r.Refill.wait(r.Capacity, 0) }
