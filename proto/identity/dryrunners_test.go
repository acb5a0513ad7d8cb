package identity

import (
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	connectpb "github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// A dry run is of a method that is known to have them, and of a message that says so.
func TestDryRunners(t *testing.T) {
	for _, test := range []struct {
		what, procedure string
		msg             any
		want            Roles
	}{
		{"a dry run", connectpb.AdminApplyPoliciesProcedure, &pb.ApplyPoliciesRequest{DryRun: true}, Viewer},
		{"a real run", connectpb.AdminApplyPoliciesProcedure, &pb.ApplyPoliciesRequest{}, nobody},
		{"no message, as when a stream begins", connectpb.AdminApplyPoliciesProcedure, nil, nobody},
		{"an empty message", connectpb.AdminApplyPoliciesProcedure, (*pb.ApplyPoliciesRequest)(nil), nobody},
		{"a message of another type", connectpb.AdminApplyPoliciesProcedure, &emptypb.Empty{}, nobody},
		{"a message that is not by reference", connectpb.AdminApplyPoliciesProcedure, true, nobody},
		{"a method that is not known to have them", connectpb.AdminMoveShardProcedure, &pb.ApplyPoliciesRequest{DryRun: true}, nobody},
		{"no method", "/tokenlease.v1.Admin/Other", &pb.ApplyPoliciesRequest{DryRun: true}, nobody},
	} {
		if got := dryRunners(test.procedure, test.msg); got != test.want {
			t.Errorf("%s may be made by %v, want %v", test.what, got, test.want)
		}
	}
}
