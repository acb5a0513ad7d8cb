package decisions

import (
	"fmt"
	"slices"
	"time"
)

// Judge judges what was read.
//
// Errors: a log contradicts itself, a limiter's clock was set by more than
// Options.MaxClockError, or temporary files fail.
func (j *Judgement) Judge() (*Report, error) {
	r := &j.report
	if err := j.clocks(); err != nil {
		return nil, err
	}
	budgets := make([]*budget, len(j.keys))
	for i, info := range j.keys {
		budgets[i] = newBudget(info, j.opts.MaxClockError)
	}
	var last event
	err := j.events.each(func(e *event) {
		if e.compare(&last) == 0 {
			j.order[e.log].dropped++
			return
		}
		last = *e
		b := budgets[e.key]
		had := b.violation != nil
		b.take(e)
		if b.violation != nil && !had {
			b.violation.Log = j.order[e.log].id
			r.Violating++
			if len(r.Violations) < maxListed {
				r.Violations = append(r.Violations, Violation{})
				b.listed = len(r.Violations)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("the logs cannot be sorted: %w", err)
	}
	if err := j.repeats(); err != nil {
		return nil, err
	}
	for _, b := range budgets {
		if b.listed > 0 {
			r.Violations[b.listed-1] = b.told()
		}
		b.notes(r)
	}
	r.Budgets = len(budgets)
	j.completeness()
	return r, nil
}

// clocks refuses logs whose clocks were set: what their lines say of time is worth no
// more than that.
func (j *Judgement) clocks() error {
	for _, s := range j.order {
		if moved := time.Duration(s.most - s.least); moved > 2*j.opts.MaxClockError+clockStep {
			return fmt.Errorf("the wall clock of %s/%s was set by %v while it wrote log %s: judge with a clock error of %v or more",
				s.region, s.instance, moved.Round(time.Millisecond), s.id, moved.Round(time.Millisecond))
		}
	}
	return nil
}

// repeats refuses logs in which one number stands for two lines.
func (j *Judgement) repeats() error {
	for _, s := range j.order {
		if s.repeated != s.dropped {
			return fmt.Errorf("log %s of %s/%s has two lines of one number that differ: it was changed", s.id, s.region, s.instance)
		}
	}
	return nil
}

// completeness says what is missing.
func (j *Judgement) completeness() {
	r := &j.report
	r.Complete = len(j.order) > 0
	for _, s := range j.order {
		missing, where := s.missing()
		r.Logs = append(r.Logs, Log{
			ID: s.id, Region: s.region, Instance: s.instance, Epoch: s.epoch, Sample: s.sample, First: s.first, Last: s.last, Missing: missing,
		})
		name := fmt.Sprintf("log %s of %s/%s", s.id, s.region, s.instance)
		switch {
		case s.sample < 1:
			r.Complete = false
			r.note("%s is sampled: it has %v of the decisions, and cannot prove that all conform", name, s.sample)
		case missing > 0:
			r.Complete = false
			r.note("%s lacks %d lines, the first of them %s: was an older file left out, or was its disk full?", name, missing, where)
		case len(s.seen.runs) == 0:
			r.note("%s has no decision: nothing of that limiter is judged", name)
		}
	}
	slices.SortFunc(r.Logs, func(a, b Log) int { return a.First.Compare(b.First) })
	slices.SortFunc(r.Violations, func(a, b Violation) int { return a.First.Compare(b.First) })
}
