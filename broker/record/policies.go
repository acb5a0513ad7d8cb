package record

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/tokenlease/tokenlease/lease"
)

// PolicySet is the key of the policy version. Every change of policies rewrites it.
func (l Layout) PolicySet() string { return l.prefix + "policyset" }

// Plans is the prefix of all plans.
func (l Layout) Plans() string { return l.prefix + "plans/" }

// Plan is the key of one plan.
func (l Layout) Plan(name string) string { return l.Plans() + url.PathEscape(name) }

// Accounts is the prefix of what accounts have of their own.
func (l Layout) Accounts() string { return l.prefix + "accounts/" }

// Account is the key of what one account has of its own.
func (l Layout) Account(account string) string { return l.Accounts() + url.PathEscape(account) }

// Defaults is the key of what accounts have without a choice.
func (l Layout) Defaults() string { return l.prefix + "defaults" }

// Disables is the prefix of the operations that were ever disabled.
func (l Layout) Disables() string { return l.prefix + "disabled/" }

// Disable is the key of one such operation.
func (l Layout) Disable(operation string) string { return l.Disables() + url.PathEscape(operation) }

// Histories is the prefix of the changes of policies.
func (l Layout) Histories() string { return l.prefix + "history/" }

// History is the key of the change that made the version: in order of version.
func (l Layout) History(version int64) string { return fmt.Sprintf("%s%019d", l.Histories(), version) }

// PolicySet is where the chain of policy changes stands. Every change compares and
// rewrites it, so all changes of policies, plans and accounts are one chain.
type PolicySet struct {
	Version      int64 `json:"version"`       // the policy version in force
	UnixMs       int64 `json:"unix_ms"`       // when that was made
	TouchedSince int64 `json:"touched_since"` // Touched has everything of above this version
	// Accounts says that some account has ever had a record.
	Accounts bool `json:"accounts,omitempty"`
	// Touched is what was changed last and does not tell its version itself, in order
	// of version. So who has read the policies at one version knows which accounts to
	// read again, and whose policy is gone.
	Touched []Touched `json:"touched,omitempty"`
}

// Touched is an account whose record a version has written, or an operation whose
// policy for everybody it has removed.
type Touched struct {
	Account   string `json:"account,omitempty"`
	Operation string `json:"operation,omitempty"`
	Version   int64  `json:"version"`
}

// Bounds of PolicySet.Touched, which every change rewrites.
const (
	maxTouched      = 256
	maxTouchedBytes = 16 << 10
)

// Next is the set after a change that made the version, wrote these accounts and
// removed the policies for everybody of these operations.
func (p PolicySet) Next(version, unixMs int64, accounts, removed []string) PolicySet {
	next := PolicySet{
		Version: version, UnixMs: unixMs, TouchedSince: p.TouchedSince,
		Accounts: p.Accounts || len(accounts) > 0, Touched: slices.Clone(p.Touched),
	}
	for _, account := range accounts {
		next.Touched = append(next.Touched, Touched{Account: account, Version: version})
	}
	for _, operation := range removed {
		next.Touched = append(next.Touched, Touched{Operation: operation, Version: version})
	}
	bytes := 0
	for at, t := range slices.Backward(next.Touched) {
		bytes += len(t.Account) + len(t.Operation)
		if len(next.Touched)-at > maxTouched || bytes > maxTouchedBytes {
			next.TouchedSince = t.Version
			break
		}
	}
	next.Touched = slices.DeleteFunc(next.Touched, func(t Touched) bool { return t.Version <= next.TouchedSince })
	return next
}

// TouchedAfter is what was touched after the version; ok is false where that is not
// known any more.
func (p PolicySet) TouchedAfter(version int64) (touched []Touched, ok bool) {
	if version < p.TouchedSince {
		return nil, false
	}
	for _, t := range p.Touched {
		if t.Version > version {
			touched = append(touched, t)
		}
	}
	return touched, true
}

// Plan is a named set of policies.
type Plan struct {
	Name     string         `json:"name"`
	Version  int64          `json:"version"` // at which it last changed
	Policies []lease.Policy `json:"policies,omitempty"`
	// Shrunk is the version at which a policy was last removed from it, or at which it
	// was made: of one that was lost nobody knows what it had.
	Shrunk        int64 `json:"shrunk,omitempty"`
	UpdatedUnixMs int64 `json:"updated_unix_ms,omitempty"`
}

// Account is what one account has of its own. It is never deleted: who has neither
// plan nor policies any more keeps the version at which that was taken away.
type Account struct {
	Account  string         `json:"account"`
	Version  int64          `json:"version"`        // at which it last changed
	Plan     string         `json:"plan,omitempty"` // empty: the default plan
	Policies []lease.Policy `json:"policies,omitempty"`
	// Shrunk is the version at which a policy was last removed from it, its plan
	// changed, or it was made.
	Shrunk        int64 `json:"shrunk,omitempty"`
	UpdatedUnixMs int64 `json:"updated_unix_ms,omitempty"`
}

// Empty says that the account has nothing of its own.
func (a Account) Empty() bool { return a.Plan == "" && len(a.Policies) == 0 }

// Defaults are what accounts have without a choice.
type Defaults struct {
	Plan    string `json:"plan,omitempty"` // of accounts without one; empty: none
	Version int64  `json:"version"`        // at which it last changed
}

// Disabled lies over whatever policies of an operation are in force. It is kept when
// the operation is enabled again, for its version.
type Disabled struct {
	Operation   string `json:"operation"`
	Disabled    bool   `json:"disabled"`
	Because     string `json:"because,omitempty"`
	By          string `json:"by,omitempty"`
	Verified    bool   `json:"verified,omitempty"`
	SinceUnixMs int64  `json:"since_unix_ms,omitempty"`
	Version     int64  `json:"version"` // at which it last changed
}

// History is one change of the policies.
type History struct {
	Version  int64    `json:"version"` // that it made
	Action   string   `json:"action"`  // apply, rollback, disable or enable
	By       string   `json:"by"`
	Verified bool     `json:"verified,omitempty"`
	Because  string   `json:"because,omitempty"`
	UnixMs   int64    `json:"unix_ms"`
	Changes  []Change `json:"changes"`
	To       int64    `json:"to,omitempty"` // the version that a rollback went back to
}

// Subject is what a change is about.
type Subject string

// The subjects of changes.
const (
	OfEverybody Subject = "policy"       // the policy for everybody of an operation
	OfPlan      Subject = "plan"         // a plan, or its policy of an operation
	OfAccount   Subject = "account"      // an account's plan, or its policy of an operation
	OfDefault   Subject = "default plan" // the default plan
	OfOperation Subject = "operation"    // whether an operation is disabled
)

// Change is the change of one policy, or of what Was and Is say in a word: the name
// of a plan for accounts and the default plan, "exists" for plans, and why an
// operation is disabled; empty: none.
type Change struct {
	Subject   Subject       `json:"subject"`
	Name      string        `json:"name,omitempty"`      // of the plan or account
	Operation string        `json:"operation,omitempty"` // of the policies
	Before    *lease.Policy `json:"before,omitempty"`
	After     *lease.Policy `json:"after,omitempty"`
	Was       string        `json:"was,omitempty"`
	Is        string        `json:"is,omitempty"`
}

// PlanExists is what Change says of a plan that there is.
const PlanExists = "exists"

// String names the subject, such as "plan premium".
func (c Change) String() string {
	switch c.Subject {
	case OfEverybody, OfOperation:
		return string(c.Subject) + " " + c.Operation
	case OfPlan, OfAccount:
		return string(c.Subject) + " " + c.Name
	case OfDefault:
	}
	return string(c.Subject)
}
