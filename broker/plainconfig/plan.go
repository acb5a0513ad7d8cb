package plainconfig

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/inforce"
	"github.com/tokenlease/tokenlease/proto/jsonbody"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// applied is the answer to a request that changes something.
type applied struct {
	Version  int64    `json:"version"`
	Changes  []change `json:"changes"`
	Warnings []string `json:"warnings,omitempty"`
}

// change is one thing that was changed.
type change struct {
	Subject        string `json:"subject"`
	Operation      string `json:"operation,omitempty"`
	LiveBudgets    int64  `json:"live-budgets,omitempty"`
	RecalledTokens int64  `json:"recalled-tokens,omitempty"`
}

// create makes a plan that is not there yet, or assigns an account that is on no plan
// of its own.
func (a *API) create(rw http.ResponseWriter, req *http.Request) (int, any, error) {
	r, err := bodyOf(rw, req)
	if err != nil {
		return 0, nil, err
	}
	listed, own, err := a.inForce(req.Context(), r.account)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case r.account == "" && inforce.Plan(listed, r.plan) != nil:
		return 0, nil, conflict("the plan is there already: PUT replaces it")
	case own.GetPlan() != "" && own.GetPlan() != r.plan:
		return 0, nil, conflict("the account is on the plan %s: PUT moves it", own.GetPlan())
	}
	answer, err := a.put(req.Context(), r, listed, own)
	return http.StatusCreated, answer, err
}

// replace makes or replaces a plan, or assigns an account whatever plan it is on.
func (a *API) replace(rw http.ResponseWriter, req *http.Request) (int, any, error) {
	r, err := bodyOf(rw, req)
	if err != nil {
		return 0, nil, err
	}
	listed, own, err := a.inForce(req.Context(), r.account)
	if err != nil {
		return 0, nil, err
	}
	answer, err := a.put(req.Context(), r, listed, own)
	return http.StatusOK, answer, err
}

// put puts the plan in force, or the account on it, at the version that was seen: if
// another has come meanwhile, it is refused.
func (a *API) put(ctx context.Context, r planRequest, listed *pb.ListPoliciesResponse, own *pb.AccountPolicies) (applied, error) {
	request := r.apply()
	if r.account != "" {
		inforce.Assign(request, own, r.plan, listed.GetVersion())
		return a.apply(ctx, request)
	}
	request.Plans = []*pb.Plan{{Name: r.plan, Policies: r.limits}}
	if request.GetIfVersion() == 0 {
		request.IfVersion = listed.GetVersion()
	}
	return a.apply(ctx, request)
}

// remove deletes a plan, or takes an account off its plan.
func (a *API) remove(_ http.ResponseWriter, req *http.Request) (int, any, error) {
	r, err := removalOf(req)
	if err != nil {
		return 0, nil, err
	}
	request := r.apply()
	if r.account == "" {
		request.RemovePlans = []string{r.plan}
	} else if err := (&pb.BudgetKey{Account: r.account, Operation: "any"}).Validate(); err != nil {
		return 0, nil, err
	}
	if err := request.Validate(); r.account == "" && err != nil {
		return 0, nil, err
	}
	listed, own, err := a.inForce(req.Context(), r.account)
	switch {
	case err != nil:
		return 0, nil, err
	case r.account == "" && inforce.Plan(listed, r.plan) == nil:
		return 0, nil, &jsonbody.Rejection{Status: http.StatusNotFound, Detail: "there is no such plan: " + LimitsPath + " lists those that are"}
	case r.account != "" && own.GetPlan() == "":
		return 0, nil, &jsonbody.Rejection{Status: http.StatusNotFound, Detail: "the account is on no plan of its own, so on the default plan"}
	case r.account != "":
		inforce.Assign(request, own, "", listed.GetVersion())
	}
	answer, err := a.apply(req.Context(), request)
	return http.StatusOK, answer, err
}

// apply asks the service.
func (a *API) apply(ctx context.Context, request *pb.ApplyPoliciesRequest) (applied, error) {
	if err := request.Validate(); err != nil {
		return applied{}, err
	}
	resp, err := a.admin.ApplyPolicies(ctx, connect.NewRequest(request))
	if err != nil {
		return applied{}, err
	}
	out := applied{Version: resp.Msg.GetVersion(), Changes: []change{}, Warnings: resp.Msg.GetWarnings()}
	for _, c := range resp.Msg.GetChanges() {
		out.Changes = append(out.Changes, change{c.GetSubject(), c.GetOperation(), c.GetLiveBudgets(), c.GetRecalledTokens()})
	}
	return out, nil
}

// conflict is a refusal because of what is in force.
func conflict(format string, args ...any) error {
	return &jsonbody.Rejection{Status: http.StatusConflict, Detail: fmt.Sprintf(format, args...)}
}
