package envoy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

// Mapping says which descriptors are which budgets. It is made by [ParseMapping]
// and never changes. The nil Mapping matches nothing, and denies that.
type Mapping struct {
	allowUnmatched  bool
	responseHeaders bool
	domains         map[string][]rule
	prefixes        []string // of accounts, each once
	fixedAccounts   []string
}

// rule maps descriptors of one form to budgets.
type rule struct {
	domain    string
	entries   []pattern
	account   source
	operation source
	cost      int64 // tokens of a request that names no hits; 0: the policy's default
	late      bool
}

// pattern is one entry that a rule wants.
type pattern struct {
	key   string
	value string // empty: any, and the entry is captured
}

// source is where a name comes from: the value of an entry behind a prefix, or, if
// entry is negative, the prefix alone.
type source struct {
	entry  int
	prefix string
}

func (s source) isFixed() bool { return s.entry < 0 }

// name is the name that the source gives for a descriptor which matches the rule.
func (s source) name(values []string) string {
	if s.isFixed() {
		return s.prefix
	}
	return s.prefix + values[s.entry]
}

// entry is an entry of a descriptor, apart from how it was sent.
type entry struct{ key, value string }

// Bounds of what is looked at.
const (
	maxEntries  = 32
	maxKeyBytes = 256
)

// problem is why a descriptor is refused, as a label of a metric; empty: it is not.
type problem string

const (
	problemForm      problem = "form"      // no entries, too many, repeated or unreadable keys
	problemName      problem = "name"      // a value that cannot be a name
	problemAmbiguous problem = "ambiguous" // a value that could be read as another account
	problemNegative  problem = "negative"  // negative hits
	problemHits      problem = "hits"      // hits that cannot be added up
	problemOverride  problem = "override"  // a limit of the gateway's own
	problemMixed     problem = "mixed"     // late and other descriptors in one request
	problemRequest   problem = "request"   // no domain, no descriptors, or too many
)

// problems are all of them.
func problems() []problem {
	return []problem{
		problemForm, problemName, problemAmbiguous, problemNegative,
		problemHits, problemOverride, problemMixed, problemRequest,
	}
}

// match is the rule of a descriptor and the budget that it means. There is none if
// the rule is nil.
func (m *Mapping) match(domain string, entries []entry) (*rule, lease.Key, problem) {
	if !wellFormed(entries) {
		return nil, lease.Key{}, problemForm
	}
	if m == nil {
		return nil, lease.Key{}, ""
	}
	rules := m.domains[domain]
	for i := range rules {
		if rules[i].matches(entries) {
			key, p := m.key(&rules[i], entries)
			return &rules[i], key, p
		}
	}
	return nil, lease.Key{}, ""
}

// wellFormed says that the entries can be told apart: keys that are names, each of
// them once, as many as anybody could mean.
func wellFormed(entries []entry) bool {
	if len(entries) == 0 || len(entries) > maxEntries {
		return false
	}
	for i, e := range entries {
		if e.key == "" || len(e.key) > maxKeyBytes || !utf8.ValidString(e.key) || !utf8.ValidString(e.value) {
			return false
		}
		if slices.ContainsFunc(entries[:i], func(other entry) bool { return other.key == e.key }) {
			return false
		}
	}
	return true
}

func (r *rule) matches(entries []entry) bool {
	if len(entries) != len(r.entries) {
		return false
	}
	for i, want := range r.entries {
		if entries[i].key != want.key || want.value != "" && entries[i].value != want.value {
			return false
		}
	}
	return true
}

// key is the budget of a descriptor that matches the rule.
func (m *Mapping) key(r *rule, entries []entry) (lease.Key, problem) {
	values := make([]string, len(entries))
	for i, e := range entries {
		values[i] = e.value
	}
	for _, s := range []source{r.account, r.operation} {
		if !s.isFixed() && !isName(values[s.entry]) {
			return lease.Key{}, problemName
		}
	}
	key := lease.Key{Account: r.account.name(values), Operation: r.operation.name(values)}
	if (&pb.BudgetKey{Account: key.Account, Operation: key.Operation}).Validate() != nil {
		return lease.Key{}, problemName
	}
	if !r.account.isFixed() && m.ambiguous(key.Account, r.account.prefix) {
		return lease.Key{}, problemAmbiguous
	}
	return key, ""
}

// isName says whether a value can name something: not empty, and no blank at its
// ends, which would make a second name of the same look.
func isName(value string) bool {
	return value != "" && len(value) <= pb.MaxAccountBytes && strings.TrimFunc(value, unicode.IsSpace) == value
}

// ambiguous says that an account which was built with a prefix could as well have
// been built with a longer one, be one that a rule names, or one of those that are
// made of addresses and API keys, unless the prefix says that it is.
//
// That makes the accounts of different prefixes disjoint: each account that is
// left has been built with the longest of all prefixes that it begins with. Two
// rules of the same prefix take the value of the same entry, which the file's
// checks see to, so one account is one value of one entry.
func (m *Mapping) ambiguous(account, prefix string) bool {
	if slices.Contains(m.fixedAccounts, account) || isReserved(account) && !isReserved(prefix) {
		return true
	}
	return slices.ContainsFunc(m.prefixes, func(other string) bool {
		return len(other) > len(prefix) && strings.HasPrefix(account, other)
	})
}

// isReserved says that an account, or the prefix of some, belongs to those that no
// verified identity may have, see package clientkey.
func isReserved(account string) bool {
	return strings.HasPrefix(account, clientkey.AnonymousPrefix) || strings.HasPrefix(account, clientkey.APIKeyPrefix)
}
