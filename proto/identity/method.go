package identity

import (
	"path"
	"slices"
	"strings"

	connectpb "github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// Sets of roles that methods are open to.
const (
	// nobody is for what is in no table.
	nobody Roles = 0
	// seeing is reading as operators do.
	seeing = Viewer | Operator | Broker
	// acting is changing what operators may change.
	acting = Operator | Broker
	// taking is taking credit.
	taking = Holder | Broker
	// anybody is every role, and certificates without one too.
	anybody Roles = 1<<8 - 1
)

// methods are the roles that each method of each service is open to. One that
// does not stand here is closed.
var methods = map[string]Roles{
	connectpb.BrokerRegisterProcedure: taking,
	connectpb.BrokerSyncProcedure:     taking,
	connectpb.BrokerWatchProcedure:    taking,

	connectpb.LimiterCheckProcedure:       Gateway,
	connectpb.LimiterCheckBatchProcedure:  Gateway,
	connectpb.LimiterCheckStreamProcedure: Gateway,
	connectpb.LimiterReserveProcedure:     Gateway,
	connectpb.LimiterSettleProcedure:      Gateway,

	connectpb.AdminListBudgetsProcedure:       seeing,
	connectpb.AdminShowBudgetProcedure:        seeing,
	connectpb.AdminListGrantsProcedure:        seeing,
	connectpb.AdminShowGrantProcedure:         seeing,
	connectpb.AdminExplainGrantProcedure:      seeing,
	connectpb.AdminListHoldersProcedure:       seeing,
	connectpb.AdminShowHolderProcedure:        seeing,
	connectpb.AdminTopBudgetsProcedure:        seeing,
	connectpb.AdminListShardsProcedure:        seeing,
	connectpb.AdminListAuditProcedure:         seeing,
	connectpb.AdminShowClusterProcedure:       seeing,
	connectpb.AdminListPoliciesProcedure:      seeing,
	connectpb.AdminListAccountsProcedure:      seeing,
	connectpb.AdminShowPolicyStatusProcedure:  seeing,
	connectpb.AdminListPolicyHistoryProcedure: seeing,
	connectpb.AdminVerifyProcedure:            seeing,
	connectpb.AdminShowRestoreProcedure:       seeing,

	connectpb.AdminWhoAmIProcedure: anybody, // with a certificate: it is how to find out what that gives

	connectpb.AdminRetireHolderProcedure:     acting,
	connectpb.AdminResolveGrantProcedure:     acting,
	connectpb.AdminMoveShardProcedure:        acting,
	connectpb.AdminApplyPoliciesProcedure:    acting,
	connectpb.AdminRollbackPoliciesProcedure: acting,
	connectpb.AdminDisableOperationProcedure: acting,
	connectpb.AdminEnableOperationProcedure:  acting,
	connectpb.AdminDeclareRestoreProcedure:   acting,
	connectpb.AdminAttestRestoreProcedure:    acting,
}

// Methods are the methods of a service, such as tokenleasev1connect.AdminName,
// that roles may call, in order of their names. A certificate without a role may
// call those that are open to every certificate. Those of which a role may only make
// dry runs are not among them.
func Methods(service string, roles Roles) []string {
	return methodsOf(service, func(open Roles) bool { return open == anybody || open.Has(roles) })
}

// AllMethods are all methods of a service, in order of their names.
func AllMethods(service string) []string {
	return methodsOf(service, func(Roles) bool { return true })
}

func methodsOf(service string, pass func(open Roles) bool) []string {
	var names []string
	for procedure, open := range methods {
		if name, ok := strings.CutPrefix(procedure, "/"+service+"/"); ok && pass(open) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// methodName is what metrics and messages call a procedure: its own name if it is
// a method of tokenlease, so that there are not more of them than methods.
func methodName(procedure string) string {
	if _, known := methods[procedure]; known {
		return path.Base(procedure)
	}
	return "other"
}
