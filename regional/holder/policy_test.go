package holder

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// versions are the policy versions of the reports from the at-th on.
func (r *rig) versions(at int) (versions []int64) {
	for _, report := range r.reports[at:] {
		versions = append(versions, report.GetPolicyVersion())
	}
	return versions
}

// newer puts another version of the policy in force, and hints.
func (r *rig) newer(change func(*lease.Policy)) {
	p := *r.policy
	p.Rule.Version++
	change(&p)
	r.policy = &p
	r.m.Hint(0, []lease.Key{rigKey}, false)
}

// A new policy is reported once, though nothing is spent; what came with the grant is
// known to the broker and needs no report.
func TestPolicyVersionIsReported(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 10, nil)
	sent := len(r.reports)
	if r.steps(3 * time.Second); len(r.reports) != sent {
		t.Fatalf("without news it reported %v", r.reports[sent:])
	}
	r.newer(func(p *lease.Policy) { p.MaxCost = 7 })
	r.steps(3 * time.Second)
	got := r.versions(sent)
	if len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Fatalf("after the hint it reported versions %v, want 1, then 2 once", got)
	}
	if r.reports[len(r.reports)-1].GetGrantId() == "" {
		t.Error("the report names no grant")
	}
}

// A report that is lost is made again.
func TestPolicyVersionIsReportedAgain(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 10, nil)
	r.level = 100 // it has nothing else to tell
	r.newer(func(p *lease.Policy) { p.MaxCost = 7 })
	r.step(10 * time.Millisecond) // the policy has come
	sent := len(r.reports)
	r.losing = true
	r.steps(2500 * time.Millisecond)
	if got := r.versions(sent); len(got) == 0 || got[0] != 2 {
		t.Fatalf("it reported versions %v, want 2", got)
	}
	r.losing = false
	sent = len(r.reports)
	r.steps(3 * time.Second)
	if got := r.versions(sent); len(got) == 0 || got[len(got)-1] != 2 || r.key().policyUntold() {
		t.Errorf("after a loss it reported versions %v, want 2 again", got)
	}
}

// A policy that is gone: nothing is admitted any more, and the credit goes back.
func TestCreditGoesBackWithoutPolicy(t *testing.T) {
	r := supplied(t, policyOf(lease.TokenBucket, 100), 10, nil)
	held := r.issued
	r.policy = nil
	r.m.Hint(0, []lease.Key{rigKey}, false)
	r.steps(time.Second)
	if r.b.Credit() != 0 || r.free != 100 || held == 0 {
		t.Errorf("credit %d, %d free at the broker, of %d that were issued", r.b.Credit(), r.free, held)
	}
}
