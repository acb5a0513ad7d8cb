package replay_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenlease/tokenlease/regional/replay"
)

// clock is monotonic time as a test sets it.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration      { return time.Duration(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

type table = replay.Table[int, string]

func newTable(most int) (*table, *clock, *int) {
	c, evicted := &clock{}, new(int)
	return replay.New[int, string](time.Minute, most, c.now, func() { *evicted++ }), c, evicted
}

func id(n int) replay.Key {
	return replay.Key{Account: "acme", Operation: "op", ID: strconv.Itoa(n)}
}

// do decides as value, unless something is on record.
func do(t *table, key replay.Key, payload int, value string, keep replay.Keep) replay.Result[string] {
	return t.Do(context.Background(), key, payload, func() (string, replay.Keep) { return value, keep })
}

func want(t *testing.T, got replay.Result[string], outcome replay.Outcome, value string) {
	t.Helper()
	if got.Outcome != outcome || got.Value != value {
		t.Fatalf("got outcome %v with %q, want %v with %q", got.Outcome, got.Value, outcome, value)
	}
}

func TestRecordIsGoodForLessThanTheHorizon(t *testing.T) {
	table, clock, _ := newTable(10)
	clock.advance(time.Second)
	want(t, do(table, id(1), 5, "first", replay.Record), replay.Decided, "first")
	clock.advance(time.Minute - 1)
	got := do(table, id(1), 5, "second", replay.Record)
	want(t, got, replay.Repeated, "first")
	if got.At != time.Second {
		t.Errorf("decided at %v, told %v", time.Second, got.At)
	}
	clock.advance(1)
	want(t, do(table, id(1), 5, "third", replay.Record), replay.Decided, "third")
	if table.Len() != 1 {
		t.Errorf("%d records of one ID", table.Len())
	}
}

func TestAnotherPayloadIsAConflict(t *testing.T) {
	table, _, _ := newTable(10)
	do(table, id(1), 5, "first", replay.Record)
	want(t, do(table, id(1), 6, "second", replay.Record), replay.Conflict, "")
	want(t, do(table, id(1), 5, "second", replay.Record), replay.Repeated, "first")
}

func TestKeysHaveIDsOfTheirOwn(t *testing.T) {
	table, _, _ := newTable(10)
	for _, key := range []replay.Key{{"acme", "op", "x"}, {"Acme", "op", "x"}, {"acme", "o", "px"}, {"acmeo", "p", "x"}} {
		want(t, do(table, key, 1, key.Account+"/"+key.Operation, replay.Record), replay.Decided, key.Account+"/"+key.Operation)
	}
}

func TestWhatIsNotRecordedIsDecidedAnew(t *testing.T) {
	for _, keep := range []replay.Keep{replay.Share, replay.Drop} {
		table, _, _ := newTable(10)
		want(t, do(table, id(1), 5, "first", keep), replay.Decided, "first")
		if table.Len() != 0 {
			t.Errorf("%d entries after what is not recorded", table.Len())
		}
		want(t, do(table, id(1), 6, "second", keep), replay.Decided, "second")
	}
}

func TestFullTableForgetsTheOldestAndCountsIt(t *testing.T) {
	table, clock, evicted := newTable(3)
	for n := range 5 {
		do(table, id(n), 0, "first", replay.Record)
		clock.advance(time.Second)
	}
	if *evicted != 2 || table.Len() != 3 {
		t.Fatalf("%d were forgotten and %d kept, want 2 and 3", *evicted, table.Len())
	}
	want(t, do(table, id(4), 0, "again", replay.Record), replay.Repeated, "first")
	want(t, do(table, id(2), 0, "again", replay.Record), replay.Repeated, "first")
	want(t, do(table, id(1), 0, "again", replay.Record), replay.Decided, "again")
	clock.advance(time.Hour)
	if table.Len() != 0 {
		t.Errorf("%d records outlive the horizon", table.Len())
	}
}

// A table that is full of decisions under way still decides, without a record.
func TestNoPlaceForARecord(t *testing.T) {
	table, _, evicted := newTable(1)
	outer := table.Do(t.Context(), id(1), 0, func() (string, replay.Keep) {
		want(t, do(table, id(2), 0, "unrecorded", replay.Record), replay.Decided, "unrecorded")
		want(t, do(table, id(2), 0, "anew", replay.Record), replay.Decided, "anew")
		return "outer", replay.Record
	})
	want(t, outer, replay.Decided, "outer")
	want(t, do(table, id(1), 0, "again", replay.Record), replay.Repeated, "outer")
	if *evicted != 2 {
		t.Errorf("%d decisions without a record were counted, want 2", *evicted)
	}
}

// decideSlowly starts a decision that ends when the returned function is called.
func decideSlowly(ctx context.Context, t *table, keep replay.Keep) (finish func() replay.Result[string]) {
	begun, end, result := make(chan struct{}), make(chan struct{}), make(chan replay.Result[string], 1)
	go func() {
		result <- t.Do(ctx, id(1), 0, func() (string, replay.Keep) {
			close(begun)
			<-end
			return "slow", keep
		})
	}()
	<-begun
	return func() replay.Result[string] {
		close(end)
		return <-result
	}
}

func TestRepetitionsWaitForTheFirst(t *testing.T) {
	for _, keep := range []replay.Keep{replay.Record, replay.Share} {
		synctest.Test(t, func(t *testing.T) {
			table, _, _ := newTable(10)
			finish := decideSlowly(t.Context(), table, keep)
			var group sync.WaitGroup
			for range 5 {
				group.Go(func() {
					if got := do(table, id(1), 0, "twice", replay.Record); got.Outcome != replay.Repeated || got.Value != "slow" {
						t.Errorf("got %+v", got)
					}
				})
			}
			synctest.Wait()
			want(t, finish(), replay.Decided, "slow")
			group.Wait()
		})
	}
}

// What a caller that left did not decide, one of those that wait decides.
func TestDroppedDecisionIsTakenUpByOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _, _ := newTable(10)
		finish := decideSlowly(t.Context(), table, replay.Drop)
		var decided, repeated atomic.Int64
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				switch do(table, id(1), 0, "anew", replay.Record).Outcome {
				case replay.Decided:
					decided.Add(1)
				case replay.Repeated:
					repeated.Add(1)
				}
			})
		}
		synctest.Wait()
		finish()
		group.Wait()
		if decided.Load() != 1 || repeated.Load() != 4 {
			t.Errorf("%d decided anew and %d repeated, want 1 and 4", decided.Load(), repeated.Load())
		}
	})
}

func TestOneThatWaitsMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _, _ := newTable(10)
		finish := decideSlowly(t.Context(), table, replay.Record)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := table.Do(ctx, id(1), 0, func() (string, replay.Keep) { panic("decided twice") })
		want(t, got, replay.GaveUp, "")
		finish()
	})
}

func TestPanicLeavesNothingUnderWay(t *testing.T) {
	table, _, _ := newTable(10)
	func() {
		defer func() { _ = recover() }()
		table.Do(t.Context(), id(1), 0, func() (string, replay.Keep) { panic("broken") })
	}()
	want(t, do(table, id(1), 0, "anew", replay.Record), replay.Decided, "anew")
}
