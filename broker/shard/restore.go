package shard

import (
	"fmt"
	"slices"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// takeEra takes the generation, and returns the results that follow. What was
// held against the store is settled by a declaration, if it is above all that this
// owner knows of.
func (s *Shard) takeEra(results []store.OpResult) ([]store.OpResult, error) {
	era, rest, err := s.cfg.Layout.TakeEra(results)
	if err != nil {
		return rest, err
	}
	if era.Revision == 0 {
		era.Generation = max(1, s.cfg.Generation)
	}
	switch known := s.era.Generation; {
	case era.Generation < known:
		s.fallBack(fmt.Errorf("%w with --above %d: that generation was in force, and the copy is older", ErrSetBack, known))
		era.Generation = known // for the next time; nothing is served in it
	case era.Generation > known && s.behind != nil:
		s.log.Info("the restore has been declared; the shard is served again", "generation", era.Generation)
		s.behind = nil
	}
	if era.Generation != s.era.Generation {
		s.headRevision = 0 // those of the generation before count no more
	}
	s.era = era
	return rest, nil
}

// fallBack notes that the store was set back.
func (s *Shard) fallBack(why error) {
	if s.behind == nil {
		s.stats.Evidence++
		s.log.Error("nothing more is granted from this shard", "error", why)
		s.behind = why
	}
}

// enterEra begins to serve in the generation that was read.
func (s *Shard) enterEra() {
	for _, sub := range s.subs {
		if s.era.Fences(sub.epoch) {
			sub.notify(nil, true)
		}
	}
	if s.era.Unknown() {
		s.log.Warn("a restore was declared and is not attested: nothing is granted until then", "generation", s.era.Generation)
		return
	}
	s.followPolicies()
	if s.era.Generation > 1 && s.cleared != s.era.Generation {
		s.queue = append(s.queue, &clearJob{})
	}
}

// checkEra adds a read, whose guard tells whether the generation is still the
// one that was read.
func (s *Shard) checkEra(b *batch) {
	if s.staleEra {
		op := store.Op{Kind: store.OpGet, Key: s.cfg.Layout.Cluster()}
		s.staleEra = !b.read(op, func(store.OpResult) error { return nil })
	}
}

// unheardOf is why an epoch that the store has not given out stops the shard.
func (s *Shard) unheardOf(epoch uint64) error {
	if g := lease.GenerationOf(epoch); g > s.era.Generation {
		return fmt.Errorf("%w with --above %d: that generation was in force, and the copy is older", ErrSetBack, g)
	}
	return ErrSetBack
}

// start gives a budget that has no record of this generation its ledger.
func (s *Shard) start(e *entry, pol policy) {
	e.exists = true
	e.ledger, e.fresh = s.unused(e.key, e.account, pol)
	e.unknown = s.era.Unknown()
	s.turn(e)
}

// unused is the ledger of a budget that has no record of this generation; account is
// what its account has of its own, or nil. fresh says that the ledger begins at this
// moment, with all of the budget spent.
//
// In generation 1 it is full: it has never been used, or was full when its record
// was dropped. After a restore it may have been used in the time that was lost,
// so its earlier life is unknown, and all of it is reserved, whatever an older
// record says. That is derived anew whenever it is asked for and never stored, so
// nothing can come to rest on it. Once the restore is attested the earlier life
// counts as spent: from then on the budget has what refill earns, as its
// operation's template tells.
//
// A template has been under the policies of accounts without a record, the default
// plan's among them, ever since the attestation: as their budgets have, since records
// of accounts are never deleted. A budget whose account has a record may have been
// under anything meanwhile, by whatever rule it stands now, and what the template has
// earned is not its own: what refills in a second there may be a quota here. So all of
// it counts as spent now, when it is first asked for, which is never before it was
// spent. It is recorded at once, or it would begin anew each time it is loaded.
func (s *Shard) unused(key lease.Key, account *record.Account, pol policy) (l lease.Ledger, fresh bool) {
	switch template := s.template(key.Operation); {
	case s.era.Generation == 1:
		return lease.NewLedger(key, pol.Rule, s.now), false
	case s.era.Unknown():
		return lease.NewUnknown(key, pol.Rule, s.now, s.era.Generation, s.cfg.ID), false
	case account != nil || template == nil || template.Rule != pol.Rule:
		return lease.NewSpent(key, pol.Rule, s.now), true
	default:
		l = template.Clone()
	}
	l.Key = key
	l.Advance(s.now)
	return l, false
}

// fullWithout says that the budget of an account without a record is full without one
// of its own, so that a full one may lose it. (Dropped before, it would be worth less
// than it was. It is never worth more: nothing is more than full, and a policy that is
// raised later is installed in the template, where it mints nothing.)
func (s *Shard) fullWithout(key lease.Key, pol policy, ruled bool) bool {
	if s.era.Generation == 1 {
		return true
	}
	if !ruled || s.era.Unknown() {
		return false
	}
	l, _ := s.unused(key, nil, pol)
	s.calendar.Turn(&l, s.now, s.wall, s.behindWall(), s.log)
	return l.Full()
}

// template is the operation's template, or nil.
func (s *Shard) template(operation string) *lease.Ledger {
	template := s.templates[operation]
	if template != nil {
		s.calendar.Turn(template, s.now, s.wall, s.behindWall(), s.log)
	}
	return template
}

// takeTemplates takes the templates of this generation.
//
// A template is the ledger of a budget that nobody uses: spent when this shard
// took over the attestation, refilled since, with every new version of the policy
// installed on what it has. Budgets without a record, of accounts without one, are
// copies of it. One that is lost begins anew with nothing, which is never more.
func (s *Shard) takeTemplates(r store.OpResult) {
	for _, kv := range r.KVs {
		stored, err := record.Decode[record.Budget](kv)
		if err == nil && stored.Since() != s.era.Generation {
			continue
		}
		var l lease.Ledger
		if err == nil {
			l, err = stored.Ledger(nil)
		}
		if err != nil {
			s.log.Error("a template is not usable; unused budgets of its operation begin with nothing", "key", kv.Key, "error", err)
			continue
		}
		s.templates[stored.Operation] = &l
	}
}

// followPolicies brings the templates to the policies that rule accounts which have
// nothing of their own.
func (s *Shard) followPolicies() {
	if s.era.Generation == 1 || s.era.Unknown() {
		return
	}
	for _, operation := range s.policies.Operations() {
		pol, ruled := s.common(operation)
		if !ruled {
			continue
		}
		switch l := s.template(operation); {
		case l == nil:
			fresh := lease.NewSpent(lease.Key{Operation: operation}, pol.Rule, s.now)
			s.templates[operation] = &fresh
			s.template(operation) // what counts as spent does so in this period
		case pol.Rule.Version <= l.Rule.Version:
			continue
		default:
			if err := l.Install(s.now, pol.Rule); err != nil {
				continue // an older version, which was excluded
			}
		}
		s.unwritten = append(s.unwritten, operation)
	}
	slices.Sort(s.unwritten)
	s.unwritten = slices.Compact(s.unwritten)
}

// writeTemplates stores templates, as many as fit.
func (s *Shard) writeTemplates(b *batch) {
	for len(s.unwritten) > 0 && !b.full() {
		operation := s.unwritten[0]
		s.unwritten = s.unwritten[1:]
		b.add(put(s.cfg.Layout.Template(s.cfg.ID, operation), record.FromLedger(s.templates[operation]).In(s.era.Generation)))
	}
}

// clearJob deletes the grants of earlier generations, page by page, once their
// end is attested. They are never read again: what they had out was reserved as
// unknown, and counts as spent.
type clearJob struct {
	pager pager
	at    int // next grant of the page
	ended bool
}

func (j *clearJob) run(s *Shard, b *batch) progress {
	prefix := s.cfg.Layout.Grants(s.cfg.ID)
	for !j.ended {
		if !j.pager.load(b, prefix, pageSize) {
			return again
		}
		if j.pager.err != nil {
			return complete // told when it was read; the next owner tries again
		}
		for ; j.at < len(j.pager.page); j.at++ {
			g := j.pager.page[j.at]
			id, err := lease.ParseGrantID(g.ID)
			if err != nil || id.Generation >= s.era.Generation {
				continue
			}
			if b.full() {
				return again
			}
			path := record.GrantPath(lease.Holder{Region: g.Region, Instance: g.Instance}, g.Epoch, id)
			b.add(store.Op{Kind: store.OpDelete, Key: prefix + path})
		}
		j.ended = !j.pager.more
		j.pager.loaded, j.at = false, 0
	}
	s.cleared, b.clock = s.era.Generation, true
	return complete
}

func (j *clearJob) finish(*Shard) {}
func (j *clearJob) fail(error)    {}
func (j *clearJob) restart() bool { return false }
