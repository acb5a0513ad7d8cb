package regional_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/regional/journal"
)

type client = tokenleasev1connect.BrokerClient

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown       = connect.NewError(connect.CodeUnavailable, errors.New("down"))
	errOverloaded = connect.NewError(connect.CodeResourceExhausted, errors.New("overloaded"))
)

// quota is the worked example without refill.
var quota = policy{operation: "report.create", capacity: 40, cost: 5}

// bucket is the worked example.
var bucket = policy{operation: "report.create", capacity: 40, refill: lease.Rate{Tokens: 20, Interval: time.Second}, cost: 5}

func check(t *testing.T, l *regional.Limiter, want pb.Reason) decision.Answer {
	t.Helper()
	d := l.Check(t.Context(), "acme", "report.create")
	if d.Reason != want || d.Allowed != (want == pb.Reason_REASON_ALLOWED) {
		t.Fatalf("got %+v, want %v", d, want)
	}
	return d
}

func TestCase02OneUnitLeftIsAdmittedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1, cost: 1})
		l, _ := start(t, f, nil)
		var allowed, exhausted atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				switch l.Check(t.Context(), "acme", "report.create").Reason {
				case pb.Reason_REASON_ALLOWED:
					allowed.Add(1)
				case pb.Reason_REASON_EXHAUSTED:
					exhausted.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != 1 || exhausted.Load() != 99 {
			t.Errorf("%d allowed and %d exhausted, want 1 and 99", allowed.Load(), exhausted.Load())
		}
	})
}

func TestCase03WithoutRefillOneIsAdmittedThenNoneForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "report.create", capacity: 1, cost: 1}), nil)
		check(t, l, pb.Reason_REASON_ALLOWED)
		for range 20 {
			if d := check(t, l, pb.Reason_REASON_EXHAUSTED); d.HasRetry {
				t.Fatalf("retry guidance without refill: %+v", d)
			}
			elapse(time.Hour)
		}
	})
}

func TestCase04NeverAboveCapacityPlusRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "report.create", capacity: 3, refill: lease.Rate{Tokens: 3, Interval: time.Second}, cost: 1}), nil)
		admitted := 0
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			next := time.Now().Add(100 * time.Millisecond)
			if l.Check(t.Context(), "acme", "report.create").Allowed {
				admitted++
			}
			elapse(time.Until(next))
		}
		if admitted > 33 || admitted < 25 {
			t.Errorf("%d admitted in 10 s, want at most 33 and most of what refill allows", admitted)
		}
	})
}

func TestCase08OverloadedBrokerMeansSpendingWhatIsHeldAndNoMore(t *testing.T) {
	for name, failure := range map[string]error{"overloaded": errOverloaded, "down": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeBroker(quota)
				l, _ := start(t, f, nil)
				check(t, l, pb.Reason_REASON_ALLOWED)
				synctest.Wait()
				f.fail(failure)
				held := l.Budget("acme", "report.create").Remaining()
				if held < 5 {
					t.Fatalf("holds %d, too little for the test", held)
				}
				for range held / 5 {
					check(t, l, pb.Reason_REASON_ALLOWED)
				}
				for range 10 {
					check(t, l, pb.Reason_REASON_UNAVAILABLE)
				}
				f.fail(nil)
				elapse(10 * time.Second) // the longest pause between attempts
				check(t, l, pb.Reason_REASON_ALLOWED)
			})
		})
	}
}

func TestCase18GenerousPolicySyncsPerIntervalNotPerCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1e9, refill: lease.Rate{Tokens: 1e9, Interval: time.Second}, cost: 1})
		l, _ := start(t, f, nil)
		const seconds = 20
		for range seconds * 1000 {
			check(t, l, pb.Reason_REASON_ALLOWED)
			elapse(time.Millisecond)
		}
		if most := seconds * 10; f.answered() > most+10 {
			t.Errorf("%d syncs for %d checks, want at most one in 100 ms: %d", f.answered(), seconds*1000, most)
		}
	})
}

func TestCase17FetchesAheadOfASlowBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1000, refill: lease.Rate{Tokens: 200, Interval: time.Second}, cost: 1})
		f.delay = 600 * time.Millisecond
		l, _ := start(t, f, func(c *regional.Config) { c.FirstGrantWait = 5 * time.Second })
		denied := 0
		for i := range 3000 { // 30 s at half the refill
			began := time.Now()
			d := l.Check(t.Context(), "acme", "report.create")
			if !d.Allowed {
				t.Fatalf("check %d: %+v", i, d)
			}
			if i > 500 && time.Since(began) > 0 {
				denied++
			}
			elapse(10 * time.Millisecond)
		}
		if denied > 0 {
			t.Errorf("%d checks had to wait once demand was known", denied)
		}
	})
}

func TestCase20TwoHundredCallersOnOneKeyAreAllAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "report.create", capacity: 1000, cost: 5})
		f.delay = 20 * time.Millisecond
		l, _ := start(t, f, nil)
		var allowed atomic.Int64
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				if l.Check(t.Context(), "acme", "report.create").Allowed {
					allowed.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != 200 {
			t.Errorf("%d of 200 allowed while credit remained", allowed.Load())
		}
		if f.answered() > 6 {
			t.Errorf("%d requests for one key", f.answered())
		}
	})
}

func TestCase26CostAboveCapacityIsDeniedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "op", capacity: 5, refill: lease.Rate{Tokens: 1, Interval: time.Second}, cost: 1}), nil)
		d := l.CheckN(t.Context(), "acme", "op", 10)
		if d.Reason != pb.Reason_REASON_COST_ABOVE_CAPACITY || d.HasRetry {
			t.Errorf("got %+v", d)
		}
	})
}

func TestCase28CapacityZeroDeniesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "report.create", capacity: 0, refill: lease.Rate{Tokens: 1, Interval: time.Second}, cost: 1}), nil)
		if d := check(t, l, pb.Reason_REASON_COST_ABOVE_CAPACITY); d.HasRetry {
			t.Errorf("got %+v", d)
		}
	})
}

func TestCase29InvalidCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "op", capacity: 100, cost: 1, maxCost: 10})
		l, _ := start(t, f, nil)
		if d := l.CheckN(t.Context(), "acme", "op", 1); !d.Allowed {
			t.Fatalf("got %+v", d)
		}
		before := f.ledger("acme", "op")
		for _, cost := range []int64{-1, math.MinInt64, 0, 11} {
			if d := l.CheckN(t.Context(), "acme", "op", cost); d.Reason != pb.Reason_REASON_INVALID || d.Detail == "" {
				t.Errorf("cost %d: %+v", cost, d)
			}
		}
		for _, cost := range []int64{-1, 0, 11} {
			if l.Budget("acme", "op").AllowN(cost) || l.AllowN("acme", "op", cost) {
				t.Errorf("cost %d was allowed without waiting", cost)
			}
		}
		if d := l.CheckN(t.Context(), "acme", "op", math.MaxInt64); d.Allowed {
			t.Errorf("got %+v", d)
		}
		after := f.ledger("acme", "op")
		if before.Reserved() != after.Reserved() {
			t.Errorf("invalid checks moved credit: %v, then %v", &before, &after)
		}
	})
}

func TestCase25CostZeroIsAPureQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "op", capacity: 10, cost: 1, zero: true}), nil)
		if d := l.CheckN(t.Context(), "acme", "op", 1); !d.Allowed {
			t.Fatalf("got %+v", d)
		}
		before := l.Budget("acme", "op").Remaining()
		if d := l.CheckN(t.Context(), "acme", "op", 0); !d.Allowed || l.Budget("acme", "op").Remaining() != before {
			t.Errorf("got %+v, and %d are left of %d", d, l.Budget("acme", "op").Remaining(), before)
		}
	})
}

func TestCase36IdleFullBudgetAdmitsItsCapacityThenRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bucket
		p.cost = 1
		f := newFakeBroker(p)
		l, _ := start(t, f, nil)
		began := time.Now()
		for range 40 {
			check(t, l, pb.Reason_REASON_ALLOWED)
		}
		if took := time.Since(began); took > 0 {
			t.Fatalf("the burst took %v", took)
		}
		d := check(t, l, pb.Reason_REASON_EXHAUSTED)
		if !d.HasRetry || d.RetryIn <= 0 || d.RetryIn > 50*time.Millisecond {
			t.Errorf("the next token is 50 ms away: %+v", d)
		}
		elapse(4 * time.Second)
		b := f.ledger("acme", "report.create")
		if b.Available+b.Reserved() != 40 {
			t.Errorf("2 s after the last report the budget is full again: %v", &b)
		}
	})
}

func TestCase38RetryIsTheWaitForThisCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, newFakeBroker(policy{operation: "op", capacity: 4, refill: lease.Rate{Tokens: 2, Interval: time.Second}, cost: 1}), nil)
		if d := l.CheckN(t.Context(), "acme", "op", 4); !d.Allowed {
			t.Fatalf("got %+v", d)
		}
		elapse(100 * time.Millisecond) // 0.2 tokens
		d := l.CheckN(t.Context(), "acme", "op", 1)
		if d.Reason != pb.Reason_REASON_EXHAUSTED || d.RetryIn < 400*time.Millisecond || d.RetryIn > 510*time.Millisecond {
			t.Errorf("got %+v, want a wait of 0.4 s, or up to 0.1 s more for the report", d)
		}
		dearer := l.CheckN(t.Context(), "acme", "op", 3)
		if dearer.RetryIn < d.RetryIn+900*time.Millisecond {
			t.Errorf("3 tokens wait a second longer than 1: %v, %v", dearer.RetryIn, d.RetryIn)
		}
	})
}

func TestCase39ReportCostsFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, stop := start(t, f, nil)
		check(t, l, pb.Reason_REASON_ALLOWED)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if b := f.ledger("acme", "report.create"); b.Available != 35 || b.Reserved() != 0 {
			t.Errorf("35 of 40 remain: %v", &b)
		}
	})
}

func TestUnknownOperationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker()
		l, _ := start(t, f, nil)
		check(t, l, pb.Reason_REASON_NO_POLICY)
		check(t, l, pb.Reason_REASON_NO_POLICY)
		f.mu.Lock()
		f.policies["report.create"] = quota
		f.mu.Unlock()
		elapse(3 * time.Second)
		check(t, l, pb.Reason_REASON_ALLOWED)
	})
}

func TestUnreachableBrokerNeverMeansPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.fail(errDown)
		l, _ := start(t, f, nil)
		began := time.Now()
		check(t, l, pb.Reason_REASON_UNAVAILABLE)
		if took := time.Since(began); took != regional.DefaultFirstGrantWait {
			t.Errorf("waited %v for a first grant", took)
		}
		if l.Ready() {
			t.Error("ready without a broker")
		}
		f.fail(nil)
		elapse(10 * time.Second)
		check(t, l, pb.Reason_REASON_ALLOWED)
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.delay = 100 * time.Millisecond
		l, _ := start(t, f, func(c *regional.Config) { c.MaxWaiters = 3 })
		var unavailable atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if l.Check(t.Context(), "acme", "report.create").Reason == pb.Reason_REASON_UNAVAILABLE {
					unavailable.Add(1)
				}
			})
		}
		group.Wait()
		if unavailable.Load() != 5 {
			t.Errorf("%d of 8 were turned away, want 5", unavailable.Load())
		}
	})
}

func TestCallerMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		f.delay = time.Minute
		l, _ := start(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		if d := l.Check(ctx, "acme", "report.create"); d.Reason != pb.Reason_REASON_UNAVAILABLE || time.Since(began) != 10*time.Millisecond {
			t.Errorf("got %+v after %v", d, time.Since(began))
		}
	})
}

func TestOrderlyStopAccountsExactly(t *testing.T) {
	for _, mode := range []holder.Journal{holder.JournalOff, holder.JournalBlock, holder.JournalConfirm} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFakeBroker(quota)
				l, stop := start(t, f, func(c *regional.Config) { c.JournalMode, c.JournalDir = mode, dir })
				for range 3 {
					check(t, l, pb.Reason_REASON_ALLOWED)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if b := f.ledger("acme", "report.create"); b.Available != 25 || len(b.Grants) != 0 {
					t.Errorf("15 of 40 were spent: %v", &b)
				}
				check(t, l, pb.Reason_REASON_UNAVAILABLE)
			})
		})
	}
}

// crash ends a limiter without a word to the broker.
func crash(t *testing.T, f *fakeBroker, stop func() error) {
	t.Helper()
	f.fail(errDown)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	f.fail(nil)
}

func TestCase12RestartHandsBackWhatTheJournalProves(t *testing.T) {
	for _, test := range []struct {
		mode     holder.Journal
		handBack bool
	}{{holder.JournalBlock, true}, {holder.JournalConfirm, true}, {holder.JournalOff, false}} {
		t.Run(string(test.mode), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFakeBroker(policy{operation: "report.create", capacity: 100, cost: 5})
				configure := func(c *regional.Config) { c.JournalMode, c.JournalDir = test.mode, dir }
				l, stop := start(t, f, configure)
				for range 6 {
					check(t, l, pb.Reason_REASON_ALLOWED)
				}
				synctest.Wait()
				crash(t, f, stop)
				gone := f.ledger("acme", "report.create")
				if gone.Reserved() == 0 {
					t.Fatalf("nothing is reserved for the dead region: %v", &gone)
				}
				elapse(24 * time.Hour)
				if still := f.ledger("acme", "report.create"); still.Reserved() != gone.Reserved() {
					t.Fatalf("silence returned credit: %v, then %v", &gone, &still)
				}
				l, _ = start(t, f, configure)
				elapse(10 * time.Second)
				b := f.ledger("acme", "report.create")
				if test.handBack != (b.Reserved() == 0) {
					t.Errorf("after the restart: %v", &b)
				}
				if b.Available > 70 {
					t.Errorf("30 were spent, %d are available", b.Available)
				}
				if l.Epoch() != 2 {
					t.Errorf("epoch %d", l.Epoch())
				}
			})
		})
	}
}

func TestSecondProcessOnTheJournalIsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := regional.Config{Region: "eu", Instance: "limiter-0", Clients: []client{newFakeBroker()}, JournalDir: dir}
	l, err := regional.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := regional.New(cfg); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("got %v, want %v", err, journal.ErrLocked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := regional.New(cfg)
	if err != nil {
		t.Fatalf("the lock outlived its holder: %v", err)
	}
	_ = again.Run(ctx)
}

func TestFencedLimiterStopsAndAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		old, _ := start(t, f, nil)
		check(t, old, pb.Reason_REASON_ALLOWED)
		next, _ := start(t, f, nil)
		check(t, next, pb.Reason_REASON_ALLOWED)
		for old.Ready() { // until it hears
			old.Check(t.Context(), "acme", "report.create")
			elapse(50 * time.Millisecond)
		}
		check(t, old, pb.Reason_REASON_UNAVAILABLE)
		synctest.Wait()
		b := f.ledger("acme", "report.create")
		for _, g := range b.Grants {
			if g.Epoch == 1 {
				t.Errorf("the fenced epoch has not accounted for itself: %v", &b)
			}
		}
	})
}

func TestRunReportsBeingFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		l, err := regional.New(regional.Config{Region: "eu", Instance: "limiter-0", Clients: []client{f}, JournalMode: holder.JournalOff})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- l.Run(t.Context()) }()
		check(t, l, pb.Reason_REASON_ALLOWED)
		start(t, f, nil)
		l.Check(t.Context(), "acme", "other") // makes it talk
		if err := <-ended; !errors.Is(err, regional.ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

func TestJournalOfAnotherClusterIsRefused(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(quota)
		configure := func(c *regional.Config) { c.JournalMode, c.JournalDir = holder.JournalBlock, dir }
		_, stop := start(t, f, configure)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		f.cluster = "cluster-2"
		_, stop = start(t, f, configure)
		synctest.Wait()
		if err := stop(); !errors.Is(err, regional.ErrOtherCluster) {
			t.Errorf("got %v", err)
		}
	})
}

func TestIdleBudgetsHandTheirCreditBackAndLeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(policy{operation: "op", capacity: 100, cost: 1})
		l, _ := start(t, f, nil)
		for i := range 50 {
			account := string(rune('a'+i%26)) + string(rune('a'+i/26))
			if d := l.Check(t.Context(), account, "op"); !d.Allowed {
				t.Fatalf("%s: %+v", account, d)
			}
		}
		elapse(time.Minute)
		if n := regional.Budgets(l); n != 0 {
			t.Errorf("%d budgets are still in memory", n)
		}
		if b := f.ledger("aa", "op"); b.Available != 99 || len(b.Grants) != 0 {
			t.Errorf("what was not spent is back: %v", &b)
		}
		if d := l.Check(t.Context(), "aa", "op"); !d.Allowed {
			t.Errorf("a budget that was retired serves again: %+v", d)
		}
	})
}

func TestConfigSaysEverythingThatIsWrong(t *testing.T) {
	_, err := regional.New(regional.Config{Region: "e u", Instance: "..", Brokers: []string{"broker:7600"}, JournalMode: "disk", MaxWaiters: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"region", "instance", "broker:7600", "HTTP client", "block, confirm or off", "negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
	_, err = regional.New(regional.Config{Region: "eu", Instance: "a", Clients: []client{newFakeBroker()}, JournalDir: filepath.Join("/dev/null", "x")})
	if err == nil {
		t.Error("a journal below a file was accepted")
	}
}
