package scenario

import (
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// Ours is the strategy of the real code.
const Ours = "tokenlease"

// Strategies are all that a scenario can be run by, ours first.
func Strategies() []string {
	return []string{Ours, "oracle", "independent", "static", "local-async", "expiring-leases"}
}

// nature is how a quantity is measured.
type nature struct {
	name    Quantity
	span    bool // in a span of time, from and until
	balance bool // at a moment
	places  bool // of a region, or in total; otherwise its value names a strategy
}

// quantities are all of them.
func quantities() []nature {
	return []nature{
		{Admitted, true, false, true}, {Exhausted, true, false, true}, {Unavailable, true, false, true},
		{Available, false, true, true}, {Held, false, true, true}, {Unknown, false, true, true},
		{FalseDenied, true, false, false}, {Excess, false, false, false}, {Utilisation, true, false, false},
		{Recovery, false, false, false}, {Stopped, false, false, false},
	}
}

// nature is how the quantity is measured.
func (q Quantity) nature() nature {
	for _, n := range quantities() {
		if n.name == q {
			return n
		}
	}
	return nature{}
}

// expectation reads one bound on a quantity.
func (r *reader) expectation(node *strictyaml.Node, path string) {
	var names []string
	for _, q := range quantities() {
		names = append(names, string(q.name))
	}
	others := []string{"from", "until", "at", "strategy", "at-least", "at-most"}
	name, ok := r.only(node, path, "quantity", names, others)
	if !ok {
		return
	}
	e := Expectation{Line: node.Line, Quantity: Quantity(name), Strategy: Ours, Until: r.sc.Duration}
	before := r.Troubles()
	r.Mapping(node, path, append([]strictyaml.Field{
		required(name, func(v *strictyaml.Node, at string) { r.about(&e, v, at) }),
		field("at-least", func(v *strictyaml.Node, at string) { e.AtLeast = r.bound(e.Quantity, v, at) }),
		field("at-most", func(v *strictyaml.Node, at string) { e.AtMost = r.bound(e.Quantity, v, at) }),
	}, r.when(&e)...))
	if r.Troubles() == before {
		r.checkExpectation(e, node, path)
	}
	r.sc.Expect = append(r.sc.Expect, e)
}

// when are the fields that say which time and whose run it is about; which of
// them there are depends on the quantity.
func (r *reader) when(e *Expectation) []strictyaml.Field {
	n := e.Quantity.nature()
	span, moment, strategy := "", "", ""
	switch {
	case n.balance:
		span = "does not go with a balance: want at, for the moment"
		strategy = "does not go with a balance, which is that of " + Ours
	case n.span:
		moment = "does not go with what is added up: want from and until"
	default:
		span = "does not go with what is about a whole run: remove it"
		moment = span
	}
	if !n.places {
		strategy = "is the value of " + string(e.Quantity) + " here: remove it"
	}
	return []strictyaml.Field{
		{Name: "from", Refused: span, Read: func(v *strictyaml.Node, at string) { e.From = r.Duration(v, at, 0, MaxDuration) }},
		{Name: "until", Refused: span, Read: func(v *strictyaml.Node, at string) { e.Until = r.length(v, at) }},
		{Name: "at", Refused: moment, Read: func(v *strictyaml.Node, at string) { e.Until = r.length(v, at) }},
		{Name: "strategy", Refused: strategy, Read: func(v *strictyaml.Node, at string) { e.Strategy = r.Choice(v, at, Strategies()...) }},
	}
}

// about reads the value of the field that names the quantity: total or a region,
// or a strategy.
func (r *reader) about(e *Expectation, v *strictyaml.Node, at string) {
	if !e.Quantity.nature().places {
		words := Strategies()
		if e.Quantity == Stopped {
			words = []string{Ours}
		}
		e.Strategy = r.Choice(v, at, words...)
		return
	}
	before := r.Troubles()
	name := r.Name(v, at, maxName, total)
	switch {
	case r.Troubles() > before || name == total:
	case e.Quantity == Available || e.Quantity == Unknown:
		r.Faultf(v.Line, at, "is %s: this is a balance of the budgets, of no region: want %s", strictyaml.Quote(name), total)
	case r.sc.region(name) < 0 && !r.unsureNames:
		r.Faultf(v.Line, at, "%s is unknown: want one of %s", strictyaml.Quote(name), strings.Join(append([]string{total}, r.sc.regionNames()...), ", "))
	default:
		e.Region = name
	}
}

// bound reads a bound in the quantity's unit.
func (r *reader) bound(q Quantity, v *strictyaml.Node, at string) *float64 {
	const most = 1 << 53 // above, not all numbers are floats
	var n float64
	switch {
	case q == Utilisation:
		n = float64(r.Percent(v, at, 0, 100_000))
	case q == Recovery:
		n = r.Duration(v, at, 0, MaxDuration).Seconds()
	case q == Stopped:
		n = float64(r.Count(v, at, "shards", 0, most))
	case slices.Contains([]Quantity{Exhausted, Unavailable, FalseDenied}, q):
		n = float64(r.Count(v, at, "checks", 0, most))
	default:
		n = float64(r.Count(v, at, "tokens", 0, most))
	}
	return &n
}

// checkExpectation checks fields against each other, of an expectation that could
// be read.
func (r *reader) checkExpectation(e Expectation, node *strictyaml.Node, path string) {
	switch {
	case e.AtLeast == nil && e.AtMost == nil:
		r.Faultf(e.Line, path, "bounds nothing: want at-least, at-most or both")
	case e.AtLeast != nil && e.AtMost != nil && *e.AtLeast > *e.AtMost:
		r.fieldf(node, path, "at-least", "is above at-most: nothing is both")
	}
	if end := r.sc.Duration; e.Quantity.nature().balance && end > 0 && e.Until > end {
		r.fieldf(node, path, "at", "%s is after the end, at %s", long(e.Until), long(end))
	} else if e.Quantity.nature().span {
		r.window(node, path, e.From, e.Until)
	}
}
