package holder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// story is a region as its callers see it, beside a broker that loses answers, calls
// credit back and changes the rule. It counts what was truly spent.
type story struct {
	*rig

	ids   uint64
	open  map[uint64]hold // as the callers believe
	used  int64           // by checks and settlements, debt included
	slots int64           // that were lost with their grant
	// postpaid settlements leave debt, which would be dropped with a change to slots:
	// so a story has the one or the other.
	postpaid bool
}

// truth is what was used for good, counting holds that have lost their claim.
func (s *story) truth() int64 {
	truth := s.used
	for id, h := range s.open {
		if s.b.holds.byID[id] == nil && !h.slots {
			truth += h.tokens
		}
	}
	return truth
}

func (s *story) settle(t *rapid.T, id uint64, cost int64, postpaid bool) {
	h, open := s.open[id]
	got := s.b.Settle(id, cost, postpaid)
	switch {
	case !open && got.Known:
		t.Fatalf("hold %d is settled twice", id)
	case !open || got.Refused:
		return
	case got.Known && !h.slots:
		s.used += cost
	case !got.Known && !h.slots:
		s.used += h.tokens
	case !got.Known:
		s.slots += h.tokens
	}
	delete(s.open, id)
}

func (s *story) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"pass": func(t *rapid.T) {
			s.step(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
		},
		"rest": func(t *rapid.T) {
			s.steps(time.Duration(rapid.IntRange(1, 15).Draw(t, "s")) * time.Second)
		},
		"spend": func(t *rapid.T) {
			cost := rapid.Int64Range(1, 20).Draw(t, "cost")
			if !s.b.SpendAllowed(cost) {
				s.b.Refused(cost)
				return
			}
			if s.policy == nil && s.grant == nil {
				t.Fatal("spent of nothing")
			}
			s.used += cost
		},
		"hold": func(t *rapid.T) {
			o := s.b.Outlook()
			if o == nil || o.Policy == nil {
				s.b.Refused(1)
				return
			}
			s.ids++
			h := hold{tokens: rapid.Int64Range(1, 20).Draw(t, "tokens"), slots: o.Policy.Rule.Kind == lease.Concurrency}
			if h.until = far; !h.slots { // slots that go back in time are not told from those that are lost
				h.until = s.now + time.Duration(rapid.IntRange(1, 30_000).Draw(t, "ms"))*time.Millisecond
			}
			if _, ok := s.b.Hold(s.ids, h.tokens, h.until, h.slots); ok {
				s.open[s.ids] = h
				return
			}
			s.b.Refused(h.tokens)
		},
		"settle": func(t *rapid.T) {
			id := rapid.Uint64Range(1, s.ids+1).Draw(t, "id")
			s.settle(t, id, rapid.Int64Range(0, 40).Draw(t, "cost"), s.postpaid && rapid.Bool().Draw(t, "postpaid"))
		},
		"lose": func(*rapid.T) { s.losing = !s.losing },
		"recall": func(t *rapid.T) {
			s.level = rapid.Int64Range(-1, 20).Draw(t, "level")
			s.m.Hint(0, []lease.Key{rigKey}, false)
		},
		"rule": func(t *rapid.T) {
			kinds := []lease.Kind{"", lease.TokenBucket, lease.RollingWindow, lease.FixedWindow}
			if !s.postpaid {
				kinds = append(kinds, lease.Concurrency)
			}
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			if s.policy = nil; kind != "" {
				s.ids++ // versions only grow
				s.policy = policyOf(kind, 100)
				s.policy.Rule.Version = int64(s.ids)
			}
		},
		"": func(t *rapid.T) {
			told := s.spent
			if s.grant != nil {
				told += s.grant.GetSpentTokens()
			}
			if truth := s.truth(); told+s.charged > truth {
				t.Fatalf("%d told as spent and %d as owed, %d were used", told, s.charged, truth)
			}
			if owing(s.b) {
				t.Fatalf("%d in credit, %d owed", s.b.Credit(), s.b.Debt())
			}
		},
	}
}

// Whatever happens, what a region tells as spent and as owed is never above the truth;
// at its end, when all is told, it is the truth, and every other token is back or is a
// slot in use. So no debt is lost, and none is paid twice.
func TestRegionTellsTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		journal := rapid.SampledFrom([]Journal{JournalOff, JournalBlock, JournalConfirm}).Draw(rt, "journal")
		s := &story{rig: newRig(t, policyOf(lease.TokenBucket, 100), func(c *Config) { c.Journal = journal }), open: map[uint64]hold{}}
		s.postpaid = rapid.Bool().Draw(rt, "postpaid")
		total := s.free
		rt.Repeat(s.actions())
		s.losing = false
		s.steps(5 * time.Second) // what was closed and lost is told again
		s.m.Stop()
		s.steps(5 * time.Second)
		for id := range s.open {
			s.settle(rt, id, 0, false)
		}
		switch {
		case !s.m.Ended() || s.grant != nil:
			rt.Fatalf("the account is not confirmed: %v", s.final)
		case s.spent+s.charged != s.truth() || s.kept != s.slots:
			rt.Fatalf("told: %d spent, %d owed and %d slots in use; truly %d used, and %d", s.spent, s.charged, s.kept, s.truth(), s.slots)
		case s.b.Debt() != 0:
			rt.Fatalf("%d are owed here", s.b.Debt())
		case s.free+s.spent+s.kept != total:
			rt.Fatalf("%d free, %d spent, %d in use, of %d", s.free, s.spent, s.kept, total)
		}
	})
}
