package holder

import (
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// coldChecks is how many checks like each that waits a budget without history
// asks credit for.
const coldChecks = 4

// keyState is what the manager knows of one budget.
type keyState struct {
	budget *Budget
	shard  *shardState
	gone   bool // retired

	grant            string     // the live grant's ID; empty for none
	kind             lease.Kind // of the newest policy that was known: what the live grant is of
	issued, returned int64
	bound            int64 // what the hot path may spend of the grant in all
	drawn            int64 // of bound, what the journal lets be spent
	drawing          int64 // what a journal write under way will raise drawn to
	broken           bool  // the ledger contradicts the grant: nothing more is spent of it

	bounded    time.Duration // the policy's bound on staleness; 0: none
	renewed    time.Duration // when the newest request was sent that was answered
	sentClocks Clocks        // read before the newest request was sent

	flight                  uint64 // the request on its way; 0 for none
	hanging                 bool   // that request hangs
	sequence                uint64 // of the newest request
	sent                    time.Duration
	sentSpent, sentReturned int64
	sentHeld                int64 // below 0: perhaps never heard
	sentPolicy              int64 // the policy version that the newest request has told
	toldPolicy              int64 // the highest that the broker is known to know
	owed                    int64 // of the live grant, cumulative: what the budget has disclosed
	sentOwed, knownOwed     int64 // of that, what the newest request tells, and what an answer has confirmed
	sentFreed               int64 // what had ever come back from holds, when the newest request was made
	queued                  queue // that the budget waits in for the shard's next request

	seen     int64 // spent, when last measured
	out      int64 // spent or held, when last measured
	fresh    int64 // what left the credit between the last two measurements
	peak     int64 // of what was held lately
	peakAt   time.Duration
	measured time.Duration
	lastUse  time.Duration
	rate     float64 // tokens a second, smoothed
	short    bool    // the last answer was below the need, or credit ran out
	need     int64   // of the newest request
	boost    int64   // doubles with each request that somebody waits for
	wantSent int64
	recalled bool // the newest request follows a hint
	// recalling: the broker calls credit back for this budget; ask again, hanging.
	recalling bool
	active    bool // in the manager's list
	asleep    bool // likewise
	hinted    bool
	wanted    bool // denials since the last tick
}

// spent is what was spent of the live grant for good. It never tells more than the
// truth, and never less than it told before: see holds.
func (k *keyState) spent() int64 {
	credit, held := k.budget.balance()
	return k.bound - credit - held
}

// held is what is reserved by callers or used as slots.
func (k *keyState) held() int64 { return k.budget.holds.held.Load() }

// undrawn is the credit that the hot path cannot spend yet.
func (k *keyState) undrawn() int64 { return k.issued - k.returned - k.bound }

// free is what the region could still spend of the grant and holds for nobody.
func (k *keyState) free() int64 { return k.undrawn() + k.credit() }

// unspent is everything that the region could still spend of the grant, what is
// held included.
func (k *keyState) unspent() int64 { return k.issued - k.returned - k.spent() }

// restless says that the budget needs looking at in the next tick: somebody
// waits or is denied, the broker is to be told something, or demand would change
// much of what is here before a signal.
func (m *Manager) restless(k *keyState) bool {
	if k.flight != 0 && !k.hanging {
		return false // its answer is an event
	}
	count, _, _ := k.budget.demand()
	return count > 0 || k.hinted || k.wanted || k.budget.denied.Load() || k.returned != k.sentReturned || k.owing() ||
		k.unreported() >= k.reportAt() || k.released() >= k.reportAt() ||
		k.unreported() > 0 && m.reportWithin(k) < m.cfg.ReportWithin ||
		8*float64(k.fresh) > float64(k.free())
}

// measure updates the demand of an active budget, once a tick.
func (m *Manager) measure(k *keyState, now time.Duration) {
	k.budget.Expire(now)
	credit, held := k.budget.balance()
	spent := k.bound - credit - held
	elapsed := now - k.measured
	if elapsed <= 0 {
		return
	}
	k.fresh = spent - k.seen
	if !k.ofSlots() {
		k.fresh = max(0, spent+held-k.out) // what is held has to be fetched, too
	}
	k.rate = float64(0.5*k.rate) + float64(0.5*float64(k.fresh)/elapsed.Seconds())
	moved := k.measurePeak(now)
	count, _, _ := k.budget.demand()
	k.wanted = k.budget.denied.Load()
	if k.wanted {
		k.budget.denied.Store(false)
	}
	if spent != k.seen || count > 0 || k.wanted || moved {
		k.lastUse = now
	}
	if count == 0 {
		k.boost -= (k.boost + 3) / 4
	}
	k.seen, k.out, k.measured = spent, spent+held, now
}

// peakHalf is the time in which a peak of what is held counts half, unless it is
// reached again.
const peakHalf = time.Second

// measurePeak follows the highest of what was held lately, and says whether anything
// was held or settled since the last call.
func (k *keyState) measurePeak(now time.Duration) (moved bool) {
	peak, moved := k.budget.usedHolds()
	k.fadePeak(now)
	if peak > 0 && peak >= k.peak {
		k.peak, k.peakAt = peak, now
	}
	return moved
}

// fadePeak lets the peak count less as time passes.
func (k *keyState) fadePeak(now time.Duration) {
	for k.peak > 0 && now-k.peakAt >= peakHalf {
		k.peak, k.peakAt = k.peak/2, k.peakAt+peakHalf
	}
}

// ofSlots says that the live grant is of slots.
func (k *keyState) ofSlots() bool { return k.kind == lease.Concurrency }

// look decides whether the budget needs credit moved or the broker asked.
func (m *Manager) look(k *keyState, now time.Duration) {
	if k.measured == 0 {
		k.measured, k.lastUse = now, now
	}
	k.fadePeak(now)
	m.draw(k)
	k.served()
	if m.phase != running || k.broken {
		return
	}
	count, sum, need := k.budget.demand()
	want := m.want(k, sum)
	denied := k.denial(now)
	stale := count > 0 && k.budget.Stale()
	switch {
	case count > 0 && k.free() < need && (denied == nil || need < denied.short(k.budget.holds.freed.Load(), k.held())),
		count > 0 && need == 0 && k.unknown(now), stale:
		m.ask(k, need, k.recalling && !k.renewDue(now) && !stale)
	case k.hinted && (k.flight == 0 || k.hanging):
		k.hinted, k.recalled = false, true
		m.ask(k, need, false)
	case k.returned > k.sentReturned:
		m.ask(k, need, false)
	case now-k.sent < m.cfg.SyncInterval:
		// Nobody waits: at most one request in an interval.
	case k.owing():
		m.ask(k, need, false) // before one that hangs: a debt that is not told is lost in a crash
	case k.renewDue(now):
		m.ask(k, need, false) // likewise: what is here would be of no use
	case k.down() && (k.wanted || count > 0):
		m.ask(k, max(need, k.need), false)
	case denied != nil && (k.wanted || count > 0):
		m.ask(k, denied.Need, true)
	case denied == nil && k.lastUse+m.cfg.SyncInterval > now && k.free() < want-want/4:
		m.ask(k, need, false)
	case m.reportDue(k, now):
		m.ask(k, need, false)
	}
	k.budget.low.Store(k.watermark())
	k.publish()
}

// served forgets the check that did not wait and asked for credit, once that is here:
// nobody else would, and the budget would count as waited for.
func (k *keyState) served() {
	if asked := k.budget.asked.Load(); asked > 0 && k.credit() >= asked && !k.budget.Stale() {
		k.budget.asked.CompareAndSwap(asked, 0)
	}
}

// publish tells checks what is held beyond the credit.
func (k *keyState) publish() { k.budget.beyond.Store(max(0, k.undrawn())) }

// watermark is the credit below which a spend signals: half of what is here, or
// what makes a report due.
func (k *keyState) watermark() int64 {
	credit := k.credit()
	low := max(1, (credit+1)/2)
	if k.undrawn() <= 0 && k.short {
		low = 0
	}
	if more := k.reportAt() - k.unreported(); !k.ofSlots() && more > 0 && more <= credit {
		low = max(low, credit-more+1)
	}
	return low
}

func (k *keyState) credit() int64 { return k.budget.credit.Load() }

// denial is the shortage that is known and still holds.
func (k *keyState) denial(now time.Duration) *Denial {
	o := k.budget.Outlook()
	if o == nil || o.Denial == nil || now >= o.Denial.MaxUntil {
		return nil
	}
	return o.Denial
}

// unknown says that no policy is known, nor that there is none.
func (k *keyState) unknown(now time.Duration) bool {
	o := k.budget.Outlook()
	return o == nil || o.Policy == nil && now >= o.NoPolicyUntil
}

// down says that the broker was out of reach for this budget.
func (k *keyState) down() bool {
	o := k.budget.Outlook()
	return o != nil && o.Down
}

// reportDue says that what was spent should be settled, so that refill gets
// room, or that the broker should hear what is held, so that it knows what is free:
// at once where it is a good part of the capacity, in a while otherwise.
func (m *Manager) reportDue(k *keyState, now time.Duration) bool {
	unreported, within := k.unreported(), m.reportWithin(k)
	return unreported > 0 && (now-k.sent >= within || unreported >= k.reportAt()) ||
		k.policyUntold() && now-k.sent >= within ||
		k.grant != "" && k.held() != k.sentHeld && (now-k.sent >= m.cfg.ReportWithin || k.released() >= k.reportAt())
}

// policyUntold says that a newer policy has been installed for the grant than the broker
// knows of.
func (k *keyState) policyUntold() bool { return k.grant != "" && k.rule().Version > k.toldPolicy }

// reportWithin is how long spent credit goes unreported: ReportWithin, and of a
// rolling window no longer than 1% of it, as far as SyncInterval allows, since a
// token comes back one window after it was settled.
func (m *Manager) reportWithin(k *keyState) time.Duration {
	if r := k.rule(); r.Kind == lease.RollingWindow {
		return max(m.cfg.SyncInterval, min(m.cfg.ReportWithin, r.Window/100))
	}
	return m.cfg.ReportWithin
}

// rule is the rule that the budget is under as far as it is known; else the zero
// one.
func (k *keyState) rule() lease.Rule {
	if o := k.budget.Outlook(); o != nil && o.Policy != nil {
		return o.Policy.Rule
	}
	return lease.Rule{}
}

// unreported is what was spent since the newest request.
func (k *keyState) unreported() int64 { return k.spent() - k.sentSpent }

// released is what was held at the newest request and is held no more: the broker
// does not know yet that it is spent or free.
func (k *keyState) released() int64 { return max(0, k.sentHeld-k.held()) }

// owing says that something is owed which the newest request does not tell.
func (k *keyState) owing() bool {
	return k.grant != "" && !k.broken && (k.owed > k.sentOwed || k.budget.holds.untold() > 0)
}

// reportParts of the capacity are worth a report at once, each.
const reportParts = 20

// reportAt is how much unreported spending is worth a report at once. Of a rolling
// window it is less: see reportWithin.
func (k *keyState) reportAt() int64 {
	switch r := k.rule(); r.Kind {
	case "":
		return math.MaxInt64
	case lease.RollingWindow:
		return max(1, r.Capacity/100)
	default:
		return max(1, r.Capacity/reportParts)
	}
}

// want is the level of free credit that the budget should have: what waits,
// and what the measured demand takes until the answer to the request after
// next, with a fifth on top. A budget without history starts with a few checks
// and doubles while it runs out. Slots come back, so the demand for them is not the
// rate at which they are taken, but how many are in use at once: of the recent peak,
// with a fifth on top, what is not in use now.
func (m *Manager) want(k *keyState, waiting int64) int64 {
	horizon := m.cfg.SyncInterval + 2*k.shard.rtt
	level := float64(1.2*k.rate) * horizon.Seconds()
	want := int64(math.Ceil(min(level, float64(lease.MaxCapacity))))
	waiting = min(waiting, lease.MaxCapacity)
	want = max(want, k.boost) + waiting
	o := k.budget.Outlook()
	if o == nil || o.Policy == nil {
		return max(want, coldChecks*waiting)
	}
	spare := int64(0)
	if k.lastUse+m.cfg.SyncInterval >= k.measured {
		spare = o.Policy.DefaultCost
	}
	held := k.held()
	if k.ofSlots() {
		spare += max(0, k.peak+k.peak/5-held)
	}
	return max(0, min(max(want, spare), o.Policy.Rule.ShareCap()-held))
}

// giveBack returns free credit above level. What the hot path holds is
// taken out of it first, and only then counted as returned (C5.3).
func (m *Manager) giveBack(k *keyState, level int64) {
	excess := k.free() - max(0, level)
	if excess <= 0 || k.grant == "" {
		return
	}
	fromUndrawn := min(excess, k.undrawn())
	taken := k.budget.take(excess - fromUndrawn)
	k.bound -= taken
	k.returned += fromUndrawn + taken
	k.publish()
	m.stats.TokensReturned += fromUndrawn + taken
	m.activate(k)
}

// queue is a list of budgets that wait for their shard's next request.
type queue uint8

const (
	notQueued queue = iota
	routine         // to settle, to fetch ahead
	urgent          // somebody waits, here or elsewhere: before the routine
	starved         // in a request that hangs
	queues
)

// ask puts the budget in line for its shard's next request. One that hangs
// already is asked for again only to ask for something else, and one that waits
// as routine moves up when it becomes urgent, or to hang and has a bound on staleness, which
// may pass meanwhile; its old place is then void.
func (m *Manager) ask(k *keyState, need int64, hang bool) {
	if k.flight != 0 && (hang || !k.hanging) {
		return
	}
	to := routine
	switch {
	case hang:
		to = starved
	case need > 0 || k.recalled || k.returned > k.sentReturned:
		to = urgent
	}
	if k.queued != notQueued && (k.queued != routine || to == routine) && (k.queued != starved || to == starved || k.bounded == 0) {
		return
	}
	k.queued, k.need = to, need
	k.shard.waiting[to] = append(k.shard.waiting[to], k)
}

// tellOwed adds to what the live grant owes all that the budget has not disclosed yet:
// the newest request tells it. Without a grant it waits for one.
func (k *keyState) tellOwed() {
	if k.grant != "" {
		k.owed = saturate(k.owed, k.budget.disclose())
	}
	k.sentOwed = k.owed
}

// heardOwed notes that the newest request was answered: what it told as owed is recorded.
func (k *keyState) heardOwed() {
	k.budget.recorded(k.sentOwed - k.knownOwed)
	k.knownOwed = k.sentOwed
}

// report is the budget's part of a request.
func (m *Manager) report(k *keyState, id uint64, now time.Duration, hanging bool) *pb.BudgetReport {
	k.sentClocks = m.flights[id].clocks
	waiting, sum, cheapest := k.budget.demand()
	k.budget.asked.Store(0) // this request asks for it
	if waiting > 0 {
		k.boost = min(max(2*k.boost, sum), lease.MaxCapacity)
	}
	m.sequence++
	k.sequence, k.flight, k.hanging, k.sent, k.queued = m.sequence, id, hanging, now, notQueued
	k.sentFreed = k.budget.holds.freed.Load() // before the counters: what comes back meanwhile counts as news
	k.sentSpent, k.sentReturned = k.spent(), k.returned
	need := k.need
	k.tellOwed()
	k.sentPolicy = k.rule().Version
	k.sentHeld = k.held() // after spent, which only grows: together they are within the bound
	if cheapest > 0 && (need == 0 || !hanging) {
		need = cheapest
	}
	k.need, k.wantSent = need, max(m.want(k, sum), need)
	var defaults uint32
	if k.unknown(now) {
		defaults = uint32(min(coldChecks*k.budget.defaults(), math.MaxUint32))
	}
	return &pb.BudgetReport{
		Key:      &pb.BudgetKey{Account: k.budget.Key.Account, Operation: k.budget.Key.Operation},
		Sequence: k.sequence, GrantId: k.grant, PolicyVersion: k.sentPolicy,
		SpentTokens: k.sentSpent, ReturnedTokens: k.returned,
		HeldTokens: k.sentHeld, OwedTokens: k.sentOwed, BoundNs: k.boundNs(),
		WantTokens: k.wantSent, NeedTokens: need, DefaultCostChecks: defaults,
	}
}
