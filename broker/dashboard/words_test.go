package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/proto/inforce"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// wire is a message as the page gets it.
func wire(t *testing.T, m proto.Message) string {
	t.Helper()
	all, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// TestFieldsAsInFiles: the page names and writes the fields of policies as policy files
// have them.
func TestFieldsAsInFiles(t *testing.T) {
	s := newServer(t, newWorld(1))
	b := newTab(t, 1280)
	b.open(s.ui(""))
	shadow := bucketRule(0, 0)
	shadow.Shadow, shadow.AllowZeroCost, shadow.DefaultCostTokens, shadow.MaxSharePercent = true, true, 0, 35
	shadow.Local = &pb.LocalAllowance{CapacityTokens: 5, RefillTokens: 3, RefillIntervalNs: int64(1500 * time.Millisecond), ForNs: int64(10 * time.Minute)}
	shadow.OnUnavailable = pb.Unavailability_UNAVAILABILITY_LOCAL
	off := withDeadline(bucketRule(1_000_000_000_000_000_000, 7))
	off.Disabled, off.DisabledBecause, off.MaxStalenessNs, off.ReclaimMarginNs = true, `<b>abuse</b>`, int64(24*time.Hour), int64(90*time.Second)
	fixed := &pb.Policy{DefaultCostTokens: 1, Reclaim: pb.Reclaim_RECLAIM_PROOF, MaxStalenessNs: int64(5 * time.Second), Rule: &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{LimitTokens: 9, Period: pb.Period_PERIOD_MONTH, TimeZone: "Europe/Berlin"}}}
	all := []*pb.Policy{shadow, off, fixed, {DefaultCostTokens: 1, HoldNs: int64(time.Minute), Rule: &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{Period: pb.Period_PERIOD_DAY}}}}
	for i := range 6 {
		all = append(all, madeUpBudget(i).GetPolicy())
	}
	for _, p := range all {
		p.Operation = "report.create"
		var want []string
		for _, f := range policyfile.Fields(p) {
			want = append(want, f.Name+"="+f.Value)
		}
		got := eval[[]string](b, fmt.Sprintf(`import(new URL("policyfields.js", document.baseURI)).then((m) => m.fields(%s).map((f) => f.join("=")))`, wire(t, p)))
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the page has\n%q, files have\n%q", got, want)
		}
	}
}

// TestInForceAsCommandsTell: the page finds what rules an account as the commands do.
func TestInForceAsCommandsTell(t *testing.T) {
	s := newServer(t, newWorld(1))
	b := newTab(t, 1280)
	b.open(s.ui(""))
	policies := func(version int64, operations ...string) (all []*pb.Policy) {
		for _, operation := range operations {
			all = append(all, &pb.Policy{Operation: operation, Version: version})
		}
		return all
	}
	listed := &pb.ListPoliciesResponse{
		Policies:    policies(1, "create", "read"),
		Plans:       []*pb.Plan{{Name: "free", Policies: policies(2, "create")}, {Name: "premium", Policies: policies(3, "create", "render")}},
		DefaultPlan: "free",
		Disabled:    []*pb.DisabledOperation{{Operation: "login"}, {Operation: "read"}},
	}
	bare := &pb.ListPoliciesResponse{Policies: policies(1, "create")}
	for _, own := range []*pb.AccountPolicies{
		nil, {Account: "a", Plan: "premium"}, {Account: "a", Plan: "premium", Policies: policies(4, "create", "write")}, {Account: "a", Plan: "gone"}, {Account: "a", Plan: "gone", Policies: policies(5, "read")},
	} {
		for _, listed := range []*pb.ListPoliciesResponse{listed, bare, {}} {
			want := []string{inforce.PlanOf(listed, own)}
			for _, operation := range inforce.Operations(listed, own) {
				e := inforce.ForAccount(listed, own, operation)
				want = append(want, fmt.Sprintf("%s %d %t", operation, e.Policy.GetVersion(), e.Disabled != nil))
			}
			of := "undefined"
			if own != nil {
				of = wire(t, own)
			}
			got := eval[[]string](b, fmt.Sprintf(`import(new URL("inforce.js", document.baseURI)).then((m) => [m.planOf(%[1]s, %[2]s), ...m.inForce(%[1]s, %[2]s).map((e) => e.operation + " " + Number(e.policy?.version ?? 0) + " " + Boolean(e.disabled))])`, wire(t, listed), of))
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("of %v the page has %q, the commands have %q", own, got, want)
			}
		}
	}
}
