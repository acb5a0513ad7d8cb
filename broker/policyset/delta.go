package policyset

import (
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
)

// Delta bounds which budgets may be ruled otherwise than at an earlier version. It
// names too many rather than too few.
type Delta struct {
	everything bool
	unlisted   bool // accounts may have changed that are not named
	operations map[string]bool
	accounts   map[string]int64 // the newest version that has written each
}

// ChangedSince is what has changed after the version. Of a store without a policy
// version, and of one that was set back, everything may have.
func (s *Set) ChangedSince(version int64) Delta {
	touched, known := s.TouchedAfter(version)
	d := Delta{operations: map[string]bool{}, accounts: map[string]int64{}}
	d.unlisted = !known || version > s.Version
	d.everything = d.unlisted || !s.Recorded || s.defaults.Version > version
	for _, t := range touched {
		if t.Operation != "" {
			d.operations[t.Operation] = true
		} else {
			d.accounts[t.Account] = max(d.accounts[t.Account], t.Version)
		}
	}
	for operation, p := range s.everybody {
		d.mark(operation, p.Rule.Version > version)
	}
	for _, p := range s.plans {
		d.everything = d.everything || p.Shrunk > version
		for operation, policy := range p.policies {
			d.mark(operation, policy.Rule.Version > version)
		}
	}
	for operation, disabled := range s.disabled {
		d.mark(operation, disabled.Version > version)
	}
	return d
}

func (d *Delta) mark(operation string, changed bool) {
	if changed {
		d.operations[operation] = true
	}
}

// Empty says that no budget is ruled otherwise.
func (d Delta) Empty() bool {
	return !d.everything && len(d.operations) == 0 && len(d.accounts) == 0
}

// Concerns says that the budget may be ruled otherwise.
func (d Delta) Concerns(key lease.Key) bool {
	_, touched := d.accounts[key.Account]
	return d.everything || touched || d.operations[key.Operation]
}

// Outdates says that the account's record, as it was read (nil: it had none), may not
// be the newest.
func (d Delta) Outdates(account string, read *record.Account) bool {
	var version int64
	if read != nil {
		version = read.Version
	}
	return d.unlisted || d.accounts[account] > version
}
