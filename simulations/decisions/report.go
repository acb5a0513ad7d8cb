package decisions

import (
	"fmt"
	"time"
)

// maxListed is how many violations and notes a report lists.
const maxListed = 1000

// Report is the outcome of a judgement.
type Report struct {
	// Lines of decisions and settlements, each counted once.
	Lines      int64 `json:"lines"`
	Admissions int64 `json:"admissions"` // that took credit
	Denials    int64 `json:"denials"`
	// Beside the credit were admitted, by shadow mode or a local allowance: how often,
	// and for how many tokens.
	Beside       int64 `json:"beside"`
	BesideTokens int64 `json:"beside_tokens"`
	Budgets      int   `json:"budgets"`
	Logs         []Log `json:"logs"`
	// Torn last lines were left out.
	Torn int `json:"torn"`
	// Complete says that nothing is missing between the first and the last line of each
	// log, and that none is sampled: without a violation they are proven clean.
	Complete bool `json:"complete"`
	// Violating is how many budgets have a violation.
	Violating  int         `json:"violating"`
	Violations []Violation `json:"violations"` // the first 1,000, in order of time
	Notes      []string    `json:"notes"`
}

// Log is one start of one limiter.
type Log struct {
	ID       string    `json:"id"`
	Region   string    `json:"region"`
	Instance string    `json:"instance"`
	Epoch    uint64    `json:"epoch"`
	Sample   float64   `json:"sample"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Missing  uint64    `json:"missing"` // lines, as far as their numbers tell
}

// Violation is a budget of which more was admitted than its policy allows.
type Violation struct {
	Account   string `json:"account"`
	Operation string `json:"operation"`
	// First is the line at which it is proven, and Tokens is the excess there, rounded
	// up.
	First  time.Time `json:"first"`
	Tokens int64     `json:"tokens"`
	// Worst is the excess at its highest, and WorstAt when that was.
	Worst   int64     `json:"worst_tokens"`
	WorstAt time.Time `json:"worst_at"`
	Log     string    `json:"log"`   // of the first line
	Order   uint64    `json:"order"` // of the first line
	Rule    string    `json:"rule"`  // in force there, in words
	Version int64     `json:"policy_version"`
}

func (r *Report) note(format string, args ...any) {
	if len(r.Notes) < maxListed {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}
