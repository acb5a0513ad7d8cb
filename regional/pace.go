package regional

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/turns"
)

// longestWait bounds every wait for a turn.
const longestWait = pb.MaxCheckWaitMillis * time.Millisecond

// turn is how a request waits for its turn.
type turn struct {
	maxWait time.Duration
	high    bool
}

// queued is one job in line.
type queued struct {
	limiter *Limiter
	job     job
	turn    *turns.Turn[lease.Key]
	place   place
	began   time.Duration
	limit   *time.Timer // at the end of what the request lets it wait
	until   time.Duration
}

// inTurn decides a job that may wait for its turn: in line with others that wait
// for the same key, of whom only the first tries. One whose earliest retry is known
// to be beyond its time, or that no wait can help, is answered at once, and one that
// finds no place in line is decided as one that does not wait.
//
// Checks that do not wait stand in no line: they take what credit they find.
func (l *Limiter) inTurn(ctx context.Context, j job, key lease.Key, t turn) decision.Answer {
	q := &queued{limiter: l, job: j, began: l.cfg.Clock.Mono()}
	q.until = q.began + min(t.maxWait, longestWait)
	if end, ok := ctx.Deadline(); ok {
		q.until = min(q.until, q.began+max(0, end.Sub(l.cfg.Clock.Now())))
	}
	if !l.lines.Any(key) {
		if d, watch, decided := j.attempt(); decided && !q.worth(&d, watch) {
			return d
		}
	}
	place, ok := l.lines.Join(key, t.high)
	if !ok {
		l.obs.counters["queue_refusals_total"].Inc()
		return l.await(ctx, j)
	}
	q.turn = place
	defer q.end()
	q.limit = l.cfg.Clock.Timer(q.until - q.began)
	return q.run(ctx)
}

// end leaves the line, if run has not.
func (q *queued) end() {
	q.turn.Leave(false)
	q.place.leave()
	q.limit.Stop()
	q.limiter.obs.waitSeconds.Observe((q.limiter.cfg.Clock.Mono() - q.began).Seconds())
}

func (q *queued) run(ctx context.Context) decision.Answer {
	for {
		if !q.turn.First() {
			q.place.leave()
			if over := q.sleep(ctx, nil, nil); over.problem != "" {
				return q.job.giveUp(over)
			}
			continue
		}
		news := q.place.news()
		d, watch, decided := q.job.attempt()
		if decided && !q.worth(&d, watch) {
			q.turn.Leave(d.Allowed)
			return d
		}
		if q.place.take(watch) {
			continue
		}
		if over := q.await(ctx, news, &d, decided, watch); over.problem != "" {
			return q.job.giveUp(over)
		}
	}
}

// await lets the first in line wait for news of its budget, or for the time at
// which the budget is known to have enough. Before the limiter is registered there is
// nobody to wait for: then it waits no longer than others do for a first grant.
func (q *queued) await(ctx context.Context, news <-chan struct{}, d *decision.Answer, decided bool, watch *claim) ending {
	wait := d.RetryIn
	switch {
	case !decided && !q.limiter.Ready():
		wait = q.began + q.limiter.cfg.FirstGrantWait - q.limiter.cfg.Clock.Mono()
		if wait <= 0 {
			return ending{problem: noAnswer, since: q.began, timeUp: true, inLine: true}
		}
	case !d.HasRetry:
		return q.sleep(ctx, news, nil)
	}
	retry := q.limiter.cfg.Clock.Timer(wait)
	defer retry.Stop()
	over := q.sleep(ctx, news, retry.C)
	watch.budget.Signal() // it may be time to ask for more
	return over
}

// sleep waits until there is reason to look again. It returns why there is none to
// wait any longer.
func (q *queued) sleep(ctx context.Context, news <-chan struct{}, retry <-chan time.Time) ending {
	select {
	case <-q.turn.Changed():
	case <-news:
	case <-retry:
	case <-q.limit.C:
		return ending{problem: noTurn, since: q.began, timeUp: true, inLine: true}
	case <-ctx.Done():
		return ending{problem: callerLeft, since: q.began, inLine: true}
	}
	return ending{}
}

// worth says that the denial d ends within the job's time, as far as is known: work
// in progress may end at any time.
func (q *queued) worth(d *decision.Answer, watch *claim) bool {
	if d.Allowed || d.Reason != pb.Reason_REASON_EXHAUSTED {
		return false
	}
	if d.HasRetry {
		return q.limiter.cfg.Clock.Mono()+d.RetryIn <= q.until
	}
	o := watch.budget.Outlook()
	return o != nil && o.Policy != nil && o.Policy.Rule.Kind == lease.Concurrency
}
