package shard

import (
	"fmt"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
)

// A budget is ruled by the policies and by its account's record together, and both
// have to be as they stood at one policy version (package policyset says why). The
// policies are read when they change, an account with its budget. The two meet so:
//
//   - Every change of policies, plans and accounts raises the one version, which is
//     read with the policies and names the accounts that it and those before it have
//     written. So whoever takes up a version knows which of the accounts in memory are
//     older than it, and reads them again before they are used; all of them, where the
//     names do not reach back that far.
//   - An account that is newer than the policies tells so by its own version. Then the
//     policies are read again first, in a transaction that began after the account was
//     read, and the account once more with them.
//   - An account whose record is no newer than the policies has not been changed since
//     they were read up to when it was: else its version were above theirs. Records are
//     never deleted, so that holds for those without a record as well.
//
// Nothing of this needs a watch. A hint that is missed delays a version by pollEvery.

// knowsAccount says that the account is as it stood at the version of the policies.
func (s *Shard) knowsAccount(e *entry) bool {
	if !e.accountKnown && !s.policies.Accounts {
		e.account, e.accountKnown = nil, true // nobody has a record
	}
	return e.accountKnown
}

// readAccount reads the account's record for the budget, if it fits.
func (s *Shard) readAccount(e *entry, b *batch) {
	if e.asking {
		return
	}
	op, reads := store.Op{Kind: store.OpGet, Key: s.cfg.Layout.Account(e.key.Account)}, s.policies.reads
	e.asking = b.read(op, func(r store.OpResult) error {
		e.asking = false
		var account *record.Account
		if len(r.KVs) > 0 {
			a, err := record.Decode[record.Account](r.KVs[0])
			if err != nil {
				e.err = fmt.Errorf("%w: %w", ErrRecord, err)
				return err
			}
			account = &a
		}
		switch {
		case account == nil || account.Version <= s.policies.Version:
			e.account, e.accountKnown, e.ruledBy = account, true, nil
		case s.policies.reads > reads: // they were read in the same transaction
			e.err = fmt.Errorf("%w: account %q is of policy version %d, and version %d is in force", ErrRecord, e.key.Account, account.Version, s.policies.Version)
			return e.err
		default:
			s.stalePolicies = true
		}
		return nil
	})
}

// outdateAccounts marks the accounts that have to be read again.
func (s *Shard) outdateAccounts(changed policyset.Delta) {
	for _, e := range s.order {
		if e.accountKnown && changed.Outdates(e.key.Account, e.account) {
			e.accountKnown = false
		}
	}
}
