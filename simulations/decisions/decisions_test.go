package decisions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
	"github.com/tokenlease/tokenlease/simulations/decisions"
)

// start is the first moment of every test, on a Tuesday at noon in UTC.
var start = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

// worked is the worked example.
var worked = lease.Rule{
	Kind: lease.TokenBucket, Version: 1, Capacity: 40, Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 100,
}

// scribe writes the log of one limiter.
type scribe struct {
	region string
	ahead  time.Duration // of its wall clock
	sample float64
	order  uint64
	lines  []decisionlog.Line
}

func newScribe(region string) *scribe { return &scribe{region: region, sample: 1} }

// write adds a line of the moment.
func (s *scribe) write(at time.Duration, rule lease.Rule, change ...func(*decisionlog.Line)) {
	s.order++
	l := decisionlog.Line{
		What: decisionlog.Decision, Log: "log-" + s.region, Order: s.order, Time: start.Add(at + s.ahead), MonoNs: int64(at),
		Region: s.region, Instance: "limiter-0", Epoch: 1, Sample: s.sample, Account: "acme", Operation: "report.create",
		Allowed: true, Reason: "allowed", PolicyVersion: rule.Version, Rule: &rule,
	}
	for _, f := range change {
		f(&l)
	}
	s.lines = append(s.lines, l)
}

func cost(tokens int64) func(*decisionlog.Line) {
	return func(l *decisionlog.Line) { l.Cost = tokens }
}

func took(d time.Duration) func(*decisionlog.Line) {
	return func(l *decisionlog.Line) { l.TookNs = int64(d) }
}

func denied(l *decisionlog.Line) { l.Allowed, l.Reason = false, "exhausted" }

// held makes the line one of a reservation.
func held(id string, d time.Duration) func(*decisionlog.Line) {
	return func(l *decisionlog.Line) { l.ReservationHash, l.HoldNs = id, int64(d) }
}

// settled makes the line the end of a reservation.
func settled(id string, returned int64) func(*decisionlog.Line) {
	return func(l *decisionlog.Line) {
		l.What, l.Reason, l.ReservationHash, l.Returned = decisionlog.Settlement, "", id, returned
	}
}

// text is the log as a file.
func (s *scribe) text() string {
	var b strings.Builder
	for _, l := range s.lines {
		line, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// judge judges files.
func judge(t *testing.T, opts decisions.Options, files ...string) *decisions.Report {
	t.Helper()
	r, err := tryJudge(t, opts, files...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryJudge(t *testing.T, opts decisions.Options, files ...string) (*decisions.Report, error) {
	t.Helper()
	j := decisions.New(opts)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, text := range files {
		if err := j.Read(fmt.Sprintf("file-%d", i), strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return j.Judge()
}

// clean wants no violation, and nothing missing.
func clean(t *testing.T, r *decisions.Report) {
	t.Helper()
	if r.Violating != 0 || !r.Complete {
		t.Errorf("want it clean: %+v", r)
	}
}

// violated wants one violation, first proven at a moment and of an excess.
func violated(t *testing.T, r *decisions.Report, at time.Duration, tokens int64) {
	t.Helper()
	if r.Violating != 1 || len(r.Violations) != 1 {
		t.Fatalf("want one violation: %+v", r)
	}
	v := r.Violations[0]
	if v.Account != "acme" || v.Operation != "report.create" || !v.First.Equal(start.Add(at)) || v.Tokens != tokens {
		t.Errorf("want %d tokens too many at %v: %+v", tokens, start.Add(at), v)
	}
}

// Eight of 5 are the bucket's 40, whichever region admits them; a ninth is one too
// many until a quarter of a second has passed.
func TestBucketOfTwoRegions(t *testing.T) {
	for _, tc := range []struct {
		ninth time.Duration
		over  int64
	}{{0, 5}, {time.Millisecond, 5}, {100 * time.Millisecond, 3}, {249 * time.Millisecond, 1}, {250 * time.Millisecond, 0}} {
		eu, us := newScribe("eu"), newScribe("us")
		for range 4 {
			eu.write(0, worked, cost(5))
			us.write(0, worked, cost(5))
		}
		us.write(0, worked, cost(5), denied)
		us.write(tc.ninth, worked, cost(5))
		r := judge(t, decisions.Options{}, eu.text(), us.text())
		if tc.over == 0 {
			clean(t, r)
		} else {
			violated(t, r, tc.ninth, tc.over)
		}
		if r.Admissions != 9 || r.Denials != 1 || len(r.Logs) != 2 || r.Budgets != 1 {
			t.Errorf("miscounted: %+v", r)
		}
	}
}

// One region alone is within its bounds: only together they are not.
func TestOneLogIsNotAll(t *testing.T) {
	eu, us := newScribe("eu"), newScribe("us")
	for range 5 {
		eu.write(0, worked, cost(5))
		us.write(0, worked, cost(5))
	}
	clean(t, judge(t, decisions.Options{}, eu.text()))
	violated(t, judge(t, decisions.Options{}, eu.text(), us.text()), 0, 5)
}

// Each kind, at its bound and one beyond.
func TestKindsAtTheirBounds(t *testing.T) {
	window := lease.Rule{Kind: lease.RollingWindow, Version: 1, Capacity: 3, Window: time.Minute, MaxSharePercent: 100}
	fixed := lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 3, Period: lease.Minute, Zone: "UTC", MaxSharePercent: 100}
	quota := lease.Rule{Kind: lease.TokenBucket, Version: 1, Capacity: 3, MaxSharePercent: 100}
	for _, tc := range []struct {
		name string
		rule lease.Rule
		at   []int // of admissions of 1, in seconds
		over int
	}{
		{"a window that has moved on", window, []int{0, 10, 20, 60, 70, 80}, -1},
		{"a window with a fourth", window, []int{0, 10, 20, 59}, 3},
		{"a period and the next", fixed, []int{57, 58, 59, 60, 61, 62}, -1},
		{"a period with a fourth", fixed, []int{0, 1, 2, 59}, 3},
		{"the second period with a fourth", fixed, []int{59, 60, 61, 62, 119}, 4},
		{"a quota", quota, []int{0, 1000, 2000}, -1},
		{"a quota used up", quota, []int{0, 1000, 2000, 900000}, 3},
	} {
		s := newScribe("eu")
		for _, at := range tc.at {
			s.write(time.Duration(at)*time.Second, tc.rule, cost(1))
		}
		r := judge(t, decisions.Options{}, s.text())
		if tc.over < 0 {
			if r.Violating != 0 {
				t.Errorf("%s: %+v", tc.name, r.Violations)
			}
			continue
		}
		violated(t, r, time.Duration(tc.at[tc.over])*time.Second, 1)
	}
}

// Slots count until they are settled, or their time is over.
func TestSlots(t *testing.T) {
	two := lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 2, MaxSharePercent: 100}
	s := newScribe("eu")
	s.write(0, two, cost(1), held("a", 10*time.Second))
	s.write(time.Second, two, cost(1), held("b", 10*time.Second))
	s.write(2*time.Second, two, settled("a", 0))
	s.write(3*time.Second, two, cost(1), held("c", 10*time.Second))
	s.write(11*time.Second, two, cost(1), held("d", 10*time.Second)) // b's time is over
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(12*time.Second, two, cost(1), held("e", 10*time.Second))
	violated(t, judge(t, decisions.Options{}, s.text()), 12*time.Second, 1)
}

// Work that ends in the moment in which it began holds nothing.
func TestShortestReservations(t *testing.T) {
	two := lease.Rule{Kind: lease.Concurrency, Version: 1, Capacity: 2, MaxSharePercent: 100}
	s := newScribe("eu")
	for i := range 3000 {
		id, at := fmt.Sprint(i), time.Duration(i)*time.Microsecond
		s.write(at, two, cost(1), held(id, time.Hour))
		s.write(at, two, settled(id, 0), took(time.Microsecond))
	}
	for _, e := range []time.Duration{0, time.Millisecond} {
		clean(t, judge(t, decisions.Options{MaxClockError: e}, s.text()))
	}
	for i := range 3 {
		s.write(time.Second, two, cost(1), held(fmt.Sprintf("last-%d", i), time.Hour))
	}
	violated(t, judge(t, decisions.Options{}, s.text()), time.Second, 1)

	tokens := newScribe("eu")
	for i := range 9 {
		tokens.write(0, worked, cost(7), held(fmt.Sprint(i), time.Hour))
		tokens.write(0, worked, settled(fmt.Sprint(i), 2), cost(5))
	}
	violated(t, judge(t, decisions.Options{}, tokens.text()), 0, 5)
}

// A reservation counts by what its work has cost, when it is settled.
func TestReservationsCountWhenTheyAreSettled(t *testing.T) {
	s := newScribe("eu")
	s.write(0, worked, cost(40), held("a", time.Minute))
	s.write(100*time.Millisecond, worked, settled("a", 30), cost(10))
	for range 6 {
		s.write(100*time.Millisecond, worked, cost(5))
	}
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(100*time.Millisecond, worked, cost(5))
	violated(t, judge(t, decisions.Options{}, s.text()), 100*time.Millisecond, 5)

	expired := newScribe("eu") // nobody knows what it has cost
	expired.write(0, worked, cost(40), held("a", time.Second))
	for range 8 {
		expired.write(2*time.Second, worked, cost(5))
	}
	clean(t, judge(t, decisions.Options{}, expired.text()))

	ended := newScribe("eu") // its grant had ended: nothing came back, and 40 counted as spent before
	ended.write(0, worked, cost(40), held("a", time.Minute))
	for range 8 {
		ended.write(10*time.Second, worked, cost(5))
	}
	ended.write(10*time.Second, worked, settled("a", 0), cost(10))
	clean(t, judge(t, decisions.Options{}, ended.text()))
}

// What a policy admits beyond its rule is counted apart.
func TestBesideTheCredit(t *testing.T) {
	s := newScribe("eu")
	for range 8 {
		s.write(0, worked, cost(5))
	}
	s.write(0, worked, cost(5), func(l *decisionlog.Line) { l.Reason = "fallback" })
	s.write(0, worked, cost(7), func(l *decisionlog.Line) { l.Reason, l.Shadow = "exhausted", true })
	s.write(0, worked, cost(5), func(l *decisionlog.Line) { l.Replayed = true })
	r := judge(t, decisions.Options{}, s.text())
	clean(t, r)
	if r.Beside != 2 || r.BesideTokens != 12 || r.Admissions != 8 {
		t.Errorf("miscounted: %+v", r)
	}
}

// Clocks that are off make an excess, which the declared error explains, and no more
// than that.
func TestClockError(t *testing.T) {
	eu, us := newScribe("eu"), newScribe("us")
	us.ahead = -100 * time.Millisecond // what it admits at 250 ms it logs as of 150 ms
	for range 8 {
		eu.write(0, worked, cost(5))
	}
	us.write(250*time.Millisecond, worked, cost(5))
	violated(t, judge(t, decisions.Options{}, eu.text(), us.text()), 150*time.Millisecond, 2)
	violated(t, judge(t, decisions.Options{MaxClockError: 49 * time.Millisecond}, eu.text(), us.text()), 150*time.Millisecond, 1)
	clean(t, judge(t, decisions.Options{MaxClockError: 50 * time.Millisecond}, eu.text(), us.text()))

	// A true excess is beyond what the error explains.
	us.write(250*time.Millisecond, worked, cost(5))
	violated(t, judge(t, decisions.Options{MaxClockError: 50 * time.Millisecond}, eu.text(), us.text()), 150*time.Millisecond, 5)
}

// A window's slack, and a boundary that cannot be told.
func TestClockErrorOfWindows(t *testing.T) {
	window := lease.Rule{Kind: lease.RollingWindow, Version: 1, Capacity: 1, Window: time.Second, MaxSharePercent: 100}
	s := newScribe("eu")
	s.write(0, window, cost(1))
	s.write(900*time.Millisecond, window, cost(1))
	violated(t, judge(t, decisions.Options{}, s.text()), 900*time.Millisecond, 1)
	clean(t, judge(t, decisions.Options{MaxClockError: 50 * time.Millisecond}, s.text()))
	r := judge(t, decisions.Options{MaxClockError: time.Second}, s.text())
	if len(r.Notes) != 1 || r.Notes[0] != "report.create of acme: the slack of 2s is as long as its window: it is not judged" {
		t.Errorf("notes %q", r.Notes)
	}

	fixed := lease.Rule{Kind: lease.FixedWindow, Version: 1, Capacity: 1, Period: lease.Minute, Zone: "UTC", MaxSharePercent: 100}
	border := newScribe("eu")
	border.write(59990*time.Millisecond, fixed, cost(1))
	border.write(60010*time.Millisecond, fixed, cost(1))
	border.write(70*time.Second, fixed, cost(1))
	violated(t, judge(t, decisions.Options{}, border.text()), 70*time.Second, 1)
	clean(t, judge(t, decisions.Options{MaxClockError: 20 * time.Millisecond}, border.text()))
}

// An admission counts at some moment while it was made: what took long is not
// accused of what others did meanwhile.
func TestWhatTookLong(t *testing.T) {
	s := newScribe("eu")
	s.write(250*time.Millisecond, worked, cost(40), took(250*time.Millisecond)) // taken at 0, perhaps
	s.write(250*time.Millisecond, worked, cost(5))
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(250*time.Millisecond, worked, cost(5))
	violated(t, judge(t, decisions.Options{}, s.text()), 250*time.Millisecond, 5)
}

// Lowering a capacity binds once no more can be out; raising it counts from when it
// was applied, though its first line comes later.
func TestPolicyChanges(t *testing.T) {
	lower := worked
	lower.Version, lower.Capacity = 2, 10
	s := newScribe("eu")
	s.write(0, worked, cost(1))
	s.write(time.Second, lower, cost(1))
	s.write(time.Second, worked, cost(38)) // was out, in a region that had not heard
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(3*time.Second, lower, cost(10)) // at most 10 can be there by now
	s.write(3*time.Second, lower, cost(1))
	violated(t, judge(t, decisions.Options{}, s.text()), 3*time.Second, 1)

	higher := worked
	higher.Version, higher.Capacity, higher.Refill.Tokens = 2, 100, 100
	applied := func(l *decisionlog.Line) { l.PolicyUnixMs = start.Add(time.Second).UnixMilli() }
	s = newScribe("eu")
	s.write(0, worked, cost(40))
	s.write(1900*time.Millisecond, worked, cost(90)) // refill of the new one, and the line says the old
	s.write(2*time.Second, higher, cost(1), applied)
	s.write(2*time.Second, higher, cost(19), applied)
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(2*time.Second, higher, cost(1), applied)
	violated(t, judge(t, decisions.Options{}, s.text()), 2*time.Second, 1)
}

// A change of kind starts anew, and is judged from there.
func TestKindChanges(t *testing.T) {
	window := lease.Rule{Kind: lease.RollingWindow, Version: 2, Capacity: 3, Window: time.Minute, MaxSharePercent: 100}
	s := newScribe("eu")
	s.write(0, worked, cost(40))
	s.write(time.Second, window, cost(1))
	s.write(2*time.Second, worked, cost(20)) // was out
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(3*time.Second, window, cost(40))
	r := judge(t, decisions.Options{}, s.text())
	if r.Violating != 1 || r.Violations[0].Rule != "3 in any 1m0s" {
		t.Errorf("%+v", r)
	}
}

// Files in any order, lines in any order, lines twice: all the same.
func TestAnyOrder(t *testing.T) {
	eu, us := newScribe("eu"), newScribe("us")
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Duration(0)
	for range 3000 {
		at += time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		[]*scribe{eu, us}[random.IntN(2)].write(at, worked, cost(1+random.Int64N(4)))
	}
	us.write(at, worked, cost(40))
	us.write(at, worked, cost(1))
	want, _ := json.Marshal(judge(t, decisions.Options{}, eu.text(), us.text()).Violations)
	if string(want) == "null" {
		t.Fatal("no violation was made")
	}
	lines := strings.SplitAfter(eu.text()+us.text(), "\n")
	lines = append(lines, lines[:500]...)
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	r := judge(t, decisions.Options{}, strings.Join(lines[1000:], ""), strings.Join(lines[:1000], ""))
	got, _ := json.Marshal(r.Violations)
	if !bytes.Equal(got, want) {
		t.Errorf("shuffled:\n%s\nin order:\n%s", got, want)
	}
	if r.Lines != 3002 || !r.Complete {
		t.Errorf("%+v", r)
	}
}

// What is missing is told, and whether anything is proven without it.
func TestIncomplete(t *testing.T) {
	full := newScribe("eu")
	for range 9 {
		full.write(0, worked, cost(5))
	}
	rest := func(from, to int) string {
		return (&scribe{lines: slices.Concat(full.lines[:from], full.lines[to:])}).text()
	}
	sampled := newScribe("us")
	sampled.sample = 0.5
	sampled.write(0, worked, cost(5))
	for _, tc := range []struct {
		name, text string
		violating  int
		note       string
	}{
		{"a hole", rest(2, 4), 0, "log log-eu of eu/limiter-0 lacks 2 lines, the first of them 3 to 4: was an older file left out, or was its disk full?"},
		{"no beginning", rest(0, 1), 0, "log log-eu of eu/limiter-0 lacks 1 lines, the first of them 1 to 1: was an older file left out, or was its disk full?"},
		{"sampled", sampled.text(), 0, "log log-us of us/limiter-0 is sampled: it has 0.5 of the decisions, and cannot prove that all conform"},
		{"sampled and violated", sampled.text() + full.text(), 1, "log log-us of us/limiter-0 is sampled: it has 0.5 of the decisions, and cannot prove that all conform"},
	} {
		r := judge(t, decisions.Options{}, tc.text)
		if r.Complete || r.Violating != tc.violating || !slices.Equal(r.Notes, []string{tc.note}) {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

// A last line that is cut off is told; one in the middle cannot be read.
func TestTornLines(t *testing.T) {
	s := newScribe("eu")
	s.write(0, worked, cost(5))
	s.write(0, worked, cost(5))
	text := s.text()
	cut := text[:len(text)-20]
	r := judge(t, decisions.Options{}, cut)
	clean(t, r)
	if r.Torn != 1 || r.Lines != 1 || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "file-0:2: the last line is cut off") {
		t.Errorf("%+v", r)
	}
	_, err := tryJudge(t, decisions.Options{}, cut+"\n"+text)
	var line *decisions.LineError
	if !errors.As(err, &line) || line.File != "file-0" || line.Line != 2 {
		t.Errorf("got %v", err)
	}
}

// Logs that contradict themselves are refused.
func TestRefusals(t *testing.T) {
	other := worked
	other.Capacity = 41
	for _, tc := range []struct {
		name  string
		write func(s *scribe)
		want  string
	}{
		{"one version, two rules", func(s *scribe) { s.write(0, other, cost(1)) },
			`file-0:2: it says of version 1 of the policy for "report.create" what another line contradicts: the logs are of different clusters, or were changed`},
		{"one number, two lines", func(s *scribe) { s.order--; s.write(0, worked, cost(6)) },
			"log log-eu of eu/limiter-0 has two lines of one number that differ: it was changed"},
		{"a clock that was set", func(s *scribe) { s.ahead = 3 * time.Second; s.write(0, worked, cost(1)) },
			"the wall clock of eu/limiter-0 was set by 3s while it wrote log log-eu: judge with a clock error of 3s or more"},
		{"another region", func(s *scribe) { s.region = "us"; s.write(0, worked, func(l *decisionlog.Line) { l.Log = "log-eu" }) },
			"file-0:2: log log-eu is of eu/limiter-0 and of sample 1 elsewhere: the line was changed"},
		{"no rule", func(s *scribe) { s.write(0, worked, func(l *decisionlog.Line) { l.Rule = nil }) }, `file-0:2: it is allowed and has no "rule"`},
		{"a negative cost", func(s *scribe) { s.write(0, worked, cost(-1)) }, "file-0:2: a cost or a duration is negative"},
		{"an unknown kind", func(s *scribe) { s.write(0, worked, func(l *decisionlog.Line) { l.What = "guess" }) },
			`file-0:2: its "what" is "guess", which this version does not know`},
		{"a time of long ago", func(s *scribe) { s.write(-100*366*24*time.Hour, worked) }, "file-0:2: its time is of the year 1925"},
		{"an unusable rule", func(s *scribe) { s.write(0, lease.Rule{Kind: "guess", Version: 1, MaxSharePercent: 100}) }, `file-0:2: its rule is not valid: rule kind "guess" is not known`},
	} {
		s := newScribe("eu")
		s.write(0, worked, cost(1))
		tc.write(s)
		if _, err := tryJudge(t, decisions.Options{}, s.text()); err == nil || err.Error() != tc.want {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
	if _, err := tryJudge(t, decisions.Options{}, `{"what":"decision"`+strings.Repeat(" ", decisions.MaxLineBytes)); err == nil ||
		err.Error() != "file-0:1: it has more than 1048576 bytes" {
		t.Errorf("got %v", err)
	}
}

// The largest numbers that a policy may have are judged, too.
func TestLargestNumbers(t *testing.T) {
	huge := lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: lease.MaxCapacity, MaxSharePercent: 100,
		Refill: lease.Rate{Tokens: lease.MaxCapacity, Interval: lease.MaxInterval},
	}
	s := newScribe("eu")
	s.write(0, huge, cost(lease.MaxCapacity))
	clean(t, judge(t, decisions.Options{}, s.text()))
	s.write(0, huge, cost(7))
	violated(t, judge(t, decisions.Options{}, s.text()), 0, 7)
}

// A caller may ask for any cost. That it is denied is no fault of the log, and that it
// is admitted is a violation, whatever the rule, and however often.
func TestAnyCostIsJudged(t *testing.T) {
	const largest = math.MaxInt64
	asked := newScribe("eu")
	asked.write(0, worked, cost(largest), denied)
	asked.write(0, worked, cost(40))
	asked.write(0, worked, cost(largest), func(l *decisionlog.Line) { l.Reason = "fallback" })
	asked.write(0, worked, cost(largest), func(l *decisionlog.Line) { l.Reason = "fallback" })
	asked.write(0, worked, settled("a", 0), cost(largest))
	r := judge(t, decisions.Options{}, asked.text())
	clean(t, r)
	if r.Denials != 1 || r.Beside != 2 || r.BesideTokens != lease.MaxCounter {
		t.Errorf("%+v", r)
	}
	for _, rule := range []lease.Rule{
		worked,
		{Kind: lease.RollingWindow, Version: 1, Capacity: 40, Window: time.Second, MaxSharePercent: 100},
		{Kind: lease.FixedWindow, Version: 1, Capacity: 40, Period: lease.Minute, Zone: "UTC", MaxSharePercent: 100},
		{Kind: lease.Concurrency, Version: 1, Capacity: 40, MaxSharePercent: 100},
	} {
		s := newScribe("eu")
		hold := func(id string) func(*decisionlog.Line) {
			if rule.Kind == lease.Concurrency {
				return held(id, time.Second)
			}
			return func(*decisionlog.Line) {}
		}
		for at := range 3 {
			s.write(time.Duration(at), rule, cost(largest), hold(fmt.Sprint(at)))
		}
		s.write(2*time.Minute, rule, cost(40), hold("last")) // all is over by then, but of the bucket
		r, err := tryJudge(t, decisions.Options{}, s.text())
		if err != nil || r.Violating != 1 {
			t.Fatalf("%s: %v, %+v", rule.Kind, err, r)
		}
		if v := r.Violations[0]; v.Order != 1 || v.Tokens <= 0 || v.Worst < v.Tokens {
			t.Errorf("%s: %+v", rule.Kind, v)
		}
	}
}
