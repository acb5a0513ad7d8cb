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
// recalls that the holder has not answered and policies that it has not installed; it
// must not block.
func (s *Shard) Subscribe(h lease.Holder, epoch uint64, notify func(keys []lease.Key, fenced bool)) *Subscription {
	sub := &Subscription{holder: h, epoch: epoch, notify: notify}
	s.subs = append(s.subs, sub)
	s.hearFrom(h, s.moment)
	sub.tell(append(s.recalled(h, epoch), s.awaited(h, epoch)...), false)
	return sub
}

// tell notifies of keys, each once, maxHinted at a time.
func (sub *Subscription) tell(keys []lease.Key, fenced bool) {
	told := make(map[lease.Key]bool, len(keys))
	keys = slices.DeleteFunc(keys, func(key lease.Key) bool {
		again := told[key]
		told[key] = true
		return again
	})
	if len(keys) == 0 && fenced {
		sub.notify(nil, true)
	}
	for some := range slices.Chunk(keys, maxHinted) {
		sub.notify(some, fenced)
		fenced = false
	}
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

// Unsubscribe ends a subscription. Up to now its holder was there.
func (s *Shard) Unsubscribe(sub *Subscription) {
	s.hearFrom(sub.holder, s.moment)
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
	type news struct {
		keys   []lease.Key
		fenced bool
	}
	all := map[*Subscription]*news{}
	var order []*Subscription
	for _, h := range b.hints {
		n := all[h.to]
		if n == nil {
			n = &news{}
			all[h.to], order = n, append(order, h.to)
		}
		if h.fenced {
			n.fenced = true
		} else {
			n.keys = append(n.keys, h.key)
		}
	}
	for _, sub := range order {
		sub.tell(all[sub].keys, all[sub].fenced)
	}
}
