package envoy

import (
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Limits of a file.
const (
	maxRules       = 1000
	maxDomainBytes = 128
	maxPrefixBytes = 64
)

// ParseMapping reads a mapping. The name is used in messages only. A file with a
// fault yields none: the error is a [strictyaml.Faults] that tells all of them.
//
// A file looks like this; rules are tried in order:
//
//	unmatched: deny             # or allow: what no rule matches passes unlimited
//	response-headers: true      # Retry-After, RateLimit and others; left out: false
//	rules:
//	  - domain: api
//	    entries:                # exactly these, in this order
//	      - key: operation
//	        value: report.create
//	      - key: account        # without a value: any
//	    account:
//	      entry: account        # the account is the value of this entry,
//	      prefix: "tenant:"     # behind this prefix; left out: none
//	    operation: report.create
//	    cost: 5                 # of a request without hits; policy: as the policy says; left out: 1
//	  - domain: api
//	    entries:
//	      - key: operation
//	    account:
//	      fixed: everybody      # one budget for all; no account may have this name
//	    operation:
//	      entry: operation
//	    late: true              # charged when the stream is done
//
// Take operations from an entry only where the gateway alone writes its value:
// whoever chooses the operation chooses the budget.
func ParseMapping(name string, data []byte) (*Mapping, error) {
	r := reader{Parser: strictyaml.New(name)}
	m := &Mapping{domains: map[string][]rule{}}
	if top := r.Document(data, "a list of rules"); top != nil {
		r.Mapping(top, "", []strictyaml.Field{
			{Name: "unmatched", Read: func(v *strictyaml.Node, at string) {
				m.allowUnmatched = r.Choice(v, at, "deny", "allow") == "allow"
			}},
			{Name: "response-headers", Read: func(v *strictyaml.Node, at string) { m.responseHeaders = r.Boolean(v, at) }},
			{Name: "rules", Required: true, Read: r.rules},
		})
	}
	r.checkRules()
	if err := r.Err(); err != nil {
		return nil, err
	}
	for _, read := range r.read {
		m.add(read.rule)
	}
	return m, nil
}

// add appends a rule.
func (m *Mapping) add(r rule) {
	m.domains[r.domain] = append(m.domains[r.domain], r)
	list := &m.prefixes
	if r.account.isFixed() {
		list = &m.fixedAccounts
	}
	if !slices.Contains(*list, r.account.prefix) {
		*list = append(*list, r.account.prefix)
	}
}

// reader reads the rules of one file.
type reader struct {
	*strictyaml.Parser

	read []readRule // those without a fault
}

// readRule is a rule and where it stood.
type readRule struct {
	rule

	line int
	path string
}

func (r *reader) rules(node *strictyaml.Node, path string) {
	r.List(node, path, "rule", "rules", func(item *strictyaml.Node, at string) {
		before := r.Troubles()
		out := r.rule(item, at)
		if r.Troubles() == before {
			r.read = append(r.read, readRule{rule: out, line: item.Line, path: at})
		}
	})
	if strictyaml.IsList(node) && len(node.Content) > maxRules {
		r.Faultf(node.Line, path, "has %d rules: want at most %d", len(node.Content), maxRules)
	}
}

// rule reads one rule. The entries are read first: names are taken from them.
func (r *reader) rule(node *strictyaml.Node, path string) rule {
	out := rule{cost: 1}
	if entries := strictyaml.Lookup(node, "entries"); entries != nil {
		out.entries = r.entries(entries, strictyaml.Join(path, "entries"))
	}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "domain", Required: true, Read: func(v *strictyaml.Node, at string) {
			out.domain = r.Name(v, at, maxDomainBytes, "api")
		}},
		{Name: "entries", Required: true, Read: func(*strictyaml.Node, string) {}},
		{Name: "account", Required: true, Read: func(v *strictyaml.Node, at string) { out.account = r.account(v, at, out.entries) }},
		{Name: "operation", Required: true, Read: func(v *strictyaml.Node, at string) { out.operation = r.operation(v, at, out.entries) }},
		{Name: "cost", Read: func(v *strictyaml.Node, at string) { out.cost = r.cost(v, at) }},
		{Name: "late", Read: func(v *strictyaml.Node, at string) { out.late = r.Boolean(v, at) }},
	})
	if out.late && out.cost == 0 {
		r.Faultf(node.Line, strictyaml.Join(path, "cost"), "policy is not for late rules: want a number of tokens, which is what was used if no hits are named")
	}
	return out
}

func (r *reader) entries(node *strictyaml.Node, path string) []pattern {
	var all []pattern
	r.List(node, path, "entry", "entries", func(item *strictyaml.Node, at string) {
		var p pattern
		r.Mapping(item, at, []strictyaml.Field{
			{Name: "key", Required: true, Read: func(v *strictyaml.Node, at string) { p.key = r.Name(v, at, maxKeyBytes, "account") }},
			{Name: "value", Read: func(v *strictyaml.Node, at string) { p.value = r.Name(v, at, pb.MaxAccountBytes, "report.create") }},
		})
		if p.key != "" && slices.ContainsFunc(all, func(other pattern) bool { return other.key == p.key }) {
			r.Faultf(item.Line, strictyaml.Join(at, "key"), "%s stands twice in the rule: a descriptor that repeats a key is always refused", strictyaml.Quote(p.key))
		}
		all = append(all, p)
	})
	if len(all) > maxEntries {
		r.Faultf(node.Line, path, "has %d entries: want at most %d", len(all), maxEntries)
	}
	return all
}

// account reads where the account comes from: an entry, or a fixed name.
func (r *reader) account(node *strictyaml.Node, path string, entries []pattern) source {
	out := source{entry: -1}
	var fixed, key string
	before := r.Troubles()
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "entry", Read: func(v *strictyaml.Node, at string) { key, out.entry = r.captured(v, at, entries) }},
		{Name: "prefix", Read: func(v *strictyaml.Node, at string) { out.prefix = r.Name(v, at, maxPrefixBytes, `"tenant:"`) }},
		{Name: "fixed", Read: func(v *strictyaml.Node, at string) { fixed = r.Name(v, at, pb.MaxAccountBytes, "everybody") }},
	})
	switch {
	case r.Troubles() > before:
	case key == "" && fixed == "":
		r.Faultf(node.Line, path, "says no account: want entry, the key of an entry, or fixed, a name")
	case key != "" && fixed != "":
		r.Faultf(node.Line, path, "has both entry and fixed: want one of them")
	case fixed != "" && out.prefix != "":
		r.Faultf(node.Line, strictyaml.Join(path, "prefix"), "is for an account from an entry: write it into fixed")
	case fixed != "" && strings.TrimSpace(fixed) != fixed:
		r.Faultf(node.Line, strictyaml.Join(path, "fixed"), "%s begins or ends with a blank: remove it", strictyaml.Quote(fixed))
	case fixed != "":
		out.prefix = fixed
	}
	return out
}

// operation reads the operation: a name, or where it comes from.
func (r *reader) operation(node *strictyaml.Node, path string, entries []pattern) source {
	if !strictyaml.IsMapping(node) {
		return source{entry: -1, prefix: r.Name(node, path, pb.MaxOperationBytes, "report.create")}
	}
	out := source{entry: -1}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "entry", Required: true, Read: func(v *strictyaml.Node, at string) { _, out.entry = r.captured(v, at, entries) }},
	})
	return out
}

// captured reads the key of an entry that has any value.
func (r *reader) captured(node *strictyaml.Node, path string, entries []pattern) (string, int) {
	before := r.Troubles()
	key := r.Name(node, path, maxKeyBytes, "account")
	if r.Troubles() > before {
		return key, -1
	}
	i := slices.IndexFunc(entries, func(p pattern) bool { return p.key == key })
	switch {
	case i < 0:
		r.Faultf(node.Line, path, "%s is not an entry of the rule: want the key of one", strictyaml.Quote(key))
	case entries[i].value != "":
		r.Faultf(node.Line, path, "%s is an entry with the one value %s: write that name itself, or leave the value of the entry out",
			strictyaml.Quote(key), strictyaml.Quote(entries[i].value))
	}
	return key, i
}

func (r *reader) cost(node *strictyaml.Node, path string) int64 {
	if node.Value == "policy" {
		return 0
	}
	return r.Count(node, path, "tokens, or policy", 1, pb.MaxCapacityTokens)
}

// checkRules looks at how the rules fit together.
func (r *reader) checkRules() {
	for i, later := range r.read {
		for _, earlier := range r.read[:i] {
			if earlier.covers(later.rule) {
				r.Faultf(later.line, later.path, "is never reached: %s, in line %d, matches all of it before", earlier.path, earlier.line)
				break
			}
		}
		for _, earlier := range r.read[:i] {
			if a, b := earlier.accountEntry(), later.accountEntry(); a != b && a != "" && b != "" && earlier.account.prefix == later.account.prefix {
				r.Faultf(later.line, strictyaml.Join(later.path, "account"),
					"takes accounts from the entry %s, and %s, in line %d, from %s, with the same prefix %s: one could pass for the other, so give one of them a prefix of its own",
					strictyaml.Quote(b), earlier.path, earlier.line, strictyaml.Quote(a), strictyaml.Quote(later.account.prefix))
				break
			}
		}
	}
}

// accountEntry is the key of the entry that the account comes from; empty: none.
func (r *rule) accountEntry() string {
	if r.account.isFixed() {
		return ""
	}
	return r.entries[r.account.entry].key
}

// covers says that the rule matches all that the other one matches.
func (r *rule) covers(other rule) bool {
	return r.domain == other.domain && slices.EqualFunc(r.entries, other.entries, func(mine, theirs pattern) bool {
		return mine.key == theirs.key && (mine.value == "" || mine.value == theirs.value)
	})
}
