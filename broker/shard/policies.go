package shard

import (
	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policy is a policy that rules a budget, with the form that answers carry. Both are
// shared and never changed.
type policy struct {
	lease.Policy
	wire *pb.Policy
}

// policies are the policies as this owner has read them. What accounts have of their
// own is kept with their budgets: see accounts.go.
type policies struct {
	*policyset.Set

	shared map[string]*policy // by operation: what rules accounts without a record; nil: nothing does
	reads  int                // how often they were read
}

// noPolicies is what is known before anything was read.
func noPolicies() policies {
	return policies{Set: policyset.Empty(), shared: map[string]*policy{}}
}

// ruling is the policy that rules the budget, whose account is known; ok is false
// when none does. Everything that depends on a policy asks here.
func (s *Shard) ruling(e *entry) (pol policy, ok bool) {
	if e.account == nil {
		return s.common(e.key.Operation)
	}
	if e.ruledBy != s.policies.Set {
		e.ruledBy, e.rule = s.policies.Set, nil
		if r, ruled := s.policies.Rules(*e.account, e.key.Operation); ruled {
			e.rule = ruledBy(r)
		}
	}
	if e.rule == nil {
		return policy{}, false
	}
	return *e.rule, true
}

// common is the policy that rules the operation for accounts without a record.
func (s *Shard) common(operation string) (pol policy, ok bool) {
	known, cached := s.policies.shared[operation]
	if !cached {
		if r, ruled := s.policies.Rules(record.Account{}, operation); ruled {
			known = ruledBy(r)
			s.policies.shared[operation] = known
		}
	}
	if known == nil {
		return policy{}, false
	}
	return *known, true
}

func ruledBy(r policyset.Ruling) *policy {
	wire := policywire.To(r.Policy)
	wire.Plan, wire.Account = r.Plan, r.Account
	return &policy{Policy: r.Policy, wire: wire}
}

// readPolicies reads the policies again, when they may have changed or were not read
// for a while. It comes first in a batch, so that there is room for all of it.
func (s *Shard) readPolicies(b *batch) {
	ops := policyset.Ops(s.cfg.Layout)
	if !s.stalePolicies && s.moment.Mono-s.polled < pollEvery || !b.room(len(ops)) {
		return
	}
	s.polled, s.stalePolicies = s.moment.Mono, false
	results := make([]store.OpResult, 0, len(ops))
	for _, op := range ops {
		b.read(op, func(r store.OpResult) error {
			results = append(results, r)
			if len(results) < len(ops) {
				return nil
			}
			return s.takePolicies(results, true)
		})
	}
}

// takePolicies replaces the policies. When spread is set, ledgers in memory whose
// policy has changed are brought to it, and their holders hear of it.
func (s *Shard) takePolicies(results []store.OpResult, spread bool) error {
	set, _, faults, err := policyset.Take(s.cfg.Layout, results)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		s.log.Error("a policy is not usable; whom it would rule has none until it is applied anew", "error", fault)
	}
	changed := set.ChangedSince(s.policies.Version)
	s.policies = policies{Set: set, shared: map[string]*policy{}, reads: s.policies.reads + 1}
	if !spread {
		return nil
	}
	s.followPolicies()
	s.outdateAccounts(changed)
	for _, e := range s.order {
		if changed.Concerns(e.key) && s.lags(e) {
			s.queue = append(s.queue, &installJob{entry: e})
		}
	}
	s.startSpread()
	s.wakeAllParked() // a budget without a policy may have one now
	return nil
}

// lags says that a budget that is in memory is not, or may not be, under the policy that
// rules it. A spread sees to those that are being read.
func (s *Shard) lags(e *entry) bool {
	if !e.exists {
		return false
	}
	if !e.accountKnown {
		return true
	}
	pol, ruled := s.ruling(e)
	return !ruled && len(e.ledger.Grants) > 0 || ruled && e.ledger.Rule.Version < pol.Rule.Version
}

// install brings the budget to the policy in force, in this shard's own stream
// of commits (C8), and says whether that changed it.
func (s *Shard) install(e *entry, pol policy, b *batch) bool {
	if pol.Rule.Version <= e.ledger.Rule.Version {
		return false
	}
	if e.unknown {
		s.start(e, pol) // all of the new capacity is unknown
		return false
	}
	s.turn(e)
	if err := e.ledger.Install(s.now, pol.Rule); err != nil {
		s.log.Error("a policy cannot be installed", "error", err)
		return false
	}
	s.turn(e)
	b.touch(e)
	b.installed = append(b.installed, e)
	return true
}

// installJob brings a budget in memory to the policy that rules it.
type installJob struct{ entry *entry }

func (j *installJob) run(s *Shard, b *batch) progress {
	e := j.entry
	if s.ledgers[e.key] != e {
		return complete
	}
	if _, ok := s.entry(e.key, b); !ok {
		return again
	}
	s.bringUp(e, b)
	return complete
}

func (j *installJob) finish(*Shard) {}
func (j *installJob) fail(error)    {}
func (j *installJob) restart() bool { return false }

// bringUp brings a budget to the policy that rules it, and asks its holders to come
// for it. Where none rules it any more they hear that, and hand back what they have.
func (s *Shard) bringUp(e *entry, b *batch) {
	pol, ruled := s.ruling(e)
	if e.err != nil || !e.exists || ruled && !s.install(e, pol, b) {
		return
	}
	for _, g := range e.ledger.Grants {
		b.hintKey(s, g.Holder, e.key)
	}
	s.wake(e)
}
