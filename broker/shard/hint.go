package shard

import (
	"slices"

	"github.com/tokenlease/tokenlease/lease"
)

// Subscription delivers the hints of one shard to one holder. A hint is lost
// when the shard moves; nothing depends on it.
type Subscription struct {
	holder lease.Holder
	epoch  uint64
	notify func(keys []lease.Key, fenced bool)
}

type hint struct {
	to     *Subscription
	key    lease.Key
	fenced bool
}

// Subscribe registers for hints. notify is called from Result, and at once for
// recalls that the holder has not answered; it must not block.
func (s *Shard) Subscribe(h lease.Holder, epoch uint64, notify func(keys []lease.Key, fenced bool)) *Subscription {
	sub := &Subscription{holder: h, epoch: epoch, notify: notify}
	s.subs = append(s.subs, sub)
	if keys := s.recalled(h, epoch); len(keys) > 0 {
		notify(keys, false)
	}
	return sub
}

// recalled are the budgets of which credit was called back from the holder epoch
// in vain: the hint may have been lost. It gets its time to answer anew.
func (s *Shard) recalled(h lease.Holder, epoch uint64) []lease.Key {
	var keys []lease.Key
	for _, e := range s.order {
		at, found := e.findDemand(h)
		if found && e.demands[at].epoch == epoch && e.demands[at].hinted != 0 {
			e.demands[at].hinted = max(1, s.moment.Mono)
			keys = append(keys, e.key)
		}
	}
	return keys
}

// Unsubscribe ends a subscription.
func (s *Shard) Unsubscribe(sub *Subscription) {
	s.subs = slices.DeleteFunc(s.subs, func(other *Subscription) bool { return other == sub })
}

// Subscribers is the number of subscriptions.
func (s *Shard) Subscribers() int { return len(s.subs) }

func (b *batch) hintKey(s *Shard, h lease.Holder, key lease.Key) {
	for _, sub := range s.subs {
		if sub.holder == h {
			b.hints = append(b.hints, hint{to: sub, key: key})
		}
	}
}

func (b *batch) hintFenced(s *Shard, f *fence) {
	for _, sub := range s.subs {
		if sub.holder == f.Holder && f.Fences(sub.epoch) {
			b.hints = append(b.hints, hint{to: sub, fenced: true})
		}
	}
}

// deliverHints sends the hints of a committed batch, grouped by subscription in
// order of their first hint.
func (b *batch) deliverHints() {
	for i, h := range b.hints {
		if slices.ContainsFunc(b.hints[:i], func(o hint) bool { return o.to == h.to }) {
			continue
		}
		var keys []lease.Key
		fenced := false
		for _, o := range b.hints[i:] {
			switch {
			case o.to != h.to:
			case o.fenced:
				fenced = true
			case !slices.Contains(keys, o.key):
				keys = append(keys, o.key)
			}
		}
		h.to.notify(keys, fenced)
	}
}
