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
const recallPatience = time.Second

// silent says that the holder has not answered a recall.
func (d *demand) silent(now time.Duration) bool {
	return d.hinted != 0 && now-d.hinted >= recallPatience
}

// demand is the holder's demand, a new one if it had none in this epoch.
func (e *entry) demand(h lease.Holder, epoch uint64) *demand {
	at, found := slices.BinarySearchFunc(e.demands, h, func(d demand, h lease.Holder) int { return d.holder.Compare(h) })
	if !found {
		e.demands = slices.Insert(e.demands, at, demand{holder: h})
	}
	d := &e.demands[at]
	if d.epoch != epoch {
		*d = demand{holder: h, epoch: epoch}
	}
	return d
}

func (e *entry) forgetDemand(h lease.Holder, epoch uint64) {
	e.demands = slices.DeleteFunc(e.demands, func(d demand) bool { return d.holder == h && d.epoch == epoch })
}

// levels is each holder's fair share of what is available or held by holders
// that answer. Credit of silent and orphaned grants is nobody's to share.
func (s *Shard) levels(e *entry) map[lease.Holder]int64 {
	e.demands = slices.DeleteFunc(e.demands, func(d demand) bool { return s.moment.Mono-d.heard > s.cfg.DemandTTL })
	order := make([]*demand, 0, len(e.demands))
	e.ledger.Advance(s.now)
	pool := e.ledger.Available
	for i := range e.demands {
		if d := &e.demands[i]; !d.silent(s.moment.Mono) {
			order = append(order, d)
			pool += e.outstanding(d)
		}
	}
	slices.SortStableFunc(order, func(a, b *demand) int { return cmp.Compare(a.starved(), b.starved()) })
	wants := make([]lease.Demand, len(order))
	for i, d := range order {
		limit := e.ledger.Rule.ShareCap() - e.ledger.HeldBy(d.holder) + e.outstanding(d)
		wants[i] = lease.Demand{Want: d.want, Need: d.need, Limit: limit, Weight: 1}
	}
	levels := make(map[lease.Holder]int64, len(order))
	for i, level := range lease.Share(pool, wants) {
		levels[order[i].holder] = level
	}
	return levels
}

// starved orders demands: those that go short first, the longest first.
func (d *demand) starved() time.Duration {
	if d.since == 0 {
		return 1<<63 - 1
	}
	return d.since
}

// outstanding is what the demand's own epoch has out.
func (e *entry) outstanding(d *demand) int64 {
	if g := e.ledger.Live(d.holder, d.epoch); g != nil {
		return g.Outstanding()
	}
	return 0
}

// recall hints those who hold more than their share that it is wanted
// elsewhere.
func (s *Shard) recall(e *entry, b *batch) {
	levels := s.levels(e)
	for i := range e.demands {
		d := &e.demands[i]
		if d.hinted == 0 && e.outstanding(d) > levels[d.holder] {
			d.hinted = max(1, s.moment.Mono)
			b.hintKey(s, d.holder, e.key)
		}
	}
}
