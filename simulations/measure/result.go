package measure

import (
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// Outcome is how a check ended.
type Outcome uint8

// The outcomes. Denied checks spend nothing.
const (
	Pending     Outcome = iota // not answered when the run ended
	Admitted                   // may start
	Exhausted                  // the budget is known to be used up: 429
	Unavailable                // no safe authority could be reached in time: 503
	Refused                    // can never be admitted: cost above capacity, no policy
)

// Result is what a run of one strategy measured. Tokens are summed over all
// budgets, and checks are counted from their arrival.
type Result struct {
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	Events   int    `json:"events"`
	Hash     string `json:"hash,omitempty"` // of all events, in hexadecimal; of the real code alone

	Checks      int64 `json:"checks"` // that arrived
	Offered     int64 `json:"offered_tokens"`
	Admitted    int64 `json:"admitted_tokens"`
	Exhausted   int64 `json:"exhausted_checks"`
	Unavailable int64 `json:"unavailable_checks"`
	Refused     int64 `json:"refused_checks"`
	Pending     int64 `json:"pending_checks"`
	// FalseDenied are checks that this strategy did not admit and the oracle did.
	FalseDenied int64 `json:"false_denied_checks"`

	// Cap is what an ideal bucket admits at most in the whole run: the sum of
	// B + R*T over the budgets that were asked for, at the highest B and R in
	// force.
	Cap int64 `json:"cap_tokens"`
	// Excess is by how much the admissions of some interval were above B + R*T of
	// their budget, at the worst moment, rounded up; ExcessAt is when.
	Excess   int64         `json:"worst_excess_tokens"`
	ExcessAt time.Duration `json:"worst_excess_at_ns"`

	// Utilisation is admitted by the oracle's admitted, 0 to 1 (above for
	// strategies that overshoot). Bound is DESIGN.md's bound on it,
	// min(1, B/(R*tau)), with the measured tau; 0 where it is not known.
	Utilisation float64       `json:"utilisation"`
	Bound       float64       `json:"utilisation_bound,omitempty"`
	TimeOut     time.Duration `json:"time_out_ns,omitempty"` // tau: how long a token was out, on average
	Syncs       int64         `json:"syncs"`                 // requests to a broker
	SyncsPer    float64       `json:"syncs_per_check"`

	// Unknown credit: for how long there was any, and its integral over time.
	UnknownFor         time.Duration `json:"unknown_for_ns"`
	UnknownTokenSecond float64       `json:"unknown_token_seconds"`
	// Lapsed is what counted as spent by deadline, of the real code alone.
	Lapsed int64 `json:"lapsed_tokens,omitempty"`
	// Recovery is the longest time from the end of a fault until each region in
	// which checks arrived that the oracle admits had one admitted again. Never is set when that did not
	// happen before the run ended.
	Recovery time.Duration `json:"recovery_ns"`
	Never    bool          `json:"never_recovered,omitempty"`
	Stopped  int           `json:"stopped_shards,omitempty"`

	Regions []Region `json:"regions"`
	Series  *Series  `json:"series,omitempty"`
	Broken  string   `json:"broken,omitempty"` // the rule that was found broken, and how to see it again

	Outcomes []Outcome `json:"-"` // by index of the arrival

	// What expectations about a part of the run are checked by.
	sc      *scenario.Scenario
	checks  []check
	moments []moment // in order of time
	last    moment
}

// Region is what one region saw.
type Region struct {
	Name        string `json:"name"`
	Checks      int64  `json:"checks"`
	Admitted    int64  `json:"admitted_tokens"`
	Exhausted   int64  `json:"exhausted_checks"`
	Unavailable int64  `json:"unavailable_checks"`
}

// Series is a run over time, in bins of equal length. A balance is that at the
// end of its bin.
type Series struct {
	Step      time.Duration `json:"step_ns"`
	Capacity  []int64       `json:"capacity_tokens"` // in force
	Available []int64       `json:"available_tokens"`
	Unknown   []int64       `json:"unknown_tokens"` // reserved for dead epochs
	// By region, then by bin.
	Held        [][]int64 `json:"held_tokens"` // reserved for live epochs
	Admitted    [][]int64 `json:"admitted_tokens"`
	Exhausted   [][]int64 `json:"exhausted_checks"`
	Unavailable [][]int64 `json:"unavailable_checks"`
	Faults      []Span    `json:"faults"`
}

// Span is when something was wrong.
type Span struct {
	From  time.Duration `json:"from_ns"`
	Until time.Duration `json:"until_ns"` // equal to From for a moment
	Label string        `json:"label"`
}
