package lease_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// court judges by definition what a budget's holders admit, under rules of every
// kind that follow one another. It keeps every spend and every slot in use. What a
// rule promises holds from the change on that brought it (contract C8): spends of
// before do not count against it, and as long as more is out or counts than its
// capacity, what was out and counted then is the limit.
type court struct {
	rule   lease.Rule
	limit  int64
	spends []spending
	since  int // how many spends there were when the rule's kind, its period or a longer window came
	now    int64
	level  *big.Rat // of an ideal bucket, see judge
	paying *big.Rat // the same of one that is debited with what is owed, when it is charged
	work   map[lease.GrantID]int64
}

// spending is tokens that were spent at a real time, in a period of the wall clock.
type spending struct{ at, tokens, period int64 }

func newCourt(rule lease.Rule) *court {
	return &court{rule: rule, limit: rule.Capacity, level: whole(rule.Capacity), paying: whole(rule.Capacity), work: map[lease.GrantID]int64{}}
}

// admit is a spend that a holder allows itself.
func (c *court) admit(now, tokens, period int64) error {
	c.refill(now)
	c.level.Sub(c.level, whole(tokens))
	c.charge(now, tokens)
	c.spends = append(c.spends, spending{now, tokens, period})
	switch c.rule.Kind {
	case lease.TokenBucket:
		if c.level.Sign() < 0 {
			return fmt.Errorf("at %d: %d admitted, %v above the cap", now, tokens, c.level.FloatString(6))
		}
	case lease.RollingWindow: // the interval that ends now; those that end later are judged then
		if sum := c.sum(func(s spending) bool { return s.at > now-int64(c.rule.Window) }); sum > c.limit {
			return fmt.Errorf("at %d: %d admitted in a window of %v, where %d are allowed", now, sum, c.rule.Window, c.limit)
		}
	case lease.FixedWindow:
		if sum := c.sum(func(s spending) bool { return s.period == period }); sum > c.limit {
			return fmt.Errorf("at %d: %d admitted in period %d, where %d are allowed", now, sum, period, c.limit)
		}
	case lease.Concurrency: // who spends knows of an earlier rule yet
	}
	return nil
}

// charge debits what was used beyond reservations, now that the ledger knows of it.
func (c *court) charge(now, tokens int64) {
	c.refill(now)
	c.paying.Sub(c.paying, whole(tokens))
}

func (c *court) sum(counts func(spending) bool) (tokens int64) {
	for _, s := range c.spends[c.since:] {
		if counts(s) {
			tokens += s.tokens
		}
	}
	return tokens
}

// refill brings the ideal bucket to now. While it has more than the capacity, which
// was lowered, there is no room.
func (c *court) refill(now int64) {
	for _, level := range []*big.Rat{c.level, c.paying} {
		full := whole(c.rule.Capacity)
		if c.rule.Kind == lease.TokenBucket && level.Cmp(full) < 0 {
			if level.Add(level, earned(c.rule.Refill, now-c.now)); level.Cmp(full) > 0 {
				level.Set(full)
			}
		}
	}
	c.now = now
}

// start is work that begins, in a slot of the grant.
func (c *court) start(now int64, id lease.GrantID) error {
	c.work[id]++
	var sum int64
	for _, n := range c.work {
		sum += n
	}
	if c.rule.Kind == lease.Concurrency && sum > c.limit {
		return fmt.Errorf("at %d: %d slots in use, where there are %d", now, sum, c.limit)
	}
	return nil
}

// install takes over the rule that the ledger has just been brought to.
func (c *court) install(now int64, l *lease.Ledger) {
	c.refill(now)
	rule := l.Rule
	if rule.Kind != c.rule.Kind || rule.Period != c.rule.Period || rule.Window > c.rule.Window {
		c.since = len(c.spends)
	}
	if rule.Kind != c.rule.Kind {
		c.level = whole(max(rule.Capacity, l.Reserved()))
		c.paying.Sub(c.level, whole(l.Debt))
	}
	c.rule, c.limit = rule, max(c.limit, rule.Capacity)
}

// look lowers the limit to the capacity once all that was out and counted is within
// it. What a bucket lacks for what was spent and charged is owed yet. And it holds slots
// that are in use against the ledger: they are out. Where a grant
// was ended under another kind, its work holds no slot any more.
func (c *court) look(now int64, l *lease.Ledger) error {
	c.refill(now)
	if l.Reserved()+l.Counted() <= c.rule.Capacity {
		c.limit = c.rule.Capacity
	}
	if lacks := whole(l.Debt); c.rule.Kind == lease.TokenBucket && lacks.Add(lacks, c.paying).Sign() < 0 {
		return fmt.Errorf("a debt was not paid: %d are owed where %v were admitted in advance", l.Debt, c.paying.FloatString(6))
	}
	for id, n := range c.work {
		g := l.Grant(id)
		switch {
		case g != nil && g.Outstanding() >= n || n == 0:
		case g != nil:
			return fmt.Errorf("%d slots of grant %v are in use, %d are out", n, id, g.Outstanding())
		case c.rule.Kind == lease.Concurrency:
			return fmt.Errorf("%d slots of grant %v are in use, and it has ended", n, id)
		default:
			delete(c.work, id)
		}
	}
	return nil
}

func TestCourt(t *testing.T) {
	window := lease.Rule{Kind: lease.RollingWindow, Capacity: 3, Window: time.Minute}
	period := lease.Rule{Kind: lease.FixedWindow, Capacity: 3}
	for _, tc := range []struct {
		name string
		rule lease.Rule
		at   []time.Duration // one token each
		in   []int64         // periods of a fixed window
		ok   bool            // of the last; those before are
	}{
		{"three in a window", window, []time.Duration{0, 1, 2}, nil, true},
		{"four in a window", window, []time.Duration{0, 1, 2, time.Minute - 1}, nil, false},
		{"the first has left it", window, []time.Duration{0, 1, 2, time.Minute}, nil, true},
		{"and the second", window, []time.Duration{0, 1, 2, time.Minute, time.Minute}, nil, false},
		{"three in a period", period, []time.Duration{0, 1, 2, 3}, []int64{7, 7, 7, 8}, true},
		{"four in a period", period, []time.Duration{0, 1, 2, 3, 4}, []int64{7, 7, 8, 7, 7}, false},
		{"a bucket", perSecond(1, 2, 1), []time.Duration{0, 0, t1s}, nil, true},
		{"a bucket that is overdrawn", perSecond(1, 2, 1), []time.Duration{0, 0, t1s - 1}, nil, false},
	} {
		c := newCourt(tc.rule)
		for i, at := range tc.at {
			var in int64
			if tc.in != nil {
				in = tc.in[i]
			}
			err, last := c.admit(int64(at), 1, in), i == len(tc.at)-1
			if ok := err == nil; ok != (tc.ok || !last) {
				t.Errorf("%s: spend %d: %v", tc.name, i+1, err)
			}
		}
	}
	slots := newCourt(lease.Rule{Kind: lease.Concurrency, Capacity: 2})
	for i, ok := range []bool{true, true, false} {
		if err := slots.start(0, grantID(uint64(1+i%2))); (err == nil) != ok {
			t.Errorf("slot %d: %v", i+1, err)
		}
	}
}
