package plainconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/inforce"
	"github.com/tokenlease/tokenlease/proto/jsonbody"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// limit is what rules one operation.
type limit struct {
	Account   string          `json:"account,omitempty"`
	Operation string          `json:"operation"`
	From      string          `json:"from,omitempty"` // account, plan or everybody; empty: there is no policy
	Plan      string          `json:"plan,omitempty"` // of the account
	Version   int64           `json:"version,omitempty"`
	Limit     json.RawMessage `json:"limit,omitempty"` // as a policy in a file
	Disabled  *disabled       `json:"disabled,omitempty"`
}

// disabled says that an operator has disabled the operation for everybody.
type disabled struct {
	Because string `json:"because"`
	By      string `json:"by"`
	Since   string `json:"since"`
}

// limitOf is what rules an operation, in JSON.
func limitOf(operation string, e inforce.Effective) limit {
	l := limit{Operation: operation}
	if e.Policy != nil {
		l.From, l.Limit = "everybody", policyfile.JSON(e.Policy)
	}
	if e.Policy.GetPlan() != "" {
		l.From = "plan"
	}
	if e.Policy.GetAccount() != "" {
		l.From = "account"
	}
	if d := e.Disabled; d != nil {
		l.Disabled = &disabled{d.GetBecause(), d.GetDisabledBy(), time.UnixMilli(d.GetSinceUnixMs()).UTC().Format(time.RFC3339)}
	}
	return l
}

// limit answers what rules one operation of one account.
func (a *API) limit(_ http.ResponseWriter, req *http.Request) (int, any, error) {
	q, err := queryOf(req, "account", "operation")
	if err != nil {
		return 0, nil, err
	}
	key := &pb.BudgetKey{Account: q["account"], Operation: q["operation"]}
	if err := key.Validate(); err != nil {
		return 0, nil, err
	}
	listed, own, err := a.inForce(req.Context(), key.GetAccount())
	if err != nil {
		return 0, nil, err
	}
	e := inforce.ForAccount(listed, own, key.GetOperation())
	if e.Policy == nil {
		return 0, nil, &jsonbody.Rejection{
			Status: http.StatusNotFound, Detail: fmt.Sprintf("no policy rules the operation for this account, so all of it is denied: %s lists those that are ruled", LimitsPath),
		}
	}
	l := limitOf(key.GetOperation(), e)
	l.Account, l.Plan, l.Version = key.GetAccount(), inforce.PlanOf(listed, own), listed.GetVersion()
	return http.StatusOK, l, nil
}

// accountLimits is what rules every operation of one account.
type accountLimits struct {
	Account string  `json:"account"`
	Plan    string  `json:"plan,omitempty"`
	Version int64   `json:"version"`
	Limits  []limit `json:"limits"`
}

// allLimits is what is in force for everybody and for plans.
type allLimits struct {
	Version     int64        `json:"version"`
	Limits      []limit      `json:"limits"`
	Plans       []planLimits `json:"plans"`
	DefaultPlan string       `json:"default-plan,omitempty"`
}

// planLimits are the limits of a plan, as they are put.
type planLimits struct {
	Plan   string            `json:"plan"`
	Limits []json.RawMessage `json:"limits"`
}

// limits answers what rules an account, or everybody and the plans.
func (a *API) limits(_ http.ResponseWriter, req *http.Request) (int, any, error) {
	q, err := queryOf(req, "account")
	if err != nil {
		return 0, nil, err
	}
	account, given := q["account"]
	if given {
		if err := (&pb.BudgetKey{Account: account, Operation: "any"}).Validate(); err != nil {
			return 0, nil, err
		}
	}
	listed, own, err := a.inForce(req.Context(), account)
	if err != nil {
		return 0, nil, err
	}
	if given {
		all := accountLimits{Account: account, Plan: inforce.PlanOf(listed, own), Version: listed.GetVersion(), Limits: []limit{}}
		for _, operation := range inforce.Operations(listed, own) {
			all.Limits = append(all.Limits, limitOf(operation, inforce.ForAccount(listed, own, operation)))
		}
		return http.StatusOK, all, nil
	}
	return http.StatusOK, everything(listed), nil
}

// everything is all that is in force for everybody and for plans.
func everything(listed *pb.ListPoliciesResponse) allLimits {
	all := allLimits{Version: listed.GetVersion(), Limits: []limit{}, Plans: []planLimits{}, DefaultPlan: listed.GetDefaultPlan()}
	everybody := &pb.ListPoliciesResponse{Policies: listed.GetPolicies(), Disabled: listed.GetDisabled()}
	for _, operation := range inforce.Operations(everybody, nil) {
		all.Limits = append(all.Limits, limitOf(operation, inforce.ForAccount(everybody, nil, operation)))
	}
	for _, plan := range listed.GetPlans() {
		p := planLimits{Plan: plan.GetName(), Limits: []json.RawMessage{}}
		for _, policy := range plan.GetPolicies() {
			p.Limits = append(p.Limits, policyfile.JSON(policy))
		}
		all.Plans = append(all.Plans, p)
	}
	return all
}

// inForce reads the policies, and then what an account has of its own: its name alone
// if that is nothing. An empty name is of no account.
func (a *API) inForce(ctx context.Context, account string) (*pb.ListPoliciesResponse, *pb.AccountPolicies, error) {
	listed, err := a.admin.ListPolicies(ctx, connect.NewRequest(&pb.ListPoliciesRequest{}))
	if err != nil {
		return nil, nil, err
	}
	if account == "" {
		return listed.Msg, nil, nil
	}
	own := &pb.AccountPolicies{Account: account}
	page, err := a.admin.ListAccounts(ctx, connect.NewRequest(&pb.ListAccountsRequest{Account: account}))
	if err != nil {
		return nil, nil, err
	}
	for _, found := range page.Msg.GetAccounts() {
		if found.GetAccount() == account {
			own = found
		}
	}
	return listed.Msg, own, nil
}
