package scenario

import (
	"strings"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// group is which processes a kind of fault can happen to.
type group int

const (
	anyProcess group = iota
	limiters
	brokers
)

// party reads a name, and whom it means. If nobody, that is recorded.
func (r *reader) party(node *strictyaml.Node, path string) (name string, p Party, ok bool) {
	before := r.Troubles()
	name = r.Name(node, path, 2*maxName, "eu")
	if r.Troubles() > before {
		return name, p, false
	}
	p, ok = r.sc.Party(name)
	if !ok && !r.unsureNames {
		r.Faultf(node.Line, path, "%s is unknown: want one of %s", strictyaml.Quote(name), r.sc.parties())
	}
	return name, p, ok
}

// target reads whom a fault happens to.
func (r *reader) target(node *strictyaml.Node, path string, whom group) string {
	name, p, ok := r.party(node, path)
	switch {
	case !ok:
	case p.Store:
		r.Faultf(node.Line, path, "is the store, which is no process here: want a fault of kind store or restore")
	case whom == limiters && len(p.Limiters) == 0:
		r.Faultf(node.Line, path, "%s has no limiters: want a region, or one of its limiters such as %s/1", strictyaml.Quote(name), r.sc.example())
	case whom == brokers && len(p.Brokers) == 0:
		r.Faultf(node.Line, path, "%s is not a broker: want one of %s", strictyaml.Quote(name), strings.Join(r.sc.brokerNames(), ", "))
	}
	return name
}

// ends reads two parties that send messages to each other.
func (r *reader) ends(node *strictyaml.Node, path string) [2]string {
	var ends [2]string
	var parties [2]Party
	want := "want two ends, such as [" + r.sc.example() + ", brokers]"
	switch {
	case !strictyaml.IsList(node):
		r.WrongKind(node, path, want)
		return ends
	case len(node.Content) != 2:
		r.Faultf(node.Line, path, "names %d: %s", len(node.Content), want)
		return ends
	}
	known := 0
	for i, item := range node.Content {
		name, p, ok := r.party(item, strictyaml.Index(path, i))
		ends[i], parties[i] = name, p
		if ok {
			known++
		}
	}
	switch {
	case known < 2:
	case ends[0] == ends[1] && len(parties[0].Brokers) < 2:
		r.Faultf(node.Line, path, "names %s twice: want two ends", ends[0])
	case !talk(parties[0], parties[1]):
		r.Faultf(node.Line, path, "%s and %s send each other nothing: want brokers at one end", ends[0], ends[1])
	}
	return ends
}

// example is a region, for messages.
func (s *Scenario) example() string {
	if len(s.Regions) == 0 || s.Regions[0].Name == "" {
		return "eu"
	}
	return s.Regions[0].Name
}

func (s *Scenario) brokerNames() []string {
	var all []string
	for _, b := range s.Brokers {
		all = append(all, b.Name)
	}
	return append(all, AllBrokers)
}

func (s *Scenario) regionNames() []string {
	var all []string
	for _, r := range s.Regions {
		all = append(all, r.Name)
	}
	return all
}

// parties lists names for people.
func (s *Scenario) parties() string {
	all := append(s.regionNames(), s.example()+"/1")
	return strings.Join(append(all, s.brokerNames()...), ", ")
}

// oneOf lists words for people.
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// fieldf records that something is wrong with a field of a mapping, or with its
// absence.
func (r *reader) fieldf(node *strictyaml.Node, path, name, format string, args ...any) {
	line := node.Line
	if v := strictyaml.Lookup(node, name); v != nil {
		line = v.Line
	}
	r.Faultf(line, strictyaml.Join(path, name), format, args...)
}

// only finds the one field of a mapping that says what it is about. If there is
// none, or more than one, that is recorded; others are fields that may stand
// beside it.
func (r *reader) only(node *strictyaml.Node, path, what string, kinds, others []string) (string, bool) {
	var found []string
	for _, k := range kinds {
		if strictyaml.Lookup(node, k) != nil {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(found) > 1:
		r.Faultf(node.Line, path, "is %s at once: want one %s in each entry", strings.Join(found, " and "), what)
		return "", false
	}
	before := r.Troubles()
	var fields []strictyaml.Field
	for _, name := range append(append([]string{}, kinds...), others...) {
		fields = append(fields, field(name, func(*strictyaml.Node, string) {}))
	}
	r.Mapping(node, path, fields) // which tells of the mistyped one
	if r.Troubles() == before {
		r.Faultf(node.Line, path, "does not say which %s it is: want %s", what, oneOf(kinds))
	}
	return "", false
}
