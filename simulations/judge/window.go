package judge

import (
	"slices"
	"time"
)

// window is a rolling window with all that was admitted in it.
type window struct {
	limit    int64
	length   time.Duration
	admitted []admission // in order of time
	total    wide        // of them: some may be the largest number
}

type admission struct {
	at     time.Duration
	tokens int64
}

// admit is by how much the window that ends now is above the limit.
func (w *window) admit(now time.Duration, tokens int64) (over int64) {
	if last := len(w.admitted) - 1; last >= 0 {
		now = max(now, w.admitted[last].at)
	}
	if tokens > 0 {
		w.admitted = append(w.admitted, admission{now, tokens})
		w.total = w.total.plus(product(tokens, 1))
	}
	return max(0, w.sum(now)-w.limit)
}

// sum is what was admitted in (now-length, now]. What is older is forgotten: the
// window never gets longer.
func (w *window) sum(now time.Duration) (tokens int64) {
	n := 0
	for ; n < len(w.admitted) && w.admitted[n].at <= now-w.length; n++ {
		w.total = w.total.minus(product(w.admitted[n].tokens, 1))
	}
	w.admitted = w.admitted[n:]
	tokens, _ = w.total.divide(1)
	return tokens
}

// calendar is a fixed window, with all periods that it was in.
type calendar struct {
	limit  int64
	counts []count
}

// count is what a period has admitted, by when it began.
type count struct{ began, tokens int64 }

// admit is by how much the period is above the limit.
func (c *calendar) admit(began, tokens int64) (over int64) {
	at := slices.IndexFunc(c.counts, func(n count) bool { return n.began == began })
	if at < 0 {
		at = len(c.counts)
		c.counts = append(c.counts, count{began: began})
	}
	c.counts[at].tokens = plus(c.counts[at].tokens, tokens)
	return max(0, c.counts[at].tokens-c.limit)
}

// of is what the period has admitted.
func (c *calendar) of(began int64) int64 {
	for _, n := range c.counts {
		if n.began == began {
			return n.tokens
		}
	}
	return 0
}

// keep forgets all periods but one, which has another beginning from now on.
func (c *calendar) keep(began, is int64) {
	tokens := c.of(began)
	c.counts = c.counts[:0]
	if tokens > 0 {
		c.counts = append(c.counts, count{is, tokens})
	}
}
