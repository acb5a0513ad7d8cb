package lease_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// judge decides by definition whether what was admitted stays within the cap: an
// ideal bucket which is full at first, refills exactly, and must never be
// overdrawn. That it never is means the same as this: in every interval of
// length T, at most B + R*T was admitted. (The fall of the bucket over an
// interval is at most B, and refill adds at most R*T; and where an interval of
// admissions exceeds B + R*T, even a bucket that was full at its start is
// overdrawn.)
type judge struct {
	rule  lease.Rule
	now   int64 // real time in nanoseconds
	level *big.Rat
}

func newJudge(rule lease.Rule) *judge { return &judge{rule: rule, level: whole(rule.Capacity)} }

func (j *judge) admit(now, tokens int64) error {
	j.level.Add(j.level, earned(j.rule.Refill, now-j.now))
	if full := whole(j.rule.Capacity); j.level.Cmp(full) > 0 {
		j.level = full
	}
	j.now = now
	if j.level.Sub(j.level, whole(tokens)); j.level.Sign() < 0 {
		return fmt.Errorf("at %d: %d admitted, %v above the cap", now, tokens, j.level.FloatString(6))
	}
	return nil
}

func TestJudge(t *testing.T) {
	j := newJudge(worked())
	for i, tc := range []struct {
		at     time.Duration
		tokens int64
		ok     bool
	}{
		{t9s, 40, true},
		{t9s + t50ms, 1, true},
		{t9s + t1s, 19, true},
		{t9s + t1s + t50ms - 1, 1, false},
	} {
		if err := j.admit(int64(tc.at), tc.tokens); (err == nil) != tc.ok {
			t.Errorf("admission %d: %v", i+1, err)
		}
	}
}
