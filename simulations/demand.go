package simulations

import (
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// patience is how long a check waits for credit, in a swarm.
const patience = 2 * time.Second

// budget is one budget in a process, with the checks that wait for it.
type budget struct {
	*holder.Budget
	waiting []*waiter
}

type waiter struct {
	cost    int64
	since   time.Duration // on the process's monotonic clock
	until   time.Duration
	news    <-chan struct{}
	patient bool // only credit ends it
	plan    plan
	holds   bool // slots, since it was admitted
	done    func(pb.Reason)
}

// end tells how a check has ended.
func (c *waiter) end(reason pb.Reason) {
	if c.done != nil {
		c.done(reason)
	}
}

// budget is the process's budget of the key, made at first use.
func (p *process) budget(key int) *budget {
	if p.budgets[key] == nil {
		p.budgets[key] = &budget{Budget: holder.NewBudget(p.w.keys[key], p.signals)}
	}
	return p.budgets[key]
}

// demand checks now and again, with pauses in which the budget goes idle.
func (p *process) demand(key int) {
	w := p.w
	pause := w.paced(0, 2*w.cfg.Think, w.cfg.Pace)
	if w.rng.IntN(12) == 0 {
		pause = w.between(0, 8*time.Second)
	}
	w.after(pause, "check", p.name, int64(key), func() {
		if !p.alive || w.quiet {
			return
		}
		p.demand(key)
		if !p.paused() {
			p.check(key, 1+w.rng.Int64N(max(1, w.cfg.Policies[w.rules[key]].Rule.Capacity)), nil)
		}
	})
}

// check is what the limiter does for one request: spend, or tell why not, or
// wait. done may be nil.
func (p *process) check(key int, cost int64, done func(pb.Reason)) {
	p.start(key, &waiter{cost: cost, until: p.w.now + p.site.wait, done: done, plan: p.plan()})
}

// await is a check that waits until it is admitted.
func (p *process) await(key int, cost int64, done func(pb.Reason)) {
	p.start(key, &waiter{cost: cost, patient: true, done: done, plan: plan{lasts: time.Second}})
}

// plan is what the next check will do if it is admitted.
func (p *process) plan() plan {
	if p.w.stage != nil || p.w.cfg.Work == 0 {
		return plan{}
	}
	return p.w.drawPlan()
}

func (p *process) start(key int, c *waiter) {
	b := p.budget(key)
	defer p.signaled()
	if p.spend(key, b, c) {
		return
	}
	if b.Stale() {
		p.w.stats.Stale++
	}
	if p.judge(b, c) {
		return
	}
	news, ok := b.Wait(c.cost)
	if !ok {
		if p.budgets[key] == b {
			p.budgets[key] = nil
		}
		p.start(key, c)
		return
	}
	c.news, c.since = news, p.mono()
	b.waiting = append(b.waiting, c)
	b.Signal()
	p.waiting++
	if !c.patient {
		p.w.after(p.site.wait, "impatient", p.name, int64(key), p.wakeWaiting)
	}
}

// spend admits the check if there is credit.
func (p *process) spend(key int, b *budget, c *waiter) bool {
	if !p.spends(key, b, c) {
		return false
	}
	c.end(pb.Reason_REASON_ALLOWED)
	return true
}

// judge says that the check is answered without credit.
func (p *process) judge(b *budget, c *waiter) bool {
	if c.patient {
		return false
	}
	p.lapse()
	b.Expire(p.mono())
	v := b.Judge(c.cost, p.mono())
	if v.Reason == pb.Reason_REASON_UNSPECIFIED {
		return false
	}
	p.denied(v.Reason)
	b.Denied()
	c.end(v.Reason)
	return true
}

// admitted shows an admission to the judge.
func (p *process) admitted(key int, cost int64) {
	w := p.w
	w.stats.Admitted += cost
	if w.stage != nil && !w.healed {
		return // the recorder shows it to the judge
	}
	if err := w.judges[key].Admit(w.now, cost); err != nil {
		w.failf("%s, admitted by %s: %v", w.keys[key].Operation, p.name, err)
	}
	p.crashPoint()
}

// signaled steps the manager if the hot path has asked for it.
func (p *process) signaled() {
	select {
	case <-p.signals.Wake():
		p.soon()
	default:
	}
}

// wakeWaiting lets the checks that have news look again; those of a greedy site
// take all that there is.
func (p *process) wakeWaiting() {
	if !p.alive || p.paused() || p.waiting == 0 && !p.site.greedy {
		return
	}
	defer p.signaled()
	for key, b := range p.budgets {
		if b == nil || len(b.waiting) == 0 && !p.site.greedy {
			continue
		}
		waiting := b.waiting
		b.waiting = nil
		for _, waits := range waiting {
			if !p.again(key, b, waits) {
				b.waiting = append(b.waiting, waits)
			}
		}
		for p.site.greedy && p.alive && !p.w.quiet && p.spends(key, b, &waiter{cost: 1, plan: p.plan()}) {
			continue
		}
	}
}

// again looks at a check that waits, and says that it does no longer.
func (p *process) again(key int, b *budget, c *waiter) bool {
	select {
	case <-c.news:
		if p.spend(key, b, c) || p.judge(b, c) {
			p.leave(b, c)
			return true
		}
		c.news = b.News()
	default:
	}
	if c.patient || p.w.now < c.until {
		return false
	}
	p.leave(b, c)
	reason := b.Unanswered(c.since)
	p.denied(reason)
	c.end(reason)
	return true
}

// leave ends the wait of a check.
func (p *process) leave(b *budget, c *waiter) {
	p.waiting--
	b.Leave(c.cost)
}

// denied counts a check that was not admitted.
func (p *process) denied(reason pb.Reason) {
	if reason == pb.Reason_REASON_EXHAUSTED {
		p.w.stats.Denied++
	} else {
		p.w.stats.Unavailable++
	}
}
