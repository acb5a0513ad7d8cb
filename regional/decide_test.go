package regional_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// ask is a request for the worked example's operation.
func ask(change ...func(*decision.Request)) decision.Request {
	req := decision.Request{Part: decision.Part{Key: lease.Key{Account: "acme", Operation: "report.create"}}}
	for _, c := range change {
		c(&req)
	}
	return req
}

func withID(id string) func(*decision.Request) {
	return func(r *decision.Request) { r.ID = id }
}

func withCost(cost int64) func(*decision.Request) {
	return func(r *decision.Request) { r.Cost = decision.Tokens(cost) }
}

func decide(t *testing.T, l decision.Decider, req decision.Request, want pb.Reason) decision.Answer {
	t.Helper()
	d := l.Decide(t.Context(), req)
	if d.Reason != want {
		t.Fatalf("got %+v, want %v", d, want)
	}
	return d
}

// held is the credit in the region and at the broker together: what was not spent.
func unspent(f *fakeBroker, l *regional.Limiter, account, operation string) int64 {
	b := f.ledger(account, operation)
	return b.Available + l.Budget(account, operation).Remaining()
}

func TestDecideIsCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(bucket), nil)
		d := decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		if !d.Allowed || d.Limit != 40 || d.Window != 2*time.Second || d.PolicyVersion != 1 || d.GrantID == "" || d.NotStrict || d.Debt != 0 {
			t.Errorf("got %+v", d)
		}
		for range 7 {
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		}
		d = decide(t, l, ask(), pb.Reason_REASON_EXHAUSTED)
		if d.Allowed || d.Limit != 40 || d.Window != 2*time.Second || !d.HasRetry || d.GrantID != "" {
			t.Errorf("got %+v", d)
		}
		if at := time.Now().Add(d.RetryIn); !d.RetryAt.Equal(at) {
			t.Errorf("retry at %v, which is not in %v", d.RetryAt, d.RetryIn)
		}
	})
}

func TestCase37FiveChecksLeaveTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "op", capacity: 10, refill: lease.Rate{Tokens: 2, Interval: time.Second}, cost: 1})
		f.open(lease.Key{Account: "acme", Operation: "op"}).Available = 1
		l, _ := start(t, f, nil)
		elapse(3 * time.Second)
		if b := f.ledger("acme", "op"); b.Available != 7 {
			t.Fatalf("one token and 3 s of 2/s are %v", &b)
		}
		op := ask(func(r *decision.Request) { r.Key.Operation = "op" })
		for range 5 {
			decide(t, l, op, pb.Reason_REASON_ALLOWED)
		}
		if left := unspent(f, l, "acme", "op"); left != 2 {
			t.Errorf("%d are left, want 2", left)
		}
	})
}

func TestCase29RequestsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, _ := start(t, f, nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		elapse(time.Second)
		before, asked := unspent(f, l, "acme", "report.create"), f.answered()
		part := func(account string) decision.Part {
			return decision.Part{Key: lease.Key{Account: account, Operation: "report.create"}}
		}
		for name, test := range map[string]struct {
			change func(*decision.Request)
			detail string
		}{
			"no account":        {func(r *decision.Request) { r.Key.Account = "" }, "account: must have 1 to 256 bytes, has 0"},
			"no operation":      {func(r *decision.Request) { r.Key.Operation = "" }, "operation: must have 1 to 128 bytes, has 0"},
			"10 MB operation":   {func(r *decision.Request) { r.Key.Operation = strings.Repeat("x", 10<<20) }, "operation: must have 1 to 128 bytes, has 10485760"},
			"invalid UTF-8":     {func(r *decision.Request) { r.Key.Account = "a\xff" }, "account: must be UTF-8, is not at byte 1"},
			"negative cost":     {withCost(-1), "the cost is negative"},
			"smallest cost":     {withCost(math.MinInt64), "the cost is negative"},
			"cost 0":            {withCost(0), "the cost is 0, which the policy does not allow"},
			"ID with a blank":   {withID("a b"), "the decision ID is not of printable ASCII without spaces"},
			"ID beyond ASCII":   {withID("é"), "the decision ID is not of printable ASCII without spaces"},
			"ID of 129 bytes":   {withID(strings.Repeat("x", 129)), "the decision ID has 129 bytes: at most 128"},
			"negative version":  {func(r *decision.Request) { r.PolicyVersion = -1 }, "the policy version is negative"},
			"negative wait":     {func(r *decision.Request) { r.MaxWait = -1 }, "the time to wait is negative"},
			"wait of an hour":   {func(r *decision.Request) { r.MaxWait = time.Hour }, "the time to wait is above 10m0s"},
			"unknown priority":  {func(r *decision.Request) { r.Priority = 3 }, "the priority is not known"},
			"also itself":       {func(r *decision.Request) { r.Also = []decision.Part{part("acme")} }, "also[0] repeats a budget of the request: name each once, with the sum of the costs"},
			"also twice":        {func(r *decision.Request) { r.Also = []decision.Part{part("a"), part("b"), part("a")} }, "also[2] repeats a budget of the request: name each once, with the sum of the costs"},
			"also without name": {func(r *decision.Request) { r.Also = []decision.Part{part("")} }, "also[0]: account: must have 1 to 256 bytes, has 0"},
			"16 also":           {func(r *decision.Request) { r.Also = make([]decision.Part, 16) }, "also has 16 budgets: at most 15"},
		} {
			d := l.Decide(t.Context(), ask(test.change))
			if d.Allowed || d.Reason != pb.Reason_REASON_INVALID || d.Detail != test.detail {
				t.Errorf("%s: got %v, %.200q, want %q", name, d.Reason, d.Detail, test.detail)
			}
		}
		elapse(time.Second)
		if now := unspent(f, l, "acme", "report.create"); now != before {
			t.Errorf("invalid requests moved credit: %d, then %d", before, now)
		}
		if f.answered() > asked+2 {
			t.Errorf("%d requests to the broker for what is invalid", f.answered()-asked)
		}
	})
}

// The library's other ways in hold keys to the same form, and never bring one that
// is not valid to the broker, where it would spoil the requests of others.
func TestCase29KeysThatCannotBeAreAskedOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, _ := start(t, f, nil)
		handle := l.Budget("", "report.create")
		for range 3 {
			if handle.Allow() || handle.AllowN(1) || l.AllowN("a\xff", "report.create", 1) {
				t.Error("allowed")
			}
			for _, d := range []decision.Answer{
				handle.Check(t.Context()), handle.CheckN(t.Context(), 5), handle.Wait(t.Context(), 5),
				l.Check(t.Context(), "", "report.create"), l.CheckN(t.Context(), "acme", strings.Repeat("x", 1000), 1),
			} {
				if d.Allowed || d.Reason != pb.Reason_REASON_INVALID || d.Detail == "" {
					t.Errorf("got %+v", d)
				}
			}
		}
		elapse(time.Minute)
		if f.answered() != 0 || regional.Budgets(l) != 0 {
			t.Errorf("%d requests to the broker, %d budgets in memory", f.answered(), regional.Budgets(l))
		}
	})
}

func TestOlderPolicyVersionGetsARefreshAndSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quota
		p.version = 3
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		old := func(r *decision.Request) { r.PolicyVersion = 2 }
		d := decide(t, l, ask(old), pb.Reason_REASON_REFRESH) // also as the first of all
		if d.Allowed || d.PolicyVersion != 3 || d.HasRetry || d.Detail == "" {
			t.Errorf("got %+v", d)
		}
		decide(t, l, ask(old, withID("x")), pb.Reason_REASON_REFRESH)
		if left := unspent(f, l, "acme", "report.create"); left != 40 {
			t.Errorf("%d of 40 are left", left)
		}
		current := func(r *decision.Request) { r.PolicyVersion = 3 }
		if d := decide(t, l, ask(current, withID("x")), pb.Reason_REASON_ALLOWED); d.Replayed {
			t.Errorf("a refresh was recorded: %+v", d)
		}
	})
}

func TestNewerPolicyVersionThanKnownIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, _ := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		handle.Check(t.Context())
		elapse(5 * time.Second)
		raised := quota
		raised.version, raised.capacity = 2, 80
		f.put(raised)
		newer := func(r *decision.Request) { r.PolicyVersion = 2 }
		if d := decide(t, l, ask(newer), pb.Reason_REASON_ALLOWED); d.PolicyVersion != 1 {
			t.Fatalf("decided by what is not known: %+v", d)
		}
		synctest.Wait()
		if d := decide(t, l, ask(newer), pb.Reason_REASON_ALLOWED); d.PolicyVersion != 2 || d.Limit != 80 {
			t.Errorf("the new policy has not been asked for: %+v", d)
		}
	})
}

// However many callers name versions that are nowhere known, the broker is asked ten
// times a second at the most.
func TestUnknownPolicyVersionsAreAskedForTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1e9, cost: 1})
		l, _ := start(t, f, nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		elapse(2 * time.Second)
		before := f.answered()
		for range 1000 {
			decide(t, l, ask(func(r *decision.Request) { r.PolicyVersion = 1 << 40 }), pb.Reason_REASON_ALLOWED)
			elapse(time.Millisecond)
		}
		if n := f.answered() - before; n > 40 { // ten of its own, and a few for each question
			t.Errorf("%d requests to the broker in a second", n)
		}
	})
}

func TestDisabledPolicyAdmitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, _ := start(t, f, nil)
		handle := l.Budget("acme", "report.create")
		if d := handle.Check(t.Context()); !d.Allowed || handle.Remaining() < 5 {
			t.Fatalf("got %+v with %d left", d, handle.Remaining())
		}
		off := quota
		off.version, off.zero = 2, true
		off.terms = func(p *lease.Policy) {
			p.Disabled, p.DisabledBecause, p.Shadow = true, "under attack", true
		}
		f.put(off)
		decide(t, l, ask(func(r *decision.Request) { r.PolicyVersion = 2 }), pb.Reason_REASON_ALLOWED) // has it asked for
		elapse(time.Second)
		if handle.Allow() || handle.AllowN(1) || l.AllowN("acme", "report.create", 1) || handle.AllowN(0) {
			t.Error("a disabled policy was allowed without waiting")
		}
		for name, d := range map[string]decision.Answer{
			"Check": handle.Check(t.Context()), "CheckN": handle.CheckN(t.Context(), 1), "cost 0": handle.CheckN(t.Context(), 0),
			"Wait": handle.Wait(t.Context(), 1), "Decide": l.Decide(t.Context(), ask()),
			"priced": l.Decide(t.Context(), ask(withCost(1), withID("x"))),
		} {
			if d.Allowed || d.Reason != pb.Reason_REASON_DISABLED || d.Detail != "an operator has disabled the operation: under attack" || d.PolicyVersion != 2 || d.HasRetry {
				t.Errorf("%s: got %+v", name, d)
			}
		}
		r, d := l.Reserve(t.Context(), ask())
		if r != nil || d.Reason != pb.Reason_REASON_DISABLED {
			t.Errorf("got %+v", d)
		}
	})
}

func TestCase43RepeatedDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(bucket)
		l, _ := start(t, f, nil)
		first := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED)
		if first.Replayed {
			t.Errorf("got %+v", first)
		}
		for range 10 {
			again := decide(t, l, ask(withID("x"), func(r *decision.Request) { r.MaxWait, r.PolicyVersion = time.Second, 1 }), pb.Reason_REASON_ALLOWED)
			if !again.Replayed || !again.Allowed || again.GrantID != first.GrantID {
				t.Fatalf("got %+v, recorded %+v", again, first)
			}
		}
		if left := unspent(f, l, "acme", "report.create"); left != 35 {
			t.Errorf("%d of 40 are left after one decision", left)
		}
		for name, change := range map[string]func(*decision.Request){
			"another cost": withCost(6),
			"a named cost": withCost(5),
			"another budget": func(r *decision.Request) {
				r.Also = []decision.Part{{Key: lease.Key{Account: "b", Operation: "report.create"}}}
			},
		} {
			d := decide(t, l, ask(withID("x"), change), pb.Reason_REASON_INVALID)
			if d.Allowed || d.Detail != "the decision ID stands for another request: use a new ID for each decision" {
				t.Errorf("%s: got %+v", name, d)
			}
		}
		if r, d := l.Reserve(t.Context(), ask(withID("x"))); r != nil || d.Reason != pb.Reason_REASON_INVALID {
			t.Errorf("a reservation got the ID of a check: %+v", d)
		}
		other := decide(t, l, ask(withID("x"), func(r *decision.Request) { r.Key.Account = "Acme" }), pb.Reason_REASON_ALLOWED)
		if other.Replayed {
			t.Errorf("one account got the answer of another: %+v", other)
		}
		elapse(time.Minute)
		if d := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED); d.Replayed {
			t.Errorf("the record outlives its horizon: %+v", d)
		}
	})
}

// The recorded answer has what can be spent now, not what could be then.
func TestCase43ReplayedRemainingIsNotAboveTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(quota), nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		first := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED)
		if first.Remaining == 0 {
			t.Fatal("nothing remains, too little for the test")
		}
		for l.Check(t.Context(), "acme", "report.create").Allowed {
		}
		if again := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED); again.Remaining != 0 {
			t.Errorf("%d remain of nothing", again.Remaining)
		}
	})
}

// The replay of case 41: a denial with 10 s to wait says 1 s when 9 s have passed.
func TestCase41ReplayedDenialRecomputesItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy{operation: "report.create", capacity: 1, refill: lease.Rate{Tokens: 1, Interval: 10 * time.Second}, cost: 1}
		l, _ := start(t, newFakeBroker(p), nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		first := decide(t, l, ask(withID("x")), pb.Reason_REASON_EXHAUSTED)
		if !first.HasRetry || first.RetrySeconds() != 10 {
			t.Fatalf("got %+v", first)
		}
		at := first.RetryAt
		for _, step := range []struct {
			wait, left time.Duration
			seconds    int64
		}{
			{0, first.RetryIn, 10},
			{9 * time.Second, first.RetryIn - 9*time.Second, 1},
			{first.RetryIn - 9*time.Second, 0, 1}, // now: told as the least that a header can say
			{30 * time.Second, 0, 1},
		} {
			elapse(step.wait)
			d := decide(t, l, ask(withID("x")), pb.Reason_REASON_EXHAUSTED)
			if !d.Replayed || d.Allowed || !d.HasRetry || d.RetryIn != step.left || d.RetrySeconds() != step.seconds {
				t.Errorf("%v later: got %+v, want %v to wait", step.wait, d, step.left)
			}
			if want := time.Now().Add(d.RetryIn); !d.RetryAt.Equal(want) || step.left > 0 && !d.RetryAt.Equal(at) {
				t.Errorf("%v later: retry at %v, want %v", step.wait, d.RetryAt, want)
			}
		}
		decide(t, l, ask(withID("y")), pb.Reason_REASON_ALLOWED)
	})
}

// What spent nothing and may be over at the next attempt is decided anew.
func TestCase43UnavailableIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.fail(errDown)
		l, _ := start(t, f, nil)
		decide(t, l, ask(withID("x")), pb.Reason_REASON_UNAVAILABLE)
		f.fail(nil)
		elapse(10 * time.Second)
		if d := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED); d.Replayed {
			t.Errorf("got %+v", d)
		}
	})
}

func TestCase43RepetitionsAtTheSameTimeAreDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.delay = 100 * time.Millisecond
		l, _ := start(t, f, nil)
		var fresh, replayed atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				switch d := l.Decide(t.Context(), ask(withID("x"))); {
				case d.Allowed && d.Replayed:
					replayed.Add(1)
				case d.Allowed:
					fresh.Add(1)
				}
			})
		}
		group.Wait()
		if fresh.Load() != 1 || replayed.Load() != 49 {
			t.Errorf("%d decided and %d replayed, want 1 and 49", fresh.Load(), replayed.Load())
		}
		elapse(time.Second)
		if left := unspent(f, l, "acme", "report.create"); left != 35 {
			t.Errorf("%d of 40 are left after one decision", left)
		}
	})
}

// A caller that leaves while its request waits leaves no answer behind: the same
// request, sent again, is decided.
func TestCase43CallerThatLeftIsDecidedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.delay = 200 * time.Millisecond
		l, _ := start(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		again := make(chan decision.Answer, 1)
		go func() {
			elapse(10 * time.Millisecond)
			again <- l.Decide(t.Context(), ask(withID("x")))
		}()
		if d := l.Decide(ctx, ask(withID("x"))); d.Reason != pb.Reason_REASON_UNAVAILABLE {
			t.Errorf("got %+v", d)
		}
		if d := <-again; !d.Allowed || d.Replayed {
			t.Errorf("the one that stayed got %+v", d)
		}
	})
}

// What was spent is on record also if the caller had gone by then.
func TestCase43SpentIsRecordedWhoeverListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, _ := start(t, f, nil)
		decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if d := l.Decide(gone, ask(withID("x"))); !d.Allowed {
			t.Fatalf("got %+v", d)
		}
		if d := decide(t, l, ask(withID("x")), pb.Reason_REASON_ALLOWED); !d.Replayed {
			t.Errorf("spent twice: %+v", d)
		}
	})
}

func TestCase43FullTableForgetsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistry()
		l, _ := start(t, newFakeBroker(policy{operation: "report.create", capacity: 1000, cost: 1}), func(c *regional.Config) {
			c.MaxReplays, c.Registerer = 10, reg
		})
		for i := range 12 {
			decide(t, l, ask(withID(fmt.Sprint(i))), pb.Reason_REASON_ALLOWED)
		}
		if n := reg.value(t, "tokenlease_limiter_replays_forgotten_total"); n != 2 {
			t.Errorf("%v are counted as forgotten, want 2", n)
		}
		if d := decide(t, l, ask(withID("11")), pb.Reason_REASON_ALLOWED); !d.Replayed {
			t.Errorf("got %+v", d)
		}
		if d := decide(t, l, ask(withID("0")), pb.Reason_REASON_ALLOWED); d.Replayed {
			t.Errorf("got %+v", d)
		}
		if n := reg.value(t, "tokenlease_limiter_replays_total"); n != 1 {
			t.Errorf("%v replays are counted, want 1", n)
		}
	})
}

func TestCase34EveryDenialExplainsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := policy{operation: "off", capacity: 10, cost: 1, terms: func(p *lease.Policy) { p.Disabled = true }}
		slots := policy{operation: "slots", capacity: 10, cost: 1, terms: func(p *lease.Policy) { p.Rule.Kind, p.Rule.Refill = lease.Concurrency, lease.Rate{} }}
		f := newFakeBroker(bucket, off, slots)
		l, _ := start(t, f, nil)
		for range 8 {
			decide(t, l, ask(), pb.Reason_REASON_ALLOWED)
		}
		operation := func(name string) func(*decision.Request) {
			return func(r *decision.Request) { r.Key.Operation = name }
		}
		for _, test := range []struct {
			req     decision.Request
			reason  pb.Reason
			limit   int64
			version int64
			retry   bool
			detail  string
		}{
			{ask(), pb.Reason_REASON_EXHAUSTED, 40, 1, true, "the budget is used up for now"},
			{ask(withCost(41)), pb.Reason_REASON_COST_ABOVE_CAPACITY, 40, 1, false, "the cost is above what the policy's capacity and max-share can ever admit"},
			{ask(withCost(0)), pb.Reason_REASON_INVALID, 40, 1, false, "the cost is 0, which the policy does not allow"},
			{ask(operation("off")), pb.Reason_REASON_DISABLED, 10, 1, false, "an operator has disabled the operation"},
			{ask(operation("slots")), pb.Reason_REASON_INVALID, 10, 1, false, "the policy counts slots of work in progress: reserve a slot and settle it when the work ends"},
			{ask(operation("unknown")), pb.Reason_REASON_NO_POLICY, 0, 0, false, "no policy rules this operation: apply one with `tokenlease policy apply`"},
		} {
			d := l.Decide(t.Context(), test.req)
			if d.Allowed || d.Reason != test.reason || d.Limit != test.limit || d.PolicyVersion != test.version || d.HasRetry != test.retry || d.Detail != test.detail {
				t.Errorf("%v: got %+v", test.reason, d)
			}
			if wire := decision.AnswerFromWire(d.Wire()); wire.Reason != d.Reason || wire.Limit != d.Limit || wire.PolicyVersion != d.PolicyVersion || wire.HasRetry != d.HasRetry || wire.RetryIn != d.RetryIn || wire.Detail != d.Detail {
				t.Errorf("%v: on the wire %+v", test.reason, wire)
			}
		}
	})
}

// Every reason is a metric of its own, and every field of an answer can be sent.
func TestAnswersAreSentWhole(t *testing.T) {
	d := decision.Answer{
		Allowed: true, Reason: pb.Reason_REASON_FALLBACK, Limit: 1, Remaining: 2, Window: 3, HasRetry: true, RetryIn: 4,
		RetryAt: time.UnixMilli(5), PolicyVersion: 6, GrantID: "g", Replayed: true, Shadow: true, NotStrict: true, Debt: 7,
		Parts: []decision.PartAnswer{{Key: lease.Key{Account: "a", Operation: "o"}, Reason: 1, Limit: 1, Remaining: 1, HasRetry: true, RetryIn: 1, PolicyVersion: 1, GrantID: "g"}}, Detail: "d",
	}
	for i, v := 0, reflect.ValueOf(d); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the test does not set %s", v.Type().Field(i).Name)
		}
	}
	if got := decision.AnswerFromWire(d.Wire()); !reflect.DeepEqual(got, d) {
		t.Errorf("sent %+v, arrived %+v", d, got)
	}
}
