package forwardauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rules are compiled rules.
type rules struct {
	list     []compiled
	foldCase bool
	byMethod bool // some rule has a method
}

// compiled is a rule whose path has been taken apart.
type compiled struct {
	Rule

	segments []string
}

// compile checks the rules.
func compile(list []Rule, foldCase bool) (rules, error) {
	r := rules{foldCase: foldCase}
	var faults []error
	if len(list) > MaxRules {
		faults = append(faults, fmt.Errorf("there are %d rules: want at most %d", len(list), MaxRules))
	}
	for i, rule := range list[:min(len(list), MaxRules)] {
		c := compiled{Rule: rule}
		var problem string
		if c.segments, problem = rulePath(rule.Path); problem == "" {
			problem = r.problem(c)
		}
		if problem != "" {
			faults = append(faults, fmt.Errorf("rule %d: %s", i+1, problem))
		}
		r.list = append(r.list, c)
		r.byMethod = r.byMethod || rule.Method != ""
	}
	return r, errors.Join(faults...)
}

// problem says what is wrong with one more rule, but for its path.
func (r rules) problem(c compiled) string {
	if c.Method != "" && !validMethod(c.Method) {
		return fmt.Sprintf("method %.40q is not in upper-case letters", c.Method)
	}
	if err := checkOperation(c.Operation); err != nil {
		return err.Error()
	}
	if c.Cost.Given && c.Cost.Tokens < 0 {
		return fmt.Sprintf("the cost is %d: want 0 or more", c.Cost.Tokens)
	}
	for i, other := range r.list {
		if other.Method == c.Method && slices.EqualFunc(other.segments, c.segments, r.same) {
			return fmt.Sprintf("covers the same method and path as rule %d: remove one", i+1)
		}
	}
	return ""
}

// rulePath takes the path of a rule apart.
func rulePath(path string) ([]string, string) {
	const want = `: want "/" or one such as /api/reports`
	shown := fmt.Sprintf("path %.40q ", path)
	switch {
	case strings.ContainsAny(path, "%?"):
		return nil, shown + "has an escape or a query" + want
	case len(path) > 1 && strings.HasSuffix(path, "/"):
		return nil, shown + "ends with a slash, and covers what is below it without one" + want
	}
	t, problem := parseTarget(path)
	if problem == "" && t.sure < len(t.segments) {
		problem = "can be read in two ways"
	}
	if problem != "" {
		return nil, shown + problem + want
	}
	return t.segments, ""
}

// validMethod says whether a method is of upper-case letters, with hyphens and
// underscores.
func validMethod(method string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	return method != "" && len(method) <= 32 && strings.Trim(method, allowed) == ""
}

// find is the most specific rule for a request, nil for none. The path is
// ambiguous if another reading of it might take another rule.
func (r rules) find(method string, t target) (best *compiled, ambiguous bool) {
	score := -1
	for i := range r.list {
		c := &r.list[i]
		exact := methodScore(c.Method, method)
		known := min(len(c.segments), t.sure)
		if exact < 0 || !slices.EqualFunc(c.segments[:known], t.segments[:known], r.same) {
			continue
		}
		if known < len(c.segments) {
			// The path goes on in a way that services read differently, or ends here.
			ambiguous = ambiguous || t.sure < len(t.segments)
			continue
		}
		if s := len(c.segments)*3 + exact; s > score {
			best, score = c, s
		}
	}
	return best, ambiguous
}

// methodScore is how closely a rule's method fits: -1 for not at all.
func methodScore(rule, method string) int {
	switch {
	case rule == "":
		return 0
	case rule == method:
		return 2
	case rule == "GET" && method == "HEAD":
		return 1
	}
	return -1
}

// same compares segments.
func (r rules) same(a, b string) bool { return a == b || r.foldCase && strings.EqualFold(a, b) }
