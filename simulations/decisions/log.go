package decisions

import (
	"fmt"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/regional/decisionlog"
)

// logState is what is known of one log: one start of one limiter.
type logState struct {
	index            int
	id               string
	region, instance string
	epoch            uint64
	sample           float64
	first, last      time.Time
	seen             numbers
	lost             uint64
	repeated         int   // events of lines that were seen before
	dropped          int   // of these, what turned out to be the same
	least, most      int64 // of the wall clock less the monotonic one
}

// logOf is the log of the line.
func (j *Judgement) logOf(l *decisionlog.Line) (*logState, error) {
	s := j.logs[l.Log]
	if s == nil {
		s = &logState{index: len(j.order), id: l.Log, region: l.Region, instance: l.Instance, sample: l.Sample, first: l.Time, last: l.Time}
		s.least = l.Time.UnixNano() - l.MonoNs
		s.most = s.least
		j.logs[l.Log] = s
		j.order = append(j.order, s)
	}
	if s.region != l.Region || s.instance != l.Instance || s.sample != l.Sample {
		return nil, fmt.Errorf("log %s is of %s/%s and of sample %v elsewhere: the line was changed", l.Log, s.region, s.instance, s.sample)
	}
	return s, nil
}

// see takes what every line tells.
func (s *logState) see(l *decisionlog.Line) {
	if l.Time.Before(s.first) {
		s.first = l.Time
	}
	if l.Time.After(s.last) {
		s.last = l.Time
	}
	ahead := l.Time.UnixNano() - l.MonoNs
	s.least, s.most = min(s.least, ahead), max(s.most, ahead)
	s.epoch = max(s.epoch, l.Epoch)
	s.lost += l.Lost
}

// missing are the numbers below the highest that were not read.
func (s *logState) missing() (count uint64, where string) {
	next := uint64(1)
	for _, r := range s.seen.runs {
		if r.from > next {
			count += r.from - next
			if where == "" {
				where = fmt.Sprintf("%d to %d", next, r.from-1)
			}
		}
		next = r.to + 1
	}
	return count, where
}

// numbers is a set of them, small where few are missing.
type numbers struct{ runs []interval }

// interval has from and to in it.
type interval struct{ from, to uint64 }

// add says if n was in it already.
func (s *numbers) add(n uint64) (had bool) {
	at, _ := slices.BinarySearchFunc(s.runs, n, func(r interval, n uint64) int {
		switch {
		case r.to < n:
			return -1
		case r.from > n:
			return 1
		}
		return 0
	})
	switch {
	case at < len(s.runs) && s.runs[at].from <= n:
		return true
	case at > 0 && s.runs[at-1].to+1 == n:
		s.runs[at-1].to = n
		if at < len(s.runs) && s.runs[at].from == n+1 {
			s.runs[at-1].to = s.runs[at].to
			s.runs = slices.Delete(s.runs, at, at+1)
		}
	case at < len(s.runs) && s.runs[at].from == n+1:
		s.runs[at].from = n
	default:
		s.runs = slices.Insert(s.runs, at, interval{n, n})
	}
	return false
}
