package holder

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Final accounts of many grants and of many epochs are split so that each request
// is valid (found by simulation).
func TestFinalAccountsFitRequests(t *testing.T) {
	var earlier []PastEpoch
	for epoch := range uint64(250) {
		p := PastEpoch{Epoch: epoch + 1, Counter: 1}
		for g := range 5 * int(epoch) {
			p.Drawn = append(p.Drawn, Draw{GrantID: fmt.Sprintf("g1-000-%08x", 1000*int(epoch)+g+1), Tokens: 1})
		}
		earlier = append(earlier, p)
	}
	m := New(Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 251, Shards: 1,
		Earlier: earlier, Jitter: func() float64 { return 0 }, Clocks: func() Clocks { return Clocks{} },
	}, NewSignals())
	now := time.Second
	var finished []uint64
	named := 0
	for range 20 {
		now += time.Second
		effects := m.Step(now)
		finished = append(finished, effects.Finish...)
		for _, s := range effects.Syncs {
			if err := s.Request.Validate(); err != nil {
				t.Fatal(err)
			}
			resp := &pb.SyncResponse{}
			for _, a := range s.Request.GetAccounts() {
				named += len(a.GetGrants())
				resp.Accounts = append(resp.Accounts, &pb.AccountAnswer{Epoch: a.GetEpoch(), Partial: a.GetPartial(), Applied: true})
			}
			m.Synced(s.ID, resp, nil, now)
		}
	}
	if want := 5 * 249 * 250 / 2; len(finished) != 250 || named != want {
		t.Errorf("%d of 250 epochs are finished, %d of %d grants were named", len(finished), named, want)
	}
}

// A manager that has stopped wakes for what it has to send, and never for the
// past (found by simulation: it span).
func TestStoppedManagerDoesNotSpin(t *testing.T) {
	signals := NewSignals()
	m := New(Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Shards: 1,
		Journal: JournalOff, Jitter: func() float64 { return 0 }, Clocks: func() Clocks { return Clocks{} },
	}, signals)
	b := NewBudget(lease.Key{Account: "acme", Operation: "report.create"}, signals)
	if _, ok := b.Wait(1); !ok {
		t.Fatal("the budget is retired")
	}
	b.Signal()
	now := time.Second
	if n := len(m.Step(now).Syncs); n != 1 {
		t.Fatalf("%d requests, want one", n)
	}
	m.Stop()
	for range 3 {
		now += time.Second
		if at := m.Step(now).WakeAt; at <= now {
			t.Errorf("at %v it wants to wake at %v", now, at)
		}
	}
	if at := m.wakeAt(); m.phase == ended && at != math.MaxInt64 {
		t.Errorf("it has ended, and wants to wake at %v", at)
	}
}
