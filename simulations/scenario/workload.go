package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// arrivalKinds are the ways of arriving, the default first.
func arrivalKinds() []string {
	return []string{string(Poisson), string(Steady), string(Bursts), string(Diurnal), string(Times)}
}

// workload reads one stream of checks.
func (r *reader) workload(node *strictyaml.Node, path string) {
	w := Workload{Line: node.Line, Arrivals: Poisson, LowPercent: 10, Accounts: 1, Cost: -1, MaxCost: -1, Until: r.sc.Duration}
	before := r.Troubles()
	operationLine := node.Line
	fields := []strictyaml.Field{
		required("operation", func(v *strictyaml.Node, at string) {
			w.Operation, operationLine = r.Name(v, at, 128, "report.create"), v.Line
		}),
		field("arrivals", func(v *strictyaml.Node, at string) { w.Arrivals = Arrivals(r.Choice(v, at, arrivalKinds()...)) }),
		field("accounts", func(v *strictyaml.Node, at string) { w.Accounts = int(r.Count(v, at, "accounts", 1, MaxBudgets)) }),
		field("zipf", func(v *strictyaml.Node, at string) { w.Zipf = r.Decimal(v, at, 10) }),
		field("regions", func(v *strictyaml.Node, at string) { w.Regions = r.weights(v, at) }),
		field("rotate", func(v *strictyaml.Node, at string) { w.Rotate = r.length(v, at) }),
		field("cost", func(v *strictyaml.Node, at string) { w.Cost, w.MaxCost = r.cost(v, at) }),
		field("work", func(v *strictyaml.Node, at string) { w.Work = r.length(v, at) }),
	}
	ok := r.Mapping(node, path, append(fields, r.arriving(&w, node)...))
	if strictyaml.Lookup(node, "regions") == nil {
		w.Regions = alike(len(r.sc.Regions))
	}
	policy, ruled := r.ruled(w.Operation, operationLine, strictyaml.Join(path, "operation"))
	if w.Cost < 0 {
		w.Cost, w.MaxCost = policy.DefaultCost, policy.DefaultCost
	}
	if policy.Rule.Kind == lease.Concurrency && w.Work == 0 {
		w.Work = time.Second
	}
	if ok && r.Troubles() == before {
		r.checkWorkload(w, node, path)
		if ruled && w.Cost == 0 && !policy.AllowZeroCost {
			r.fieldf(node, path, "cost", "0 needs allow-zero-cost: true in the policy, or want 1 or more")
		}
		if ruled && policy.Rule.Kind != lease.Concurrency && strictyaml.Lookup(node, "work") != nil {
			r.fieldf(node, path, "work", "goes with concurrency alone, and the policy is a %s: remove it", policy.Rule.Kind)
		}
	}
	r.sc.Workloads, r.workloadNodes = append(r.sc.Workloads, w), append(r.workloadNodes, node)
}

// arriving are the fields that say how checks arrive: which of them there are
// depends on the way.
func (r *reader) arriving(w *Workload, node *strictyaml.Node) []strictyaml.Field {
	way := string(Poisson)
	if v := strictyaml.Lookup(node, "arrivals"); v != nil {
		way = v.Value
	}
	known := slices.Contains(arrivalKinds(), way)
	// only leaves a field out of the ways that it does not go with.
	only := func(f strictyaml.Field, ways ...Arrivals) strictyaml.Field {
		switch {
		case !known:
			f.Required = false
		case !slices.Contains(ways, Arrivals(way)):
			f.Required = false
			f.Refused = fmt.Sprintf("does not go with arrivals: %s, but with %s", way, joinWays(ways))
		}
		return f
	}
	random := []Arrivals{Poisson, Steady, Bursts, Diurnal}
	return []strictyaml.Field{
		only(required("rate", func(v *strictyaml.Node, at string) { w.Rate = r.rate(v, at) }), random...),
		only(required("burst", func(v *strictyaml.Node, at string) { w.Burst = int(r.Count(v, at, "checks", 1, maxRate)) }), Bursts),
		only(required("period", func(v *strictyaml.Node, at string) { w.Period = r.length(v, at) }), Diurnal),
		only(field("low", func(v *strictyaml.Node, at string) { w.LowPercent = r.Percent(v, at, 0, 100) }), Diurnal),
		only(required("at", func(v *strictyaml.Node, at string) { w.Times = r.moments(v, at) }), Times),
		only(field("from", func(v *strictyaml.Node, at string) { w.From = r.Duration(v, at, 0, MaxDuration) }), random...),
		only(field("until", func(v *strictyaml.Node, at string) { w.Until = r.length(v, at) }), random...),
	}
}

func joinWays(ways []Arrivals) string {
	var all []string
	for _, w := range ways {
		all = append(all, string(w))
	}
	return strings.Join(all, ", ")
}

// checkWorkload checks fields against each other, of a workload that could be
// read.
func (r *reader) checkWorkload(w Workload, node *strictyaml.Node, path string) {
	r.window(node, path, w.From, w.Until)
	if w.Zipf > 0 && w.Accounts == 1 {
		r.fieldf(node, path, "zipf", "prefers some accounts, and there is one alone: want accounts, or leave the field out")
	}
	if w.Rotate > 0 && !slices.ContainsFunc(w.Regions, func(x Weight) bool { return x.Weight != w.Regions[0].Weight }) {
		r.fieldf(node, path, "rotate", "moves nothing where all weights are alike: want regions with weights, such as {eu: 8, us: 1}")
	}
}

// window checks a span of time of the scenario.
func (r *reader) window(node *strictyaml.Node, path string, from, until time.Duration) {
	switch end := r.sc.Duration; {
	case end == 0:
	case from >= end:
		r.fieldf(node, path, "from", "%s is not before the end, at %s", long(from), long(end))
	case until > end:
		r.fieldf(node, path, "until", "%s is after the end, at %s", long(until), long(end))
	case from >= until:
		r.fieldf(node, path, "from", "%s is not before until, %s", long(from), long(until))
	}
}

// long is a length of time as a file has it.
func long(d time.Duration) string { return strictyaml.FormatDuration(d) }

// rate reads how many checks there are.
func (r *reader) rate(node *strictyaml.Node, path string) lease.Rate {
	tokens, interval := r.Rate(node, path, strictyaml.Rate{Name: "rate", Does: "asks for", Counted: "checks", Longest: MaxDuration})
	rate := lease.Rate{Tokens: tokens, Interval: interval}
	if over(rate, time.Second) > maxRate {
		r.Faultf(node.Line, path, "is too fast: want at most %d per 1s", maxRate)
		return lease.Rate{}
	}
	return rate
}

// moments reads a list of moments, in order.
func (r *reader) moments(node *strictyaml.Node, path string) []time.Duration {
	var all []time.Duration
	r.List(node, path, "moment", "moments", func(item *strictyaml.Node, at string) {
		before := r.Troubles()
		moment := r.Duration(item, at, 0, MaxDuration)
		switch {
		case r.Troubles() > before:
			return
		case r.sc.Duration > 0 && moment >= r.sc.Duration:
			r.Faultf(item.Line, at, "%s is not before the end, at %s", long(moment), long(r.sc.Duration))
		case len(all) > 0 && moment < all[len(all)-1]:
			r.Faultf(item.Line, at, "%s is before the moment before it, %s: want them in order", long(moment), long(all[len(all)-1]))
		}
		all = append(all, moment)
	})
	return all
}

// alike are so many regions of the same weight.
func alike(n int) []Weight {
	all := make([]Weight, n)
	for i := range all {
		all[i] = Weight{Region: i, Weight: 1}
	}
	return all
}

// weights reads {eu: 70, us: 30}, or a list of regions that weigh the same.
func (r *reader) weights(node *strictyaml.Node, path string) []Weight {
	var all []Weight
	if r.unsureNames {
		return nil
	}
	if strictyaml.IsList(node) {
		r.List(node, path, "region", "regions", func(item *strictyaml.Node, at string) {
			region := r.region(item, at)
			if slices.ContainsFunc(all, func(w Weight) bool { return w.Region == region }) {
				r.Faultf(item.Line, at, "%s stands twice: remove one", item.Value)
			}
			if region >= 0 {
				all = append(all, Weight{Region: region, Weight: 1})
			}
		})
		return all
	}
	var fields []strictyaml.Field
	for i, region := range r.sc.Regions {
		fields = append(fields, field(region.Name, func(v *strictyaml.Node, at string) {
			all = append(all, Weight{Region: i, Weight: int(r.Count(v, at, "parts", 1, maxRate))})
		}))
	}
	if r.Mapping(node, path, fields) && len(node.Content) == 0 {
		r.Faultf(node.Line, path, "is empty: want at least one region")
	}
	return all
}

// region reads the name of a region; its index is -1 after a fault.
func (r *reader) region(node *strictyaml.Node, path string) int {
	before := r.Troubles()
	name := r.Name(node, path, maxName, "eu")
	if r.Troubles() > before {
		return -1
	}
	i := r.sc.region(name)
	if i < 0 && !r.unsureNames {
		r.Faultf(node.Line, path, "%s is unknown: want %s", strictyaml.Quote(name), oneOf(r.sc.regionNames()))
	}
	return i
}

// cost reads a number of tokens, or {from: 1, to: 5}.
func (r *reader) cost(node *strictyaml.Node, path string) (least, most int64) {
	if !strictyaml.IsMapping(node) {
		n := r.Count(node, path, "tokens", 0, lease.MaxCapacity)
		return n, n
	}
	before := r.Troubles()
	r.Mapping(node, path, []strictyaml.Field{
		required("from", func(v *strictyaml.Node, at string) { least = r.Count(v, at, "tokens", 0, lease.MaxCapacity) }),
		required("to", func(v *strictyaml.Node, at string) { most = r.Count(v, at, "tokens", 0, lease.MaxCapacity) }),
	})
	if r.Troubles() == before && least > most {
		r.Faultf(node.Line, path, "%d is above %d: want from to be at most to", least, most)
	}
	return least, most
}
