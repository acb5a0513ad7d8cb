package holder

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// A denial is the broker's word of what it knew. What comes back from a hold
// afterwards was not in it, so a check that this may cover is asked for anew.
func TestDenialCountsWhatHasComeBack(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 100, nil)
	if _, ok := r.b.Spend(50); !ok {
		t.Fatal("no credit")
	}
	if _, ok := r.b.Hold(1, 50, time.Hour, false); !ok {
		t.Fatal("no credit to hold")
	}
	if _, ok := r.b.Wait(51); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	r.step(10 * time.Millisecond)
	r.b.Leave(51)
	if v := r.b.Judge(51, r.now); v.Reason != pb.Reason_REASON_EXHAUSTED {
		t.Fatalf("51 with nothing free: %+v", v)
	}
	r.b.Settle(1, 30, false)
	for _, tc := range []struct {
		cost int64
		want pb.Reason
	}{{51, pb.Reason_REASON_UNSPECIFIED}, {70, pb.Reason_REASON_UNSPECIFIED}, {71, pb.Reason_REASON_EXHAUSTED}} {
		if v := r.b.Judge(tc.cost, r.now); v.Reason != tc.want {
			t.Errorf("%d after 20 have come back: %+v, want %v", tc.cost, v, tc.want)
		}
	}
	// The next word counts it.
	if _, ok := r.b.Wait(60); !ok {
		t.Fatal("the budget is retired")
	}
	defer r.b.Leave(60)
	r.b.Signal()
	r.step(10 * time.Millisecond)
	if v := r.b.Judge(60, r.now); v.Reason != pb.Reason_REASON_EXHAUSTED {
		t.Errorf("60 by the newer word: %+v", v)
	}
}

// What the region holds beyond its credit is told, and no more than that.
func TestBeyondIsWhatTheJournalDoesNotCover(t *testing.T) {
	r := newRig(t, policyOf(lease.TokenBucket, 100), func(c *Config) { c.Journal = JournalBlock })
	if _, ok := r.b.Wait(10); !ok {
		t.Fatal("the budget is retired")
	}
	r.b.Signal()
	check := func(when string) {
		t.Helper()
		k := r.key()
		if got, want := r.b.Beyond(), k.undrawn(); got != want {
			t.Errorf("%s: %d beyond, want %d", when, got, want)
		}
		if held := r.b.Credit() + r.b.Beyond(); held != k.free() {
			t.Errorf("%s: %d here, want %d", when, held, k.free())
		}
	}
	for range 20 {
		r.step(10 * time.Millisecond)
		check("waiting")
	}
	r.b.Leave(10)
	r.b.Spend(r.b.Credit() / 2)
	for range 20 {
		r.step(50 * time.Millisecond)
		check("spending")
	}
	r.steps(30 * time.Second)
	if got := r.b.Beyond(); got != 0 {
		t.Errorf("%d beyond of a grant that is closed", got)
	}
}

// What was taken after the broker's word and given back again was part of what it knew:
// the denial stands.
func TestDenialStandsWhenNothingHasComeBackInAll(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 100, nil)
	r.b.Spend(96)
	if _, ok := r.b.Wait(6); !ok {
		t.Fatal("the budget is retired")
	}
	r.level = 4 // what is here may stay
	r.b.Signal()
	r.step(10 * time.Millisecond)
	r.b.Leave(6)
	if v := r.b.Judge(6, r.now); v.Reason != pb.Reason_REASON_EXHAUSTED {
		t.Fatalf("6 of 4: %+v", v)
	}
	if _, ok := r.b.Hold(1, 4, time.Hour, false); !ok {
		t.Fatal("no credit to hold")
	}
	r.b.Settle(1, 0, false)
	if v := r.b.Judge(6, r.now); v.Reason != pb.Reason_REASON_EXHAUSTED {
		t.Errorf("6 of 4, after 4 were held and given back: %+v", v)
	}
}

// A check that did not wait, and whose credit has come meanwhile, does not count as
// waiting for ever: the budget goes idle and its grant is closed.
func TestServedRefusalIsForgotten(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 10, nil)
	r.b.Refused(5) // while there is credit for it, as when it came in between
	r.steps(30 * time.Second)
	if _, unspent := r.m.Held(rigKey); unspent != 0 {
		t.Errorf("%d tokens are held by an idle budget", unspent)
	}
}
