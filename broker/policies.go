package broker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policywire"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ListPolicies implements tokenleasev1connect.AdminHandler.
func (s adminService) ListPolicies(ctx context.Context, _ *connect.Request[pb.ListPoliciesRequest]) (*connect.Response[pb.ListPoliciesResponse], error) {
	v := s.b.view(ctx)
	set, err := v.policySet()
	if err != nil {
		return nil, wireError(err)
	}
	if err := errors.Join(v.faults...); err != nil {
		return nil, wireError(err)
	}
	resp := &pb.ListPoliciesResponse{DefaultPlan: set.Defaults().Plan, Version: set.Version, Revision: v.revision}
	for _, p := range set.Everybody() {
		resp.Policies = append(resp.Policies, policywire.To(p))
	}
	for _, p := range set.Plans() {
		resp.Plans = append(resp.Plans, planToWire(p))
	}
	for _, d := range set.Disabled() {
		if d.Disabled {
			resp.Disabled = append(resp.Disabled, disabledToWire(d))
		}
	}
	return connect.NewResponse(resp), nil
}

// ListAccounts implements tokenleasev1connect.AdminHandler.
func (s adminService) ListAccounts(ctx context.Context, req *connect.Request[pb.ListAccountsRequest]) (*connect.Response[pb.ListAccountsResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	resp := &pb.ListAccountsResponse{}
	start, err := base64.RawURLEncoding.DecodeString(m.GetPageToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: not one that was returned by a page before"))
	}
	size := int(min(m.GetPageSize(), maxPage))
	if size == 0 {
		size = defaultPage
	}
	// The names in keys are escaped byte by byte, so the key of a beginning begins theirs.
	from, end := record.All(s.b.layout.Account(m.GetAccountPrefix()))
	if m.GetAccount() != "" {
		only := s.b.layout.Account(m.GetAccount())
		from, end = max(from, only), min(end, only+"\x00")
	}
	full, last, err := v.walk(max(from, string(start)), end, func(kv store.KeyValue) (bool, error) {
		a, err := record.Decode[record.Account](kv)
		if err == nil && !a.Empty() && matches(m.GetPlan(), a.Plan) {
			resp.Accounts = append(resp.Accounts, accountToWire(a))
		}
		return len(resp.GetAccounts()) < size, err
	})
	if err != nil {
		return nil, wireError(err)
	}
	if !full {
		resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last + "\x00"))
	}
	resp.Revision = v.revision
	return connect.NewResponse(resp), nil
}

// ApplyPolicies implements tokenleasev1connect.AdminHandler.
func (s adminService) ApplyPolicies(ctx context.Context, req *connect.Request[pb.ApplyPoliciesRequest]) (*connect.Response[pb.ApplyPoliciesResponse], error) {
	m := req.Msg
	e, err := editOf(m)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	w := wish{action: "apply", by: m.GetAppliedBy(), because: m.GetBecause(), ifVersion: m.GetIfVersion(), dryRun: m.GetDryRun()}
	d, err := s.b.changePolicies(ctx, w, func(*view) (edit, error) { return e, nil })
	if err != nil {
		return nil, wireError(err)
	}
	resp := &pb.ApplyPoliciesResponse{
		Revision: d.revision, Version: d.inForce(w), Changes: d.toWire(), Warnings: d.warnings(), DryRun: w.dryRun,
	}
	for _, p := range e.policies {
		now, _ := d.after.For(p.Operation)
		resp.Policies = append(resp.Policies, policywire.To(now))
	}
	for _, c := range d.changes {
		if c.Subject == record.OfEverybody {
			resp.Changed = append(resp.Changed, c.Operation)
		}
	}
	return connect.NewResponse(resp), nil
}

// inForce is the policy version that is in force once the draft has been made, or
// was only computed.
func (d *draft) inForce(w wish) int64 {
	if w.dryRun || len(d.changes) == 0 {
		return d.before.Version
	}
	return d.version
}

// editOf reads a validated request.
func editOf(m *pb.ApplyPoliciesRequest) (e edit, err error) {
	if e.policies, err = policiesOf(m.GetPolicies(), "policies"); err != nil {
		return e, err
	}
	for i, p := range m.GetPlans() {
		policies, err := policiesOf(p.GetPolicies(), fmt.Sprintf("plans[%d].policies", i))
		if err != nil {
			return e, err
		}
		e.plans = append(e.plans, record.Plan{Name: p.GetName(), Policies: policies})
	}
	for i, a := range m.GetAccounts() {
		policies, err := policiesOf(a.GetPolicies(), fmt.Sprintf("accounts[%d].policies", i))
		if err != nil {
			return e, err
		}
		e.accounts = append(e.accounts, record.Account{Account: a.GetAccount(), Plan: a.GetPlan(), Policies: policies})
	}
	for _, account := range m.GetRemoveAccounts() {
		e.accounts = append(e.accounts, record.Account{Account: account})
	}
	e.removePolicies, e.removePlans, e.defaultPlan = m.GetRemoveOperations(), m.GetRemovePlans(), m.DefaultPlan
	return e, nil
}

func policiesOf(wire []*pb.Policy, field string) ([]lease.Policy, error) {
	policies := make([]lease.Policy, 0, len(wire))
	for i, p := range wire {
		policy := policywire.From(p)
		policy.Rule.Version, policy.UpdatedUnixMs = 0, 0 // the broker's to set
		if err := policy.Validate(); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

// toWire are the changes of a draft in the form of answers, with what they mean for
// budgets if that was weighed.
func (d *draft) toWire() []*pb.PolicyChange {
	out := make([]*pb.PolicyChange, 0, len(d.changes))
	for i, c := range d.changes {
		wire := changeToWire(c)
		if d.effects != nil {
			wire.LiveBudgets, wire.RecalledTokens = d.effects[i].live, d.effects[i].recalled
		}
		out = append(out, wire)
	}
	return out
}

func changeToWire(c record.Change) *pb.PolicyChange {
	side := func(p *lease.Policy) *pb.Policy {
		if p == nil {
			return nil
		}
		wire := policywire.To(*p)
		switch c.Subject {
		case record.OfPlan:
			wire.Plan = c.Name
		case record.OfAccount:
			wire.Account = c.Name
		case record.OfEverybody, record.OfDefault, record.OfOperation:
		}
		return wire
	}
	out := &pb.PolicyChange{Subject: c.String(), Operation: c.Operation, Before: side(c.Before), After: side(c.After)}
	out.BeforeText, out.AfterText = texts(c)
	return out
}

// DisableOperation implements tokenleasev1connect.AdminHandler.
func (s adminService) DisableOperation(ctx context.Context, req *connect.Request[pb.DisableOperationRequest]) (*connect.Response[pb.DisableOperationResponse], error) {
	m := req.Msg
	by, verified := person(ctx, m.GetDisabledBy())
	over := record.Disabled{Operation: m.GetOperation(), Disabled: true, Because: m.GetBecause(), By: by, Verified: verified}
	w := wish{action: "disable", by: m.GetDisabledBy(), because: m.GetBecause()}
	d, err := s.b.changePolicies(ctx, w, func(*view) (edit, error) { return edit{disabled: &over}, nil })
	if err != nil {
		return nil, wireError(err)
	}
	now, _ := d.after.Disable(m.GetOperation())
	return connect.NewResponse(&pb.DisableOperationResponse{Disabled: disabledToWire(now), Version: d.inForce(w)}), nil
}

// EnableOperation implements tokenleasev1connect.AdminHandler.
func (s adminService) EnableOperation(ctx context.Context, req *connect.Request[pb.EnableOperationRequest]) (*connect.Response[pb.EnableOperationResponse], error) {
	m := req.Msg
	by, verified := person(ctx, m.GetEnabledBy())
	over := record.Disabled{Operation: m.GetOperation(), By: by, Verified: verified}
	w := wish{action: "enable", by: m.GetEnabledBy(), because: m.GetBecause()}
	d, err := s.b.changePolicies(ctx, w, func(*view) (edit, error) { return edit{disabled: &over}, nil })
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.EnableOperationResponse{WasDisabled: len(d.changes) > 0, Version: d.inForce(w)}), nil
}
