package shard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
)

// fellBack is an owner that has granted 10 of 40 tokens to eu, and has then heard
// of a newer head than its store has.
func fellBack(t *testing.T, refill int64) *rig {
	t.Helper()
	r := newOldRig(t, 40, refill)
	requireIssued(t, r.sync(asking(eu, "acme", 1, 10)), 10)
	evidence := asking(eu, "acme", 90, 1)
	evidence.Budgets = nil
	evidence.HighestHead = 1 << 40
	r.send(evidence)
	if r.settle(); !r.shard.SetBack() {
		t.Fatal("a newer head does not set the shard back")
	}
	return r
}

// An owner that was found to be set back, and serves again after the declaration,
// knows nothing any more of what it knew: nothing is granted before the
// attestation, and what is then granted can be read by the next owner.
func TestDeclaredAtAnOwnerThatWasSetBack(t *testing.T) {
	r := fellBack(t, 20)
	r.declare(second)
	r.shard.ClusterChanged()
	r.settle()
	epoch := r.restart(us, second)
	if a := r.sync(as(epoch, asking(us, "acme", 1, 30))).GetBudgets()[0]; a.GetIssuedTokens() != 0 {
		t.Errorf("%d tokens are granted before the attestation, of a budget whose 40 are unknown", a.GetIssuedTokens())
	}
	r.attest()
	r.settle()
	r.pass(time.Minute)
	requireIssued(t, r.sync(as(epoch, asking(us, "acme", 2, 30))), 30)
	r.own()
	if a := r.sync(as(epoch, asking(us, "acme", 3, 30))).GetBudgets()[0]; a.GetIssuedTokens() < 30 || a.GetEvidence() != 0 {
		t.Errorf("the next owner reads the budget as %v", a)
	}
}

// What the batch had changed that brought the evidence is forgotten too, and not
// taken for written.
func TestSetBackForgetsItsBatch(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.sync(asking(eu, "acme", 1, 1))
	r.send(asking(eu, "acme", 2, 10))
	evidence := asking(us, "beta", 90, 1)
	evidence.Budgets = nil
	evidence.HighestHead = 1 << 40
	r.send(evidence)
	r.settle()
	r.declare(second)
	r.attest()
	r.shard.ClusterChanged()
	r.settle()
	r.pass(time.Minute)
	epoch := r.restart(us, second)
	resp := r.sync(as(epoch, asking(us, "acme", 1, 25)))
	requireIssued(t, resp, 25)
	id := resp.GetBudgets()[0].GetGrantId()
	stored := func(kv string) bool { return strings.Contains(kv, id) }
	if records := r.records(layout.Grants(0)); !slices.ContainsFunc(records, stored) {
		t.Errorf("grant %s was answered and is not stored, only %v", id, records)
	}
}

// A template of an earlier generation does not outlive the restore that lost it,
// even where declaration and attestation are read at once.
func TestTemplatesAreOfOneGeneration(t *testing.T) {
	r := newOldRig(t, 40, 20)
	r.declare(second)
	r.attest()
	epoch := r.restart(us, second)
	r.settle().pass(time.Hour)
	requireIssued(t, r.sync(as(epoch, asking(us, "acme", 1, 10))), 10)
	copied := r.store.Snapshot()
	requireIssued(t, r.sync(as(epoch, asking(us, "beta", 2, 40))), 40) // spent now
	r.store.Restore(copied)
	r.send(as(epoch, asking(us, "acme", 3, 20)))
	r.settle()
	r.era(func(c *record.Cluster) { c.Generation = third })
	r.era(func(c *record.Cluster) { c.Attested = c.Generation })
	r.shard.ClusterChanged()
	r.settle()
	again := r.restart(us, third)
	if a := r.sync(as(again, asking(us, "beta", 1, 40))).GetBudgets()[0]; a.GetIssuedTokens() > 0 {
		t.Errorf("%d tokens are granted at the moment of the attestation", a.GetIssuedTokens())
	}
}
