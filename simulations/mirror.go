package simulations

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// mirror follows the store, transaction by transaction, and checks each.
type mirror struct {
	w       *World
	grants  map[string]record.Grant // by key in the store
	ledgers map[lease.Key]*book
	paths   map[string]*book               // by key in the store
	fences  map[lease.Holder][]lease.Fence // by shard
	newest  []lease.GrantID                // by shard
	clock   []int64                        // by shard
	wall    []int64                        // by shard: the wall clock that its owners go by
	// Of the transaction at hand: budgets that it touches, grants that it opens.
	touched []*book
	opened  []lease.GrantID
	issued  int64 // tokens, ever
	decided time.Duration
	// generation of the store: that of the copy, after a restore that is not declared.
	generation uint32
	calendar   shard.Calendar
	// lapsing are the grants that have ended and had a deadline, by their ID.
	lapsing map[string]bool
}

// book is one budget in the store.
type book struct {
	index  int // of the key
	stored record.Budget
	exists bool
	// dropped: it had a record, which went. The next one starts from a full
	// budget, under whatever policy is in force then; the judge has an eye on
	// that.
	dropped bool
	reread  bool          // the store was set back: what it says now follows from nothing
	ledger  *lease.Ledger // of the newest transaction; stays when the record goes
}

func newMirror(w *World) *mirror {
	return &mirror{
		w: w, generation: 1, grants: map[string]record.Grant{}, ledgers: map[lease.Key]*book{}, paths: map[string]*book{}, fences: map[lease.Holder][]lease.Fence{},
		newest: make([]lease.GrantID, w.cfg.Shards), clock: make([]int64, w.cfg.Shards), wall: make([]int64, w.cfg.Shards),
		calendar: shard.Calendar{}, lapsing: map[string]bool{},
	}
}

// applied takes a transaction that the store has applied, and when it was decided
// on.
func (m *mirror) applied(txn store.Txn, decided time.Duration) {
	if m.w.restored && m.w.stage == nil {
		return // until the restore is declared; revisions repeat, and late transactions may pass
	}
	m.touched, m.opened, m.decided = m.touched[:0], m.opened[:0], decided
	for i := range txn.Then {
		if op := &txn.Then[i]; op.Kind == store.OpPut || op.Kind == store.OpDelete {
			m.op(op)
		}
	}
	for _, id := range m.opened {
		if id.Compare(m.newest[id.Shard]) > 0 {
			m.newest[id.Shard] = id
		}
	}
	for _, b := range m.touched {
		m.check(b)
	}
}

func (m *mirror) op(op *store.Op) {
	rest, ok := strings.CutPrefix(op.Key, m.w.layout.Shards())
	if !ok {
		return
	}
	kv := store.KeyValue{Key: op.Key, Value: op.Value}
	switch kind, _, _ := strings.Cut(rest[len("000/"):], "/"); kind {
	case "head":
		m.head(kv)
	case "budgets":
		m.budget(op, kv)
	case "grants":
		m.grant(op, kv)
	case "fences":
		m.fence(kv)
	}
}

func decode[T any](w *World, kv store.KeyValue) T {
	r, err := record.Decode[T](kv)
	if err != nil {
		w.failf("%v", err)
	}
	return r
}

// head holds that ledger time is never ahead of real time and never steps back.
func (m *mirror) head(kv store.KeyValue) {
	for id := range m.clock {
		if kv.Key != m.w.layout.Head(uint32(id)) {
			continue
		}
		h := decode[record.Head](m.w, kv)
		if h.ClockNs < m.clock[id] && !m.w.restored || h.ClockNs > int64(m.w.now) {
			m.w.failf("ledger time of shard %d is %d after %d, at %d of real time", id, h.ClockNs, m.clock[id], int64(m.w.now))
		}
		m.clock[id], m.wall[id] = h.ClockNs, h.CommittedUnixMs
	}
}

func (m *mirror) budget(op *store.Op, kv store.KeyValue) {
	if op.Kind == store.OpDelete {
		if b := m.paths[op.Key]; b != nil {
			m.dropped(b)
		}
		return
	}
	stored := decode[record.Budget](m.w, kv)
	if stored.Since() != m.generation {
		return // what it says is of another life
	}
	b := m.book(lease.Key{Account: stored.Account, Operation: stored.Operation})
	if b == nil {
		m.w.failf("a record of an unknown budget at %s", op.Key)
		return
	}
	b.stored, b.exists = stored, true
	m.touch(b)
}

func (m *mirror) shard(b *book) uint32 { return lease.ShardOf(b.ledger.Key, m.w.cfg.Shards) }

func (m *mirror) touch(b *book) {
	if !slices.Contains(m.touched, b) {
		m.touched = append(m.touched, b)
	}
}

// book is the budget's; nil for a key that the world does not have.
func (m *mirror) book(key lease.Key) *book {
	b := m.ledgers[key]
	if b != nil {
		return b
	}
	i := slices.Index(m.w.keys, key)
	if i < 0 {
		return nil
	}
	b = &book{index: i, ledger: &lease.Ledger{Key: key}}
	m.ledgers[key] = b
	m.paths[m.w.layout.Budget(m.shard(b), key)] = b
	return b
}

// dropped holds that a record goes only when it says what no record says.
func (m *mirror) dropped(b *book) {
	if !b.exists {
		return // of an earlier generation
	}
	b.exists, b.dropped = false, true
	l := b.ledger.Clone()
	now := lease.Time(m.w.now)
	m.calendar.Turn(&l, l.Updated, m.wall[m.shard(b)], 0, quiet)
	if wait, ok := l.Rule.Refill.Wait(l.Rule.Capacity - l.Available - l.Reserved()); ok {
		if l.Rule.Refill.Tokens > 0 {
			wait -= time.Duration(l.Remainder / l.Rule.Refill.Tokens)
		}
		l.Advance(min(now, l.Updated.Add(wait))) // full from here on: a cut is made up for
	}
	l.Advance(now)
	j := m.w.judges[b.index]
	j.LedgerOf(m.w.now, m.decided, &l)
	if !j.Full(m.w.now) && !m.w.restored {
		m.w.failf("the record of a budget was dropped of which not all could be admitted: %v", &l)
	}
	j.Dropped()
	if !l.Full() && !m.w.restored {
		m.w.failf("the record of a budget was dropped that is not full: %v", &l)
	}
}

func (m *mirror) grant(op *store.Op, kv store.KeyValue) {
	if op.Kind == store.OpDelete {
		was, ok := m.grants[op.Key]
		delete(m.grants, op.Key)
		if was.LapsesAfterNs > 0 {
			m.lapsing[was.ID] = true
		}
		if b := m.book(was.Key()); ok && b != nil {
			m.touch(b)
		}
		return
	}
	g := decode[record.Grant](m.w, kv)
	was, known := m.grants[op.Key]
	m.issued += g.Issued - was.Issued
	if !known {
		id, err := lease.ParseGrantID(g.ID)
		if err != nil || int(id.Shard) >= len(m.newest) {
			m.w.failf("grant %q: %v", g.ID, err)
			return
		}
		if id.Compare(m.newest[id.Shard]) <= 0 && !m.w.restored {
			m.w.failf("grant ID %v is used again after %v", id, m.newest[id.Shard])
		}
		m.opened = append(m.opened, id)
	}
	m.grants[op.Key] = g
	if b := m.book(g.Key()); b != nil {
		m.touch(b)
	}
}

func (m *mirror) fence(kv store.KeyValue) {
	f := decode[record.Fence](m.w, kv).Fence()
	if m.fences[f.Holder] == nil {
		m.fences[f.Holder] = make([]lease.Fence, m.w.cfg.Shards)
	}
	for id := range m.w.cfg.Shards {
		if kv.Key != m.w.layout.Fence(id, f.Holder) {
			continue
		}
		if was := m.fences[f.Holder][id]; f.MinEpoch < was.MinEpoch && !m.w.restored {
			m.w.failf("%v was unfenced from %d to %d", f.Holder, was.MinEpoch, f.MinEpoch)
		}
		m.fences[f.Holder][id] = f
	}
}

// check holds the budget's new state against its last one, and against what the
// processes could still spend.
func (m *mirror) check(b *book) {
	var grants []record.Grant
	for _, path := range b.stored.Grants {
		g, ok := m.grants[m.w.layout.Grants(m.shard(b))+path]
		if !ok {
			m.w.failf("%s lists grant %s, which is not stored", b.stored.Operation, path)
			return
		}
		grants = append(grants, g)
	}
	l, err := b.stored.Ledger(grants)
	if err != nil {
		m.w.failf("after a commit: %v", err)
		return
	}
	if b.ledger.Rule.Version > 0 && !b.dropped && !b.reread {
		if err := lease.CheckStep(m.turned(b), &l); err != nil {
			m.w.failf("after a commit: %v", err)
		}
	}
	b.ledger, b.dropped, b.reread = &l, false, false
	m.judge(b)
	m.held(b)
}

// turned is the ledger of before the commit, in the period that the owner found
// itself in when it made it. The judge hears of it: that period has begun, though
// the commit may have put another calendar in force as well.
func (m *mirror) turned(b *book) *lease.Ledger {
	if b.ledger.Rule.Kind != lease.FixedWindow {
		return b.ledger
	}
	l := b.ledger.Clone()
	m.calendar.Turn(&l, l.Updated, m.wall[m.shard(b)], 0, quiet)
	if l.Began != b.ledger.Began {
		m.w.judges[b.index].LedgerOf(m.w.now, m.decided, &l)
	}
	return &l
}

// checkPeriod holds that a period begins where the calendar has it, at or before
// what its owners' clocks say.
func (m *mirror) checkPeriod(b *book) {
	l := b.ledger
	if l.Rule.Kind != lease.FixedWindow || l.Began == 0 || m.w.stage != nil {
		return
	}
	unit, beyond, wall := l.Rule.Per().Milliseconds(), int64(0), m.wall[m.shard(b)]
	if l.Rule.Zone == halfHours && l.Rule.Period == lease.Hour {
		beyond = unit / 2
	}
	if l.Began%unit != beyond || l.Began > wall {
		m.w.failf("a period of %v began at %d, with clocks at %d: %v", l.Rule.Per(), l.Began, wall, l)
	}
}

// judge shows the ledger to the judge. Slots that work holds are none any more once
// the rule is of another kind.
func (m *mirror) judge(b *book) {
	w, j := m.w, m.w.judges[b.index]
	j.LedgerOf(w.now, m.decided, b.ledger)
	m.checkPeriod(b)
	if b.ledger.Rule.Kind != lease.Concurrency {
		w.freeSlots(b.index)
	}
	if err := j.Check(w.now); err != nil {
		w.failf("%s: %v", b.ledger.Key.Operation, err)
	}
}

// quiet discards what a calendar logs.
var quiet = slog.New(slog.DiscardHandler)

// manyBudgets is from how many budgets on a process's holdings are checked only
// where they can have grown: in answers.
const manyBudgets = 8

// checkHeld checks what the process holds of all its budgets.
func (m *mirror) checkHeld(p *process) {
	if !p.alive || p.mgr == nil || len(m.w.keys) > manyBudgets {
		return
	}
	for i, own := range p.budgets {
		if own != nil {
			m.checkKey(m.w.keys[i])
		}
	}
}

// checkAnswered checks what the process holds after an answer, nil for none.
func (m *mirror) checkAnswered(p *process, resp *pb.SyncResponse) {
	m.checkHeld(p)
	if len(m.w.keys) > manyBudgets {
		for _, a := range resp.GetBudgets() {
			m.checkKey(lease.Key{Account: a.GetKey().GetAccount(), Operation: a.GetKey().GetOperation()})
		}
	}
}

func (m *mirror) checkKey(key lease.Key) {
	if b := m.ledgers[key]; b != nil {
		m.held(b)
	}
}

// holding is what processes could still spend of one grant.
type holding struct {
	grant  string
	tokens int64
}

// held holds that the true unspent credit of each grant, over all processes that
// live, is reserved: until it has lapsed, and is too old to be spent by their clocks.
func (m *mirror) held(b *book) {
	if m.w.restored {
		return // what is out and what is reserved are of two histories
	}
	var room [8]holding
	held := room[:0]
	for _, s := range m.w.sites {
		for _, p := range s.procs {
			m.inUse(b, p)
			if !p.alive || p.mgr == nil || p.budgets[b.index] == nil {
				continue
			}
			id, unspent := p.mgr.Held(m.w.keys[b.index])
			if credit := p.budgets[b.index].Credit(); credit > unspent {
				m.w.failf("%s can spend %d of grant %q, of which it has %d", p.name, credit, id, unspent)
			}
			if !m.lapsing[id] || !p.budgets[b.index].Stale() {
				held = addHolding(held, id, unspent)
			}
		}
	}
	for _, h := range held {
		var reserved int64
		id, err := lease.ParseGrantID(h.grant)
		if err == nil && id.Generation < m.w.era.generation {
			continue // unknown credit, until every process of then has ended
		}
		if err == nil && b.exists {
			if g := b.ledger.Grant(id); g != nil {
				reserved = g.Outstanding()
			}
		}
		if h.tokens > reserved {
			m.w.failf("%d tokens of grant %s are unspent in regions, %d are reserved: %v", h.tokens, h.grant, reserved, b.ledger)
		}
	}
}

// inUse holds that slots which work of the process's epoch holds are reserved for
// it, though the process may be dead.
func (m *mirror) inUse(b *book, p *process) {
	if len(m.w.works) == 0 || b.ledger.Rule.Kind != lease.Concurrency || lease.GenerationOf(max(1, p.epoch)) < m.w.era.generation {
		return
	}
	held := p.inUse(b.index)
	if held == 0 {
		return
	}
	var reserved int64
	for _, g := range b.ledger.Grants {
		if b.exists && g.Holder == p.site.holder && g.Epoch == p.epoch {
			reserved += g.Outstanding()
		}
	}
	if held > reserved {
		m.w.failf("work of %s holds %d slots, and %d are reserved for it: %v", p.name, held, reserved, b.ledger)
	}
}

func addHolding(held []holding, grant string, tokens int64) []holding {
	if tokens == 0 {
		return held
	}
	for i := range held {
		if held[i].grant == grant {
			held[i].tokens += tokens
			return held
		}
	}
	return append(held, holding{grant, tokens})
}

// reread takes over the store as it is, after it was set back.
func (m *mirror) reread() {
	res, err := m.w.store.Range(context.Background(), store.RangeRequest{Key: m.w.layout.Shards(), End: store.PrefixEnd(m.w.layout.Shards())})
	if err != nil {
		m.w.failf("reading the store: %v", err)
		return
	}
	m.grants = map[string]record.Grant{}
	for _, b := range m.ledgers {
		b.exists, b.dropped, b.reread = false, false, true
		b.ledger = &lease.Ledger{Key: b.ledger.Key}
	}
	var txn store.Txn
	for _, kv := range res.KVs {
		txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: kv.Key, Value: kv.Value})
	}
	m.applied(txn, m.w.now)
}

// checkDrops holds that an owner does not drop a record under an older policy than
// it has heard of. (Looked at when the transaction is sent: one that is applied late
// was right when it was made.)
func (m *mirror) checkDrops(o *owner, txn store.Txn) {
	for _, op := range txn.Then {
		b := m.paths[op.Key]
		if op.Kind != store.OpDelete || b == nil || !b.exists || m.w.restored {
			continue
		}
		if newer := o.heard[b.ledger.Key.Operation]; newer > b.ledger.Rule.Version {
			m.w.failf("the record of a budget is dropped under an old policy, with version %d known: %v", newer, b.ledger)
		}
	}
}

// hear notes which policies the owner has read.
func (o *owner) hear(txn store.Txn, res store.TxnResult) {
	for at, op := range txn.Then {
		if op.Kind != store.OpRange || op.Key != o.b.w.layout.Policies() {
			continue
		}
		clear(o.heard)
		for _, kv := range res.Results[at].KVs {
			p := decode[lease.Policy](o.b.w, kv)
			o.heard[p.Operation] = p.Rule.Version
		}
	}
}
