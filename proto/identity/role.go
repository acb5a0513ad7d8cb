package identity

import "strings"

// Roles is a set of roles.
type Roles uint8

// The roles. Package documentation tells what each is for.
const (
	Holder Roles = 1 << iota
	Gateway
	Viewer
	Operator
	Broker
)

// roleNames are the words for the roles, in order of their bits.
var roleNames = [...]string{"holder", "gateway", "viewer", "operator", "broker"}

// RoleNames are the words for all roles.
func RoleNames() []string { return roleNames[:] }

// ParseRole is the role of a word; false: there is none.
func ParseRole(word string) (Roles, bool) {
	for i, name := range roleNames {
		if name == word {
			return 1 << i, true
		}
	}
	return 0, false
}

// Has says that r has at least one of the roles.
func (r Roles) Has(roles Roles) bool { return r&roles != 0 }

// Names are the words for the roles in r, in a fixed order.
func (r Roles) Names() []string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String is the words with "or" between, as in "viewer or operator"; "none" for
// no role.
func (r Roles) String() string {
	if names := r.Names(); len(names) > 0 {
		return strings.Join(names, " or ")
	}
	return "none"
}
