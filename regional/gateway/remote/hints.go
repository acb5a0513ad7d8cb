package remote

import (
	"container/list"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// hintDetail is the detail of an answer from a hint.
const hintDetail = "the budget was used up when a limiter was last asked, and cannot have refilled yet: answered from that without asking again"

// hint is a denial that still holds.
type hint struct {
	cost  decision.Cost
	ends  time.Time // used before that
	retry time.Time // by the client's clock: what was told to wait, from when it was heard
	deny  decision.Answer
}

// covers says that whoever asks for cost would be denied likewise.
func (h hint) covers(cost decision.Cost) bool {
	return h.cost.Given == cost.Given && (!cost.Given || cost.Tokens >= h.cost.Tokens)
}

// hints are the denials of each key: at most one of a given cost and one of the
// default cost. There is one lock, held for some map look-ups.
type hints struct {
	most time.Duration // of a hint; negative: none are kept
	keys int           // bound

	mu    sync.Mutex
	byKey map[lease.Key]*list.Element // of *denials
	order *list.List                  // oldest first
}

// denials are the hints of one key.
type denials struct {
	key  lease.Key
	list []hint // one or two
}

func newHints(most time.Duration, keys int) *hints {
	return &hints{most: most, keys: keys, byKey: map[lease.Key]*list.Element{}, order: list.New()}
}

// answer is the denial that is known already, if one covers the request.
func (h *hints) answer(req decision.Request, now time.Time) (decision.Answer, bool) {
	if h.most < 0 || req.ID != "" || !hintable(req) {
		return decision.Answer{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	entry, ok := h.byKey[req.Key]
	if !ok {
		return decision.Answer{}, false
	}
	h.keep(entry, func(known hint) bool { return now.Before(known.ends) })
	for _, known := range entry.Value.(*denials).list { //nolint:errcheck,forcetypeassert // nothing else is listed
		if known.covers(req.Cost) && (req.PolicyVersion == 0 || req.PolicyVersion == known.deny.PolicyVersion) {
			a := known.deny
			a.RetryIn = known.retry.Sub(now)
			return a, true
		}
	}
	return decision.Answer{}, false
}

// hintable says that what is answered to a request may become a hint, and that it
// may be answered by one.
func hintable(req decision.Request) bool { return len(req.Also) == 0 && req.MaxWait <= 0 }

// learn takes notice of a limiter's answer to a request that was sent and answered
// at the given times.
func (h *hints) learn(req decision.Request, a decision.Answer, sent, heard time.Time) {
	if h.most < 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.contradict(req, a)
	if !hintable(req) || !denies(a) {
		return
	}
	// It was made after the request was sent, so counting from then the hint ends
	// no later than its wait. The caller's wait is counted from when it was heard,
	// so it is never too short.
	fresh := hint{cost: req.Cost, ends: sent.Add(min(a.RetryIn, h.most)), retry: heard.Add(a.RetryIn), deny: a}
	if !heard.Before(fresh.ends) {
		return
	}
	fresh.deny.Remaining, fresh.deny.Detail = 0, hintDetail // others may have spent what remained
	h.add(req.Key, fresh, heard)
}

// denies says that an answer is one that can be repeated until its wait is over.
func denies(a decision.Answer) bool {
	return a.Reason == pb.Reason_REASON_EXHAUSTED && a.HasRetry && a.RetryIn > 0 &&
		!a.Allowed && !a.Shadow && !a.Replayed && len(a.Parts) == 0
}

// contradict drops the hints that an answer shows to be wrong. Those of the other
// budgets of a decision are told by its parts.
func (h *hints) contradict(req decision.Request, a decision.Answer) {
	for _, part := range a.Parts {
		h.drop(part.Key, func(known hint) bool { return otherVersion(known, part.PolicyVersion) })
	}
	h.drop(req.Key, func(known hint) bool {
		admitted := a.Allowed && known.covers(req.Cost) && !a.Replayed
		return admitted || len(a.Parts) == 0 && otherVersion(known, a.PolicyVersion)
	})
}

func otherVersion(known hint, version int64) bool {
	return version != 0 && version != known.deny.PolicyVersion
}

// forget drops all that is known of a key.
func (h *hints) forget(key lease.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(key, func(hint) bool { return true })
}

// drop, under the lock, drops the hints of a key that are wrong.
func (h *hints) drop(key lease.Key, wrong func(hint) bool) {
	if entry, ok := h.byKey[key]; ok {
		h.keep(entry, func(known hint) bool { return !wrong(known) })
	}
}

// keep, under the lock, keeps some hints of a key, and the key if any stay.
func (h *hints) keep(entry *list.Element, right func(hint) bool) {
	d := entry.Value.(*denials) //nolint:errcheck,forcetypeassert // nothing else is listed
	kept := d.list[:0]
	for _, known := range d.list {
		if right(known) {
			kept = append(kept, known)
		}
	}
	d.list = kept
	if len(kept) == 0 {
		h.order.Remove(entry)
		delete(h.byKey, d.key)
	}
}

// add, under the lock, adds a hint unless one of a lower cost holds already.
func (h *hints) add(key lease.Key, fresh hint, now time.Time) {
	h.drop(key, func(known hint) bool { return !now.Before(known.ends) || fresh.covers(known.cost) })
	if entry, ok := h.byKey[key]; ok {
		d := entry.Value.(*denials) //nolint:errcheck,forcetypeassert // nothing else is listed
		for _, known := range d.list {
			if known.covers(fresh.cost) {
				return
			}
		}
		d.list = append(d.list, fresh)
		return
	}
	for h.order.Len() >= h.keys {
		oldest := h.order.Front()
		h.keep(oldest, func(hint) bool { return false })
	}
	h.byKey[key] = h.order.PushBack(&denials{key: key, list: []hint{fresh}})
}
