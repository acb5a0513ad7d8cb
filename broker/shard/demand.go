package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// demand is what a holder last wanted of a budget. It is kept in memory only,
// and steers how credit is shared, never what is reserved.
type demand struct {
	holder lease.Holder
	epoch  uint64
	want   int64
	need   int64
	held   int64         // of what it has out, in use or reserved by its callers: nobody's to share
	heard  time.Duration // monotonic time of the report
	since  time.Duration // monotonic time since when it goes short; 0: it does not
	// sequence of the newest report that was applied. Grants store theirs; this
	// one also covers a holder that has none.
	sequence uint64
	// hinted is the monotonic time at which it was asked to return something; 0:
	// not since its last report.
	hinted time.Duration
}

// recallPatience is how long a holder that was asked for credit may take to
// answer before its credit no longer counts as something to share.
const recallPatience = 500 * time.Millisecond

// free is the part of what is out that the holder could still spend or return.
func (d *demand) free(out int64) int64 { return max(0, out-d.held) }

// silent says that the holder has not answered a recall.
func (d *demand) silent(now time.Duration) bool {
	return d.hinted != 0 && now-d.hinted >= recallPatience
}

// demand is the holder's demand, a new one if it had none in this epoch.
func (e *entry) demand(h lease.Holder, epoch uint64) *demand {
	at, found := e.findDemand(h)
	if !found {
		e.demands = slices.Insert(e.demands, at, &demand{holder: h, epoch: epoch})
	}
	d := e.demands[at]
	if d.epoch != epoch {
		*d = demand{holder: h, epoch: epoch}
	}
	return d
}

func (e *entry) findDemand(h lease.Holder) (at int, found bool) {
	return slices.BinarySearchFunc(e.demands, h, func(d *demand, h lease.Holder) int { return d.holder.Compare(h) })
}

// newest is the sequence of the newest report of the holder epoch that is
// remembered, by its live grant or its demand; 0 for none.
func (e *entry) newest(h lease.Holder, epoch uint64) uint64 {
	var sequence uint64
	if live := e.ledger.Live(h, epoch); live != nil {
		sequence = live.Sequence
	}
	if at, found := e.findDemand(h); found && e.demands[at].epoch == epoch {
		sequence = max(sequence, e.demands[at].sequence)
	}
	return sequence
}

func (e *entry) forgetDemand(h lease.Holder, epoch uint64) {
	e.demands = slices.DeleteFunc(e.demands, func(d *demand) bool { return d.holder == h && d.epoch == epoch })
}

// claim is a demand that counts, with what its epoch has out and free, and its fair
// share of that.
type claim struct {
	*demand

	out, level int64
}

// claims are each holder's fair share of what is available or held by holders
// that answer. Credit of silent and orphaned grants is nobody's to share, and
// the wish of a holder that has left counts no more.
func (s *Shard) claims(e *entry) []claim {
	now := s.moment.Mono
	e.demands = slices.DeleteFunc(e.demands, func(d *demand) bool { return now-d.heard > s.cfg.DemandTTL })
	s.turn(e)
	e.ledger.Advance(s.now)
	held := make(map[lease.Holder]int64, len(e.ledger.Grants))
	out := make(map[lease.GrantHolder]int64, len(e.ledger.Grants))
	for i := range e.ledger.Grants {
		g := &e.ledger.Grants[i]
		held[g.Holder] += g.Outstanding()
		if !g.Kept {
			out[g.Of()] = g.Outstanding()
		}
	}
	claims := make([]claim, 0, len(e.demands))
	pool := e.ledger.Available
	for _, d := range e.demands {
		c := claim{demand: d, out: d.free(out[lease.GrantHolder{Holder: d.holder, Epoch: d.epoch}])}
		if !d.silent(now) && !s.left(e, c) {
			claims = append(claims, c)
			pool += c.out
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.starved(), b.starved()) })
	wants := make([]lease.Demand, len(claims))
	short := slices.ContainsFunc(claims, func(c claim) bool { return c.need > c.out })
	for i, c := range claims {
		limit := e.ledger.Rule.ShareCap() - held[c.holder] + c.out
		wants[i] = lease.Demand{Want: c.want, Need: c.need, Limit: limit, Weight: 1}
		if short && c.idle(now) {
			wants[i].Want = 0
		}
	}
	for i, level := range lease.Share(pool, wants) {
		claims[i].level = level
	}
	return claims
}

// left says that a holder which goes short has given up: it holds nothing, was
// not heard for a while, and no request of it waits.
func (s *Shard) left(e *entry, c claim) bool {
	return c.out == 0 && c.need > 0 && s.moment.Mono-c.heard >= recallPatience &&
		!slices.ContainsFunc(s.parked, func(j *syncJob) bool { return j.holder == c.holder && j.asks(e.key) })
}

// idleAfter is how long a holder that has nobody waiting may be silent before what it
// wants is only what it once wanted: one that spends is heard every second.
const idleAfter = 1500 * time.Millisecond

// idle says that the holder does not use the budget now. What it holds, or would
// like to, is for those who go short.
func (d *demand) idle(now time.Duration) bool { return d.need == 0 && now-d.heard >= idleAfter }

// starved orders demands: those that go short first, the longest first.
func (d *demand) starved() time.Duration {
	if d.since == 0 {
		return 1<<63 - 1
	}
	return d.since
}

// recall hints those who hold more than their share that it is wanted
// elsewhere.
func (s *Shard) recall(e *entry, claims []claim, b *batch) {
	for _, c := range claims {
		if c.hinted == 0 && c.out > c.level {
			c.hinted = max(1, s.moment.Mono)
			b.hintKey(s, c.holder, e.key)
			b.recalled = append(b.recalled, recalled{entry: e, holder: c.holder, epoch: c.epoch})
		}
	}
}
