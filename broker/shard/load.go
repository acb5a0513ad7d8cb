package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// entry is one budget in memory. Its ledger is the state of the last commit,
// plus what the batch in flight changes.
type entry struct {
	key      lease.Key
	known    bool // the store has been read: exists and recorded are right
	exists   bool // ledger is set
	recorded bool // the store has a record, of whatever generation
	unknown  bool // the ledger stands for an earlier generation, and is never stored
	fresh    bool // the ledger has begun with all of it spent, and that is not stored yet
	reading  bool
	err      error // the record is not usable
	ledger   lease.Ledger
	demands  []*demand               // in order of holder
	opened   map[lease.GrantID]int64 // when grants were opened, by the wall clock, for display
	// installed are the policy versions that the grants' holders have installed.
	installed map[lease.GrantID]int64
	touched   time.Duration // monotonic time of the last use
	pace      pace          // how fast it is spent, for display
	// The first deadline of its grants, and its place among the shard's lapses, from 1; 0:
	// it is not there.
	lapsesAt   lease.Time
	lapsePlace int

	account      *record.Account // what the account has of its own; nil: it never had a record
	accountKnown bool            // account is as it stood at the version of the policies
	asking       bool            // account is being read
	ruledBy      *policyset.Set  // that rule is of
	rule         *policy         // the policy that rules the budget, where the account has a record

	loading *record.Budget // read, with grants still missing
	grants  []record.Grant

	dirty bool
	puts  []lease.GrantID // grants that the batch writes
	ends  []string        // keys of grants that the batch deletes
}

// fence is a holder's fence in memory.
type fence struct {
	lease.Fence
	verified uint64 // the epoch that is known to be the registered one; 0: look it up
	attested uint64 // see record.Fence
	dirty    bool

	retiredAgain time.Duration // when a request of a retired epoch is logged again
}

// guard is what every transaction of this owner compares: its ownership, its
// place in the chain of commits, and the generation.
func (s *Shard) guard() []store.Compare {
	return append([]store.Compare{
		{Key: s.cfg.Layout.Owner(s.cfg.ID), Target: store.CreateRevision, Revision: s.cfg.OwnerRevision},
		{Key: s.cfg.Layout.Head(s.cfg.ID), Target: store.ModRevision, Revision: s.headRevision},
	}, s.era.Guard(s.cfg.Layout)...)
}

func rangeOp(prefix string) store.Op {
	key, end := record.All(prefix)
	return store.Op{Kind: store.OpRange, Key: key, End: end}
}

// startClock lets ledger time run on from the stored value, from m on, which was
// sampled after the read that gave it: started earlier, the ticks of an owner in
// between would count twice. When this owner reads again after a doubt its clock
// goes on as it was: its ownership key has stood all the time, so nobody else has
// owned the shard in between.
func (s *Shard) startClock(m Moment, stored lease.Time) {
	if !s.started {
		s.base, s.origin, s.started = stored, m.Mono, true
	}
	s.now = max(s.now, stored, s.base.Add(m.Mono-s.origin))
}

// loadTxn reads the generation, the head, the fences, the templates and the
// policies, if this is still the owner. It compares neither head nor generation:
// it is what tells them.
//
// Nothing may be left in memory by then: what is read is added to it, and the
// generation may be another one than before.
func (s *Shard) loadTxn() *store.Txn {
	s.forget()
	s.stalePolicies, s.staleEra = false, false // what is hinted from now on is news again
	return &store.Txn{
		If: s.guard()[:1],
		Then: slices.Concat(s.cfg.Layout.EraOps(), []store.Op{
			{Kind: store.OpGet, Key: s.cfg.Layout.Head(s.cfg.ID)},
			rangeOp(s.cfg.Layout.Fences(s.cfg.ID)),
			rangeOp(s.cfg.Layout.Templates(s.cfg.ID)),
		}, policyset.Ops(s.cfg.Layout)),
	}
}

// loaded takes the outcome of loadTxn. The clock starts at m, which was sampled
// after the read: started earlier, the ticks of an owner in between would count
// twice.
func (s *Shard) loaded(m Moment, res store.TxnResult, err error) {
	if err != nil {
		s.log.Warn("the shard cannot be read", "error", err)
		return // still loading: Next reads again
	}
	if !res.Succeeded {
		s.log.Info("ownership has gone")
		s.state = lost
		s.failAll(ErrNotOwner)
		return
	}
	stored, err := s.takeAll(res.Results)
	if err != nil {
		s.log.Error("the shard cannot be served", "error", err)
		return
	}
	s.stored, s.polled, s.beaten = m.Mono, m.Mono, m.Mono
	if s.behind != nil {
		s.state = setBack
		return
	}
	s.startClock(m, stored)
	s.warnOfClocks()
	s.state = serving
	s.listen(m)
	s.enterEra()
	s.startSpread()
}

// takeAll takes what loadTxn has read, and tells the ledger time stored there.
func (s *Shard) takeAll(results []store.OpResult) (stored lease.Time, err error) {
	rest, err := s.takeEra(results)
	if err != nil {
		return 0, err
	}
	if stored, err = s.takeHead(rest[0]); err != nil {
		return 0, err
	}
	if err := s.takeFences(rest[1]); err != nil {
		return 0, err
	}
	s.takeTemplates(rest[2])
	return stored, s.takePolicies(rest[3:], false)
}

// takeHead takes the place in the chain, and tells the ledger time stored there. A
// head below one that this owner has committed tells that the store was set back.
func (s *Shard) takeHead(r store.OpResult) (stored lease.Time, err error) {
	if len(r.KVs) == 0 && s.headRevision > 0 || len(r.KVs) > 0 && r.KVs[0].ModRevision < s.headRevision {
		s.fallBack(ErrSetBack)
	}
	s.headRevision, s.nextGrant, s.cleared, s.taken = 0, 1, 0, 0
	if len(r.KVs) == 0 {
		return 0, nil
	}
	head, err := record.Decode[record.Head](r.KVs[0])
	if err != nil {
		return 0, err
	}
	s.headRevision, s.nextGrant, s.cleared = r.KVs[0].ModRevision, head.NextGrant, head.Cleared
	s.taken = head.PolicyVersion
	s.seen(head.CommittedUnixMs)
	return lease.Time(head.ClockNs), nil
}

func (s *Shard) takeFences(r store.OpResult) error {
	for _, kv := range r.KVs {
		stored, err := record.Decode[record.Fence](kv)
		if err != nil {
			return err
		}
		f := stored.Fence()
		f.Raise(s.era.Floor())
		s.fences[f.Holder] = &fence{Fence: f, attested: stored.Attested}
		s.fencedBefore(f)
		s.heardBefore[f.Holder] = stored.HeardUnixMs
	}
	return nil
}

// fence is the holder's fence, an empty one at first contact. Whatever is stored,
// it fences the epochs of earlier generations. An empty one is remembered once it
// changes, or its holder turns out to be registered: anybody can make up names.
func (s *Shard) fence(h lease.Holder) *fence {
	if f := s.fences[h]; f != nil {
		return f
	}
	return &fence{Fence: lease.Fence{Holder: h, MinEpoch: s.era.Floor()}}
}

// entry is the budget's entry, once the store has been read for it; until then
// the reads are added to the batch and ok is false.
func (s *Shard) entry(key lease.Key, b *batch) (e *entry, ok bool) {
	e = s.ledgers[key]
	if e == nil {
		e = &entry{key: key}
		s.ledgers[key] = e
		s.order = append(s.order, e)
	}
	if e.err != nil {
		return e, true // not touched: it leaves memory, and is read again
	}
	e.touched = s.moment.Mono
	account := s.knowsAccount(e)
	if e.known && account {
		s.turn(e)
		return e, true
	}
	if !e.known && !e.reading {
		s.readEntry(e, b)
	}
	if !account {
		s.readAccount(e, b)
	}
	return e, false
}

func (s *Shard) readEntry(e *entry, b *batch) {
	if e.loading != nil {
		s.readGrants(e, b)
		return
	}
	op := store.Op{Kind: store.OpGet, Key: s.cfg.Layout.Budget(s.cfg.ID, e.key)}
	e.reading = b.read(op, func(r store.OpResult) error {
		e.reading = false
		if len(r.KVs) == 0 {
			e.known = true
			return nil
		}
		stored, err := record.Decode[record.Budget](r.KVs[0])
		if err != nil {
			e.err = fmt.Errorf("%w: %w", ErrRecord, err)
			return err
		}
		if stored.Since() != s.era.Generation || s.era.Unknown() { // of before an attestation nothing is stored
			e.known, e.recorded = true, true // what it says is of another life: see start
			return nil
		}
		e.loading = &stored
		return s.assemble(e)
	})
}

// readGrants reads the grants that the budget lists, as many as fit.
func (s *Shard) readGrants(e *entry, b *batch) {
	missing := e.loading.Grants[len(e.grants):]
	for _, path := range missing {
		op := store.Op{Kind: store.OpGet, Key: s.cfg.Layout.Grants(s.cfg.ID) + path}
		ok := b.read(op, func(r store.OpResult) error {
			e.reading = false
			if e.err != nil {
				return nil //nolint:nilerr // told already
			}
			if len(r.KVs) == 0 {
				e.err = fmt.Errorf("%w: budget %s/%s lists grant %s, which is not stored", ErrRecord, e.key.Account, e.key.Operation, path)
				return e.err
			}
			stored, err := record.Decode[record.Grant](r.KVs[0])
			if err != nil {
				e.err = fmt.Errorf("%w: %w", ErrRecord, err)
				return err
			}
			e.grants = append(e.grants, stored)
			return s.assemble(e)
		})
		e.reading = e.reading || ok
		if !ok {
			return
		}
	}
}

// assemble makes the ledger once its record and all of its grants are read.
// Holders of live grants are taken to want what they have, until they say
// otherwise.
func (s *Shard) assemble(e *entry) error {
	if len(e.grants) < len(e.loading.Grants) {
		return nil
	}
	grants := e.grants
	l, err := e.loading.Ledger(grants)
	if err != nil {
		e.err = fmt.Errorf("%w: %w", ErrRecord, err)
		return err
	}
	e.ledger, e.loading, e.grants = l, nil, nil
	e.known, e.exists, e.recorded = true, true, true
	e.opened = make(map[lease.GrantID]int64, len(grants))
	e.installed = make(map[lease.GrantID]int64, len(grants))
	for _, r := range grants {
		if id, err := lease.ParseGrantID(r.ID); err == nil {
			e.opened[id], e.installed[id] = r.OpenedUnixMs, r.PolicyVersion
		}
	}
	e.ledger.Restart(s.now) // which is after the last answer of whoever owned the shard before
	s.lapseLater(e)
	for _, g := range l.Grants {
		if !s.fence(g.Holder).Fences(g.Epoch) && !g.Kept {
			d := e.demand(g.Holder, g.Epoch)
			d.want, d.heard = g.Outstanding(), s.moment.Mono
		}
	}
	return nil
}
