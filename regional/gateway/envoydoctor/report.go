package envoydoctor

// Severity is how bad a finding is.
type Severity string

const (
	// FailsOpen is where requests pass that no limiter has admitted.
	FailsOpen Severity = "fails-open"
	// Warning is what is worth a look.
	Warning Severity = "warning"
)

// Finding is one place and what is wrong there.
type Finding struct {
	Severity Severity `json:"severity"`
	// Rule is a short name of what was found, which stays the same: for programs.
	Rule string `json:"rule"`
	// Path is where, from the outside in, such as
	// `listener "edge" / filter chain 0 / http filter "envoy.filters.http.ratelimit"`.
	Path string `json:"path"`
	// Problem is what is wrong, and Change what to do about it, for people.
	Problem string `json:"problem"`
	Change  string `json:"change"`
	// Routes are the paths of the routes that it concerns, if it is about a filter.
	Routes []string `json:"routes,omitempty"`
}

// Report is what was found in a configuration.
type Report struct {
	Findings []Finding `json:"findings"` // in the order of the file; never nil
	// What was looked at.
	Listeners int `json:"listeners"`
	Limiters  int `json:"limiters"` // rate limit filters
	Routes    int `json:"routes"`   // that lead to a cluster, once for each listener that uses them
}

// Count is the number of findings of a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}
