package holder

import (
	"math"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// noPolicyFor is how long the broker's word holds that an operation has no
// policy.
const noPolicyFor = 2 * time.Second

// minDenial is the least time for which a denial is relied on, so that no budget
// asks at the rate of round trips.
const minDenial = 5 * time.Millisecond

// rotateAt is the issued counter at which a grant is closed for a new one, far
// below what a counter can hold.
const rotateAt = 1 << 61

// answers applies the answers of a request to the budgets whose newest request
// it was.
func (m *Manager) answers(f *flight, id uint64, resp *pb.SyncResponse, now time.Duration) {
	byKey := make(map[lease.Key]*pb.BudgetAnswer, len(resp.GetBudgets()))
	for _, a := range resp.GetBudgets() {
		byKey[lease.Key{Account: a.GetKey().GetAccount(), Operation: a.GetKey().GetOperation()}] = a
	}
	for _, k := range f.keys {
		if k.flight != id {
			continue // a newer request of the budget is on its way
		}
		k.flight, k.hanging = 0, false
		m.activate(k)
		a := byKey[k.budget.Key]
		if a == nil || a.GetSequence() != k.sequence || m.phase != running || k.gone {
			continue
		}
		m.apply(k, a, now)
	}
}

// apply takes the ledger's word on one budget.
func (m *Manager) apply(k *keyState, a *pb.BudgetAnswer, now time.Duration) {
	k.renewed = k.sent
	switch {
	case a.GetEvidence() == pb.Evidence_EVIDENCE_RECORD_UNUSABLE:
		m.outlook(k, func(o *Outlook) { o.Down = true }) // what is held may be spent; there is no more
		k.budget.tell()
		return
	case a.GetEvidence() != pb.Evidence_EVIDENCE_UNSPECIFIED:
		m.contradicted(k.shard, m.finalCounters(k), a.GetEvidence())
		k.broken = true
		m.outlook(k, func(o *Outlook) { o.Down = true })
		k.budget.tell()
		return
	case a.GetGone():
		m.lost(k, now)
		k.budget.answered.Store(max(1, int64(now)))
		return
	}
	k.budget.answered.Store(max(1, int64(now)))
	k.heardOwed()
	k.toldPolicy = max(k.toldPolicy, k.sentPolicy)
	turned := m.turn(k, a)
	if p := a.GetPolicy(); p != nil {
		m.bind(k, time.Duration(p.GetMaxStalenessNs()))
	}
	m.adopt(k, a)
	m.learn(k, a, now)
	m.yield(k, a)
	if k.issued > rotateAt {
		m.rotate(k)
	}
	m.draw(k)
	k.budget.tell()
	if turned {
		_, _, need := k.budget.demand()
		m.ask(k, need, false)
	}
	m.look(k, now)
}

// maxLost is how many grants that the broker has ended on its own are remembered of a
// shard.
const maxLost = 4096

// lost drops a grant that the broker has ended on its own. What was left of it is not
// spent, and whatever is said of it from now on is ignored.
func (m *Manager) lost(k *keyState, now time.Duration) {
	if now >= m.lostAgain {
		m.lostAgain = now + time.Second // of many one is named
		m.log.Warn("the broker has ended a grant that was in use; what was left of it is not spent", "grant", k.grant)
	}
	k.budget.endHolds()
	k.budget.take(math.MaxInt64)
	sh := k.shard
	sh.closed[k.grant] = math.MaxUint64
	if sh.lost = append(sh.lost, k.grant); len(sh.lost) > maxLost {
		sh.confirmed(sh.lost[0])
		sh.lost = sh.lost[1:]
	}
	if m.cfg.Journal != JournalOff {
		m.journal.forget = append(m.journal.forget, k.grant)
	}
	m.forgetGrant(k)
}

// rotate closes the grant for a new one, unless something of it is held: then it
// goes on, as far as counters reach.
func (m *Manager) rotate(k *keyState) {
	if k.budget.seal() {
		m.closeGrant(k)
	}
}

// turn closes the grant where the answer's policy is of another kind than the one
// that the grant's credit was taken under, before anything else of the answer is
// taken over: tokens are no slots, and what was held as the one is not settled as
// the other. The answer's grant is then known as closed.
func (m *Manager) turn(k *keyState, a *pb.BudgetAnswer) bool {
	if a.GetPolicy() == nil {
		return false
	}
	kind := policywire.From(a.GetPolicy()).Rule.Kind
	turned := k.grant != "" && !k.broken && k.kind != "" && k.kind != kind
	if turned {
		m.closeGrant(k)
		k.wantSent = 0 // what there is of it says nothing about the want
	}
	if k.kind != kind {
		if k.kind != "" {
			k.peak, k.boost, k.rate = 0, 0, 0 // other demand
		}
		k.kind = kind
		k.budget.setKind(kind == lease.Concurrency)
	}
	return turned
}

// yield returns what is above the budget's fair share when there is too little
// for everyone, or the broker has asked for it.
func (m *Manager) yield(k *keyState, a *pb.BudgetAnswer) {
	switch a.GetShortage() {
	case pb.Shortage_SHORTAGE_UNSPECIFIED, pb.Shortage_SHORTAGE_EXHAUSTED:
		if k.recalled || a.GetLevelTokens() < k.wantSent {
			m.giveBack(k, a.GetLevelTokens())
		}
	case pb.Shortage_SHORTAGE_NO_POLICY:
		m.giveBack(k, 0) // nothing is admitted any more
	}
	k.recalled = false
}

// adopt takes over what was issued. Only credit under the grant that this
// budget has, or under its first, counts; a grant that has been closed is not
// revived.
func (m *Manager) adopt(k *keyState, a *pb.BudgetAnswer) {
	id := a.GetGrantId()
	if id == "" || k.shard.knowsClosed(id) {
		return
	}
	if k.grant == "" {
		k.grant = id
		k.toldPolicy = a.GetPolicy().GetVersion() // the broker knows what came with the grant
		m.stats.GrantsOpened++
	}
	if k.grant == id && a.GetIssuedTokens() > k.issued {
		m.stats.TokensIssued += a.GetIssuedTokens() - k.issued
		k.issued = a.GetIssuedTokens()
	}
}

// close ends a grant here, for good: it is told until the broker confirms.
func (sh *shardState) close(c *closing) {
	sh.closing = append(sh.closing, c)
	sh.closed[c.id] = math.MaxUint64
}

// knowsClosed says that the grant was ended here, and that an answer may still
// name it, since the broker has not confirmed its end, or had it alive when it
// made an answer that is on its way.
func (sh *shardState) knowsClosed(id string) bool {
	_, known := sh.closed[id]
	return known || sh.refused[id] != nil
}

// confirmed notes that the broker knows of the end of a grant.
func (sh *shardState) confirmed(id string) {
	if len(sh.open) == 0 {
		delete(sh.closed, id)
		return
	}
	last := sh.open[len(sh.open)-1]
	sh.closed[id] = last
	sh.ended = append(sh.ended, endedGrant{id, last})
}

// answered notes that a request is over, and forgets the grants that no answer
// can name any more.
func (sh *shardState) answered(id uint64) {
	if at, found := slices.BinarySearch(sh.open, id); found {
		sh.open = slices.Delete(sh.open, at, at+1)
	}
	n := 0
	for ; n < len(sh.ended) && (len(sh.open) == 0 || sh.ended[n].last < sh.open[0]); n++ {
		delete(sh.closed, sh.ended[n].id)
	}
	sh.ended = slices.Delete(sh.ended, 0, n)
}

// learn turns the answer into the outlook that checks without credit are judged
// by.
func (m *Manager) learn(k *keyState, a *pb.BudgetAnswer, now time.Duration) {
	k.recalling = a.GetShortage() == pb.Shortage_SHORTAGE_RECALLING
	k.short = a.GetShortage() == pb.Shortage_SHORTAGE_EXHAUSTED || k.recalling
	if k.short {
		k.boost = 0
	}
	if k.short || a.GetShortage() == pb.Shortage_SHORTAGE_UNSPECIFIED && k.issued-k.sentSpent-k.sentReturned-k.sentHeld < k.wantSent {
		k.budget.shortAt.Store(max(1, int64(now)))
	}
	m.outlook(k, func(o *Outlook) {
		o.Down, o.GrantID, o.NoPolicyUntil, o.Denial, o.Recalling = false, k.grant, 0, nil, k.recalling
		if p := a.GetPolicy(); p != nil && (o.Policy == nil || o.Policy.Rule.Version != p.GetVersion() || o.Policy.Rule.Kind != k.kind) {
			policy := policywire.From(p)
			o.Policy, o.Window, o.NotStrict = &policy, policy.Rule.Per(), !policy.Strict()
		}
		switch a.GetShortage() {
		case pb.Shortage_SHORTAGE_NO_POLICY:
			o.Policy, o.NoPolicyUntil = nil, now+noPolicyFor
		case pb.Shortage_SHORTAGE_EXHAUSTED:
			m.stats.Denials++
			need := k.need
			if need == 0 && o.Policy != nil {
				need = o.Policy.DefaultCost // what was asked for without knowing it
			}
			o.Denial = &Denial{Need: need, At: now, MaxUntil: now + 2*m.cfg.HangTime, freed: k.sentFreed, held: max(0, k.sentHeld)}
			if a.GetHasRetry() {
				until := now + max(minDenial, time.Duration(a.GetRetryInNs()))
				o.Denial.HasRetry, o.Denial.Until, o.Denial.MaxUntil = true, until, until
			}
		}
	})
	k.budget.most.Store(k.budget.Outlook().mostCost())
}
