package regional

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// job is what is decided at once: a claim, or several.
type job interface {
	// attempt decides by what is known here. Where only news can tell, or waiting
	// could help, watch is the claim that it is about.
	attempt() (d decision.Answer, watch *claim, decided bool)
	// giveUp decides what waits no longer.
	giveUp(ending) decision.Answer
}

// await decides a job, waiting for the broker's word where need be: at most
// Config.FirstGrantWait, and no longer than ctx. Waiting checks are bounded in
// number.
func (l *Limiter) await(ctx context.Context, j job) decision.Answer {
	w := wait{limiter: l}
	defer w.end()
	for {
		news := w.place.news()
		d, watch, decided := j.attempt()
		if decided {
			return d
		}
		if over := w.next(ctx, news, watch); over.problem != "" {
			return j.giveUp(over)
		}
	}
}

// wait is one check that waits for news of a budget.
type wait struct {
	limiter *Limiter
	place   place
	since   time.Duration // monotonic time at which it began to wait
	timer   *time.Timer   // nil before
	counted bool
}

// next registers the claim, where it is not registered yet, or waits for news. It
// returns why the wait is over without any.
func (w *wait) next(ctx context.Context, news <-chan struct{}, c *claim) ending {
	if w.timer == nil {
		l := w.limiter
		w.since = l.cfg.Clock.Mono()
		w.timer = l.cfg.Clock.Timer(l.cfg.FirstGrantWait)
		w.counted = l.waiters.Add(1) <= int64(l.cfg.MaxWaiters)
		if !w.counted {
			l.waiters.Add(-1)
			return ending{problem: tooManyWait, since: w.since}
		}
	}
	if w.place.take(c) {
		return ending{}
	}
	select {
	case <-news:
		return ending{}
	case <-w.timer.C:
		return ending{problem: noAnswer, since: w.since, timeUp: true}
	case <-ctx.Done():
		return ending{problem: callerLeft, since: w.since}
	}
}

func (w *wait) end() {
	w.place.leave()
	if w.timer == nil {
		return
	}
	w.timer.Stop()
	if w.counted {
		w.limiter.waiters.Add(-1)
	}
	w.limiter.obs.waitSeconds.Observe((w.limiter.cfg.Clock.Mono() - w.since).Seconds())
}

// place is what the manager knows of one that waits: for which budget and what
// cost. It tells the manager what to ask for.
type place struct {
	budget *holder.Budget // nil: none is taken
	cost   int64
}

// take makes the place that of the claim, and says whether it changed: then look
// again before waiting, since news may have come before.
func (p *place) take(c *claim) (changed bool) {
	if p.budget == c.budget && p.cost == c.tokens {
		return false
	}
	p.leave()
	if _, ok := c.budget.Wait(c.tokens); !ok {
		c.budget = c.limiter.known(c.key) // it was retired in between
		return true
	}
	p.budget, p.cost = c.budget, c.tokens
	c.budget.Signal()
	return true
}

// news is the channel that is closed at the next news of the place's budget.
func (p *place) news() <-chan struct{} {
	if p.budget == nil {
		return nil
	}
	return p.budget.News()
}

func (p *place) leave() {
	if p.budget != nil {
		p.budget.Leave(p.cost)
		p.budget = nil
	}
}
