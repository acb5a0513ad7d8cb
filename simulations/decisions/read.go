package decisions

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
)

// MaxLineBytes bounds a line of a log.
const MaxLineBytes = 1 << 20

// clockStep is by how much a limiter's wall clock may move against its monotonic one
// without a word: readings of the two are some time apart on a busy machine.
const clockStep = 250 * time.Millisecond

// Options of a judgement.
type Options struct {
	// MaxClockError is by how much any limiter's wall clock may have been off, ahead or
	// behind. 0: they all agree to the nanosecond, as on one machine.
	MaxClockError time.Duration
	// TempDir is where logs are sorted that do not fit in memory; empty: the system's.
	TempDir string
}

// Judgement reads logs and then judges them. It belongs to one goroutine.
type Judgement struct {
	opts   Options
	report Report
	logs   map[string]*logState
	order  []*logState
	byKey  map[lease.Key]int
	keys   []*keyInfo
	events *sorter
}

// New is a judgement that has read nothing yet. Close it.
func New(opts Options) *Judgement {
	return &Judgement{
		opts: opts, logs: map[string]*logState{}, byKey: map[lease.Key]int{},
		events: &sorter{dir: opts.TempDir, most: inMemory},
	}
}

// Close removes the temporary files.
func (j *Judgement) Close() error { return j.events.close() }

// keyInfo is what reading gathers of a budget.
type keyInfo struct {
	key      lease.Key
	versions map[int64]*version
	took     time.Duration // the longest of any line
}

// version is a policy version of a budget, as its lines tell it.
type version struct {
	rule    lease.Rule
	applied int64 // by a broker's wall clock, in nanoseconds since 1970; 0: not told
	first   int64 // its first line
}

// LineError is a line that cannot be read.
type LineError struct {
	File string
	Line int
	Err  error
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap is what is wrong with it.
func (e *LineError) Unwrap() error { return e.Err }

// Read takes one log, or several that were put together; name is for messages.
//
// Errors: a *LineError for the first line that is none of a decision log, or
// contradicts another; those of in. A last line that is cut off is none: the report
// tells.
func (j *Judgement) Read(name string, in io.Reader) error {
	reader := bufio.NewReaderSize(in, MaxLineBytes)
	for number := 1; ; number++ {
		text, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return &LineError{name, number, fmt.Errorf("it has more than %d bytes", MaxLineBytes)}
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if fault := j.line(text); fault != nil {
				if err == nil {
					return &LineError{name, number, fault}
				}
				j.report.note("%s:%d: the last line is cut off, as when a limiter is killed or the file is copied while it is written: it is left out", name, number)
				j.report.Torn++
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the end
		}
	}
}

func (j *Judgement) line(text []byte) error {
	l, err := decisionlog.Parse(text)
	if err != nil {
		return err
	}
	if y := l.Time.Year(); y < 1970 || y > 2200 {
		return fmt.Errorf("its time is of the year %d", y)
	}
	state, err := j.logOf(l)
	if err != nil {
		return err
	}
	state.see(l)
	if l.What != decisionlog.Decision && l.What != decisionlog.Settlement {
		return nil
	}
	repeated := state.seen.add(l.Order)
	if !repeated {
		j.count(l)
	}
	info, err := j.keyOf(l)
	if err != nil {
		return err
	}
	for _, e := range j.eventsOf(l, info, state) {
		if repeated {
			state.repeated++
		}
		if err := j.events.add(e); err != nil {
			return err
		}
	}
	return nil
}

// count adds a line that was not seen before to the report.
func (j *Judgement) count(l *decisionlog.Line) {
	j.report.Lines++
	switch {
	case l.What == decisionlog.Settlement, l.Replayed:
	case l.Spent():
		j.report.Admissions++
	case l.Allowed && l.Cost > 0:
		j.report.Beside++
		j.report.BesideTokens = lease.MaxCounter - max(0, lease.MaxCounter-j.report.BesideTokens-l.Cost)
	default:
		j.report.Denials++
	}
}

// keyOf notes the policy version of the line.
func (j *Judgement) keyOf(l *decisionlog.Line) (int, error) {
	at, ok := j.byKey[l.Key()]
	if !ok {
		at = len(j.keys)
		j.byKey[l.Key()] = at
		j.keys = append(j.keys, &keyInfo{key: l.Key(), versions: map[int64]*version{}})
	}
	info := j.keys[at]
	if l.Spent() || l.What == decisionlog.Settlement {
		info.took = max(info.took, time.Duration(l.TookNs))
	}
	if l.Rule == nil || l.What != decisionlog.Decision || l.Replayed {
		return at, nil
	}
	when := l.Time.UnixNano()
	v := info.versions[l.Rule.Version]
	if v == nil {
		v = &version{rule: *l.Rule, first: when}
		info.versions[l.Rule.Version] = v
	}
	if v.rule != *l.Rule {
		return at, fmt.Errorf("it says of version %d of the policy for %q what another line contradicts: the logs are of different clusters, or were changed", l.Rule.Version, l.Operation)
	}
	v.first = min(v.first, when)
	if l.PolicyUnixMs > 0 && l.PolicyUnixMs < math.MaxInt64/2_000_000 {
		v.applied = l.PolicyUnixMs * int64(time.Millisecond)
	}
	return at, nil
}

// eventsOf is what the line means for the budget. Slots are free again as early as
// they can have been.
func (j *Judgement) eventsOf(l *decisionlog.Line, key int, state *logState) []event {
	e := event{at: l.Time.UnixNano(), log: state.index, order: l.Order, key: key, tokens: l.Cost, returned: l.Returned, reservation: l.ReservationHash}
	slots := l.Rule != nil && l.Rule.Kind == lease.Concurrency
	early := e.at - l.TookNs - 2*int64(j.opts.MaxClockError)
	switch {
	case l.What == decisionlog.Settlement:
		e.what = settle
		if slots {
			e.at = early
		}
		return []event{e}
	case !l.Spent() || l.Cost == 0:
		return nil
	case l.ReservationHash == "":
		e.what = admit
		return []event{e}
	}
	e.what = reserve
	over := e
	over.what, over.at = expire, plus(early, l.HoldNs)
	return []event{e, over}
}

func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
