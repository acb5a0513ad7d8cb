package scenario

import (
	"cmp"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// Parse reads a scenario file. The name is the file's, for messages.
//
// The scenario is complete and within the bounds of this package. If anything is
// wrong there is none, and the error is a [strictyaml.Faults] that tells all of
// it.
func Parse(name string, data []byte) (*Scenario, error) {
	r := &reader{Parser: strictyaml.New(name), named: map[string]place{}, sc: &Scenario{
		File: name, Seed: 1, Shards: 1, Store: Delay{Base: 2 * time.Millisecond},
	}}
	if top := r.Document(data, "a title, a lesson and a world"); top != nil {
		r.top(top)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.sc, nil
}

// reader reads one scenario.
type reader struct {
	*strictyaml.Parser

	sc *Scenario
	// What could not be read whole: names that are not among the rest may be all
	// right.
	unsureNames, unsurePolicies bool
	policyNodes, workloadNodes  []*strictyaml.Node
	named                       map[string]place // regions and brokers
}

// place is where a name was given.
type place struct {
	line int
	path string
}

// section is a field at the top of a file. They are read in this order, whatever
// their order in the file: the later ones name what the earlier ones have.
type section struct {
	name     string
	required bool
	read     func(node *strictyaml.Node, path string)
}

func (r *reader) head() []section {
	return []section{
		{"title", true, func(v *strictyaml.Node, at string) { r.sc.Title = r.Text(v, at, 100) }},
		{"lesson", true, func(v *strictyaml.Node, at string) { r.sc.Lesson = r.Text(v, at, 2000) }},
		{"seed", false, func(v *strictyaml.Node, at string) { r.sc.Seed = uint64(r.Number(v, at, "")) }},
		{"mixed", false, func(v *strictyaml.Node, at string) { r.sc.Mixed = r.Boolean(v, at) }},
	}
}

func (r *reader) world() []section {
	return []section{
		{"duration", true, r.duration},
		{"shards", false, func(v *strictyaml.Node, at string) { r.sc.Shards = uint32(r.Count(v, at, "shards", 1, MaxShards)) }},
		{"regions", true, r.regions},
		{"brokers", false, r.brokers},
		{"links", false, func(v *strictyaml.Node, at string) { r.List(v, at, "link", "links", r.link) }},
		{"store", false, r.store},
		{"policies", true, r.policies},
		{"workload", true, func(v *strictyaml.Node, at string) { r.List(v, at, "workload", "workloads", r.workload) }},
		{"faults", false, func(v *strictyaml.Node, at string) { r.List(v, at, "fault", "faults", r.fault) }},
		{"expect", false, func(v *strictyaml.Node, at string) { r.List(v, at, "expectation", "expectations", r.expectation) }},
	}
}

// duration reads how long the scenario is. It stays 0 if that cannot be read, and
// then nothing is compared with it.
func (r *reader) duration(node *strictyaml.Node, path string) {
	before := r.Troubles()
	if d := r.Duration(node, path, MinDuration, MaxDuration); r.Troubles() == before {
		r.sc.Duration = d
	}
}

// top reads the fields at the top.
func (r *reader) top(node *strictyaml.Node) {
	mixed := strictyaml.Lookup(node, "mixed")
	refused := ""
	if mixed != nil && mixed.Value == "true" {
		refused = "is drawn from the seed where mixed: true stands: remove one of them"
	}
	sections := r.head()
	values := map[string]*strictyaml.Node{}
	var fields []strictyaml.Field
	add := func(s section, required bool, refused string) {
		fields = append(fields, strictyaml.Field{Name: s.name, Required: required, Refused: refused, Read: func(v *strictyaml.Node, _ string) {
			values[s.name] = v
		}})
	}
	for _, s := range sections {
		add(s, s.required, "")
	}
	for _, s := range r.world() {
		add(s, s.required && refused == "", refused)
		sections = append(sections, s)
	}
	r.Mapping(node, "", fields)
	for _, s := range sections {
		if v := values[s.name]; v != nil {
			s.read(v, s.name)
		}
		if s.name == "brokers" && values[s.name] == nil && !r.sc.Mixed {
			r.defaultBrokers()
		}
	}
	r.finish()
}

// finish checks what needs the whole file, and brings the faults into order.
func (r *reader) finish() {
	r.budgets()
	r.arrivals()
	r.tokens()
	slices.SortStableFunc(r.sc.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	versions := map[string]int64{}
	for _, p := range r.sc.Policies {
		versions[p.Operation] = p.Rule.Version
	}
	for i := range r.sc.Faults {
		if f := &r.sc.Faults[i]; f.Kind == Policy {
			versions[f.Policy.Operation]++
			f.Policy.Rule.Version = versions[f.Policy.Operation]
		}
	}
}
