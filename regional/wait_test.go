package regional_test

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// A budget went short an hour ago. A check that finds no credit now, and no place
// to wait for an answer, is not told that the budget is used up: nobody has said
// so since.
func TestNoPlaceToWaitIsNoShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBroker(bucket)
		l, _ := start(t, f, func(c *regional.Config) { c.MaxWaiters = 1 })
		l.Budget("acme", "report.create")
		spendAll := func() decision.Answer {
			for range 50 {
				if d := l.Check(t.Context(), "acme", "report.create"); !d.Allowed {
					return d
				}
			}
			t.Fatal("a bucket without end")
			return decision.Answer{}
		}
		if d := spendAll(); d.Reason != pb.Reason_REASON_EXHAUSTED {
			t.Fatalf("a budget that is used up is answered %v", d.Reason)
		}
		elapse(time.Hour)
		l.Check(t.Context(), "acme", "report.create")
		elapse(time.Second)
		f.mu.Lock()
		f.delay = time.Hour // nothing is answered any more
		f.mu.Unlock()
		go l.Check(t.Context(), "other", "report.create") // takes the only place
		synctest.Wait()
		if d := spendAll(); d.Reason != pb.Reason_REASON_UNAVAILABLE {
			t.Errorf("a check without a place to wait is answered %v: %s", d.Reason, d.Detail)
		}
		elapse(time.Minute)
	})
}
