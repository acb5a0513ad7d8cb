package simulations

import (
	"slices"
	"testing"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Who is told when to come back, and comes back then, is served if nobody else
// took anything: guidance is never early. Between the broker's word and the
// region's there is a message, so a moment is added.
func TestRetryGuidanceIsNeverEarly(t *testing.T) {
	const moment = 100 * time.Millisecond
	for cost := int64(1); cost <= 10; cost++ {
		s := newScript(t, 1, bucket(10, 2), nil)
		p := s.sites[0].serving()
		for range 2 {
			s.check(0, 10)
		}
		s.pass(200 * time.Millisecond)
		o := s.check(0, cost)
		for o.reason == pb.Reason_REASON_UNSPECIFIED {
			s.pass(10 * time.Millisecond)
		}
		v := p.budget(0).Outlook().Judge(cost, p.mono())
		if v.Reason != pb.Reason_REASON_EXHAUSTED || !v.HasRetry {
			t.Errorf("cost %d is answered %v, then %+v", cost, o.reason, v)
			continue
		}
		s.pass(v.RetryIn + moment)
		again := s.check(0, cost)
		s.pass(time.Second)
		if again.reason != pb.Reason_REASON_ALLOWED {
			t.Errorf("cost %d was told to wait %v, and is then answered %v: %v", cost, v.RetryIn, again.reason, s.ledger())
		}
	}
}

// Two regions want more than refill gives. Both get their share of it, and
// together nearly all of it.
func TestStarvedRegionsShareRefill(t *testing.T) {
	for _, capacity := range []int64{1, 5, 40} {
		s := newScript(t, 2, bucket(capacity, 10), nil)
		got := [2][]*outcome{}
		for range 600 {
			for site := range 2 {
				got[site] = append(got[site], s.check(site, 1))
			}
			s.pass(100 * time.Millisecond)
		}
		s.pass(3 * time.Second)
		one, two := allowed(got[0]), allowed(got[1])
		for i, o := range slices.Concat(got[0], got[1]) {
			if o.reason == pb.Reason_REASON_UNAVAILABLE {
				t.Errorf("capacity %d: check %d is told that nobody answers, and the broker does", capacity, i)
			}
		}
		t.Logf("capacity %d: %d and %d of 600 were admitted in a minute, with refill for 600", capacity, one, two)
		if min(one, two)*3 < max(one, two) {
			t.Errorf("capacity %d: %d in one region, %d in the other", capacity, one, two)
		}
		if capacity >= 40 && one+two < 400 {
			t.Errorf("capacity %d: %d were admitted in a minute, refill was enough for 600", capacity, one+two)
		}
	}
}
