package scenario

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// Format writes a scenario as a file that [Parse] reads back to the same one, but
// for lines. What says no more than a default is left out.
func Format(s *Scenario) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "title: %s\nlesson: %s\nseed: %d\n", strconv.Quote(s.Title), formatText(s.Lesson), s.Seed)
	if s.Mixed {
		b.WriteString("mixed: true\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "duration: %s\nshards: %d\n", long(s.Duration), s.Shards)
	list(&b, "regions", s.Regions, formatRegion)
	list(&b, "brokers", s.Brokers, func(x Broker) flow {
		return flow{}.add("name", strictyaml.FormatName(x.Name)).clock(x.Clock)
	})
	list(&b, "links", s.Links, func(x Link) flow {
		return flow{}.add("between", pair(x.Ends)).add("round-trip", formatDelay(x.RoundTrip))
	})
	fmt.Fprintf(&b, "store: %s\n", flow{}.add("round-trip", formatDelay(s.Store)))
	list(&b, "policies", s.Policies, formatPolicy)
	list(&b, "workload", s.Workloads, s.formatWorkload)
	list(&b, "faults", s.Faults, formatFault)
	list(&b, "expect", s.Expect, formatExpectation)
	return b.Bytes()
}

// list writes a list, one element on each line.
func list[T any](b *bytes.Buffer, name string, items []T, format func(T) flow) {
	if len(items) == 0 {
		return
	}
	b.WriteString(name + ":\n")
	for _, item := range items {
		fmt.Fprintf(b, "  - %s\n", format(item))
	}
}

// flow is a mapping that is written on one line.
type flow []string

// String is {a: 1, b: 2}.
func (g flow) String() string { return "{" + strings.Join(g, ", ") + "}" }

// add writes a field.
func (g flow) add(name, value string) flow { return append(g, name+": "+value) }

// some writes a field if it says something.
func (g flow) some(says bool, name, value string) flow {
	if !says {
		return g
	}
	return g.add(name, value)
}

// number, length and percent write fields that are not 0.
func (g flow) number(name string, n int64) flow {
	return g.some(n != 0, name, strconv.FormatInt(n, 10))
}

func (g flow) length(name string, d time.Duration) flow { return g.some(d != 0, name, long(d)) }

func (g flow) percent(name string, n int) flow { return g.some(n != 0, name, strconv.Itoa(n)+"%") }

func (g flow) clock(c Clock) flow {
	return g.some(c != Clock{}, "clock", flow{}.length("wall", c.Wall).percent("slow", c.SlowPercent).String())
}

// pair writes two ends.
func pair(ends [2]string) string {
	return "[" + formatParty(ends[0]) + ", " + formatParty(ends[1]) + "]"
}

// formatParty writes a target or an end. That of one limiter is never more than a
// name.
func formatParty(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return strictyaml.FormatName(name)
}

// formatText writes text in lines, where it can stand there.
func formatText(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	const width = 76
	var b strings.Builder
	b.WriteString(">-")
	column := width + 1
	for word := range strings.FieldsSeq(text) {
		if column+1+len(word) > width {
			b.WriteString("\n  ")
			column = 2
		} else {
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func formatDelay(d Delay) string {
	if d.Jitter == 0 {
		return long(d.Base)
	}
	return flow{}.add("base", long(d.Base)).length("jitter", d.Jitter).String()
}

func formatRegion(x Region) flow {
	return flow{}.add("name", strictyaml.FormatName(x.Name)).number("limiters", int64(x.Limiters)).add("journal", x.Journal).
		add("round-trip", formatDelay(x.RoundTrip)).add("wait", long(x.Wait)).clock(x.Clock)
}

func formatPolicy(p lease.Policy) flow {
	return flow{}.add("operation", strictyaml.FormatName(p.Operation)).add(string(p.Rule.Kind), formatRule(p.Rule).String()).
		add("cost", strconv.FormatInt(p.DefaultCost, 10)).number("max-cost", p.MaxCost).
		some(p.AllowZeroCost, "allow-zero-cost", "true").percent("max-share", int(p.Rule.MaxSharePercent)).length("hold", p.Hold).
		length("max-staleness", p.MaxStaleness).some(p.ReclaimMargin > 0, "reclaim", "deadline").length("reclaim-margin", p.ReclaimMargin)
}

// formatRule writes what the rule's kind has.
func formatRule(r lease.Rule) flow {
	capacity := strconv.FormatInt(r.Capacity, 10)
	switch r.Kind {
	case lease.TokenBucket:
		return flow{}.add("capacity", capacity).add("refill", strictyaml.FormatRate(r.Refill.Tokens, r.Refill.Interval))
	case lease.RollingWindow:
		return flow{}.add("limit", capacity).add("window", long(r.Window))
	case lease.FixedWindow:
		return flow{}.add("limit", capacity).add("period", string(r.Period)).add("time-zone", r.Zone)
	case lease.Concurrency:
	}
	return flow{}.add("slots", capacity)
}

// slots says that the operation has slots.
func (s *Scenario) slots(operation string) bool {
	return slices.ContainsFunc(s.Policies, func(p lease.Policy) bool {
		return p.Operation == operation && p.Rule.Kind == lease.Concurrency
	})
}

func (s *Scenario) formatWorkload(w Workload) flow {
	var weights flow
	for _, x := range w.Regions {
		weights = weights.number(strictyaml.FormatName(s.Regions[x.Region].Name), int64(x.Weight))
	}
	g := flow{}.add("operation", strictyaml.FormatName(w.Operation)).add("arrivals", string(w.Arrivals)).
		some(w.Rate.Tokens > 0, "rate", strictyaml.FormatRate(w.Rate.Tokens, w.Rate.Interval)).
		number("burst", int64(w.Burst)).length("period", w.Period).
		some(w.Arrivals == Diurnal, "low", strconv.Itoa(w.LowPercent)+"%").
		number("accounts", int64(w.Accounts)).some(w.Zipf > 0, "zipf", strconv.FormatFloat(w.Zipf, 'f', -1, 64)).
		add("regions", weights.String()).length("rotate", w.Rotate).
		add("cost", fmt.Sprintf("{from: %d, to: %d}", w.Cost, w.MaxCost)).
		some(s.slots(w.Operation), "work", long(w.Work))
	if w.Arrivals != Times {
		return g.length("from", w.From).length("until", w.Until)
	}
	var times []string
	for _, at := range w.Times {
		times = append(times, long(at))
	}
	return g.add("at", "["+strings.Join(times, ", ")+"]")
}

func formatFault(f Fault) flow {
	var value string
	switch f.Kind {
	case Cut, Mess:
		value = pair(f.Ends)
	case StoreIs:
		value = string(f.Trouble)
	case Restore:
		value = long(f.Age)
	case Policy:
		value = formatPolicy(f.Policy).String()
	default:
		value = formatParty(f.Target)
	}
	return flow{}.add("at", long(f.At)).length("for", f.For).add(string(f.Kind), value).
		some(f.OneWay, "one-way", "true").percent("loss", f.Loss).percent("duplicate", f.Duplicate).percent("late", f.Late).
		length("delay", f.Delay).length("back", f.Back).
		some(f.Back > 0 && f.Journal != "", "journal", f.Journal).length("step", f.Step).
		some(f.Declared, "declared", "true").length("attested", f.Attested)
}

func formatExpectation(e Expectation) flow {
	bound := func(g flow, name string, n *float64) flow {
		switch {
		case n == nil:
			return g
		case e.Quantity == Recovery:
			return g.add(name, long(time.Duration(math.Round(*n*float64(time.Second)))))
		}
		text := strconv.FormatFloat(*n, 'f', -1, 64)
		if e.Quantity == Utilisation {
			text += "%"
		}
		return g.add(name, text)
	}
	about := strictyaml.FormatName(e.Region)
	n := e.Quantity.nature()
	switch {
	case !n.places:
		about = e.Strategy
	case e.Region == "":
		about = total
	}
	g := flow{}.add(string(e.Quantity), about)
	switch {
	case n.balance:
		g = g.length("at", e.Until)
	case n.span:
		g = g.length("from", e.From).length("until", e.Until)
	}
	g = g.some(n.places && !n.balance, "strategy", e.Strategy)
	return bound(bound(g, "at-least", e.AtLeast), "at-most", e.AtMost)
}
