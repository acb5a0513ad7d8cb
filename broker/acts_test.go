package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The log tells what was changed and what was refused, by whom and why. It does not
// tell dry runs, or what was only looked at.
func TestActsAreLogged(t *testing.T) {
	var log bytes.Buffer // written by handlers that have returned when it is read
	s := newSite(t, store.NewMemory(), 1)
	n := s.start("a", func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).ready()
	_, err := n.admin.DisableOperation(s.ctx, connect.NewRequest(&pb.DisableOperationRequest{Operation: "login", DisabledBy: "ann", Because: "incident 12"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.admin.ListPolicies(s.ctx, connect.NewRequest(&pb.ListPoliciesRequest{})); err != nil {
		t.Fatal(err)
	}
	_, err = n.admin.ResolveGrant(s.ctx, connect.NewRequest(&pb.ResolveGrantRequest{GrantId: "g1-000-00000001", AttestedBy: "ben", Because: "gone"}))
	requireCode(t, err, connect.CodeNotFound)
	rollback := &pb.RollbackPoliciesRequest{ToVersion: 9, AppliedBy: "cy", Because: "look", DryRun: true}
	if _, err := n.admin.RollbackPolicies(s.ctx, connect.NewRequest(rollback)); err == nil {
		t.Error("a version that never was is rolled back to")
	}
	if _, err := n.admin.EnableOperation(s.ctx, connect.NewRequest(&pb.EnableOperationRequest{Operation: "logout", EnabledBy: "dee"})); err != nil {
		t.Fatal(err)
	}
	if _, err := n.admin.ApplyPolicies(s.ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{AppliedBy: "eve", RemoveOperations: []string{"logout"}})); err != nil {
		t.Fatal(err)
	}
	n.stop()
	var acts []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, " method=") {
			acts = append(acts, line)
		}
	}
	if len(acts) != 4 || !strings.Contains(acts[0], `msg="a change was made" method=DisableOperation by=ann verified=false because="incident 12"`) ||
		!strings.Contains(acts[1], `msg="a change was not made" method=ResolveGrant by=ben verified=false because=gone error="not_found`) ||
		!strings.Contains(acts[2], `msg="nothing was changed: it was so already" method=EnableOperation by=dee`) ||
		!strings.Contains(acts[3], `msg="nothing was changed: it was so already" method=ApplyPolicies by=eve`) {
		t.Errorf("the log has %q", acts)
	}
}
