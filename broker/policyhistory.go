package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/policyset"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ListPolicyHistory implements tokenleasev1connect.AdminHandler. Versions that are
// kept have no gaps, so a page is a range of versions.
func (s adminService) ListPolicyHistory(ctx context.Context, req *connect.Request[pb.ListPolicyHistoryRequest]) (*connect.Response[pb.ListPolicyHistoryResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	set, err := v.policySet()
	if err != nil {
		return nil, wireError(err)
	}
	below := set.Version + 1
	if m.GetPageToken() != "" {
		below, err = strconv.ParseInt(m.GetPageToken(), 10, 64)
		if err != nil || below < 1 {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: not one that was returned by a page before"))
		}
	}
	size := int64(min(m.GetPageSize(), maxPage))
	if size == 0 {
		size = defaultPage
	}
	from := max(1, below-size)
	history, err := v.history(from, below)
	if err != nil {
		return nil, wireError(err)
	}
	resp := &pb.ListPolicyHistoryResponse{Version: set.Version, Revision: v.revision}
	for _, h := range slices.Backward(history) {
		resp.Versions = append(resp.Versions, historyToWire(h))
	}
	if len(history) > 0 && history[0].Version == from && from > 1 {
		resp.NextPageToken = strconv.FormatInt(from, 10)
	}
	return connect.NewResponse(resp), nil
}

// history are the changes that are kept of the versions from one to below another,
// in order.
func (v *view) history(from, below int64) (history []record.History, err error) {
	_, _, err = v.walk(v.b.layout.History(from), v.b.layout.History(below), func(kv store.KeyValue) (bool, error) {
		h, err := record.Decode[record.History](kv)
		history = append(history, h)
		return true, err
	})
	return history, err
}

func historyToWire(h record.History) *pb.PolicyVersion {
	out := &pb.PolicyVersion{Version: h.Version, Action: h.Action, By: h.By, Because: h.Because, UnixMs: h.UnixMs, ToVersion: h.To}
	for _, c := range h.Changes {
		out.Changes = append(out.Changes, changeToWire(c))
	}
	return out
}

// RollbackPolicies implements tokenleasev1connect.AdminHandler.
func (s adminService) RollbackPolicies(ctx context.Context, req *connect.Request[pb.RollbackPoliciesRequest]) (*connect.Response[pb.RollbackPoliciesResponse], error) {
	m := req.Msg
	w := wish{action: "rollback", by: m.GetAppliedBy(), because: m.GetBecause(), to: m.GetToVersion(), ifVersion: m.GetIfVersion(), dryRun: m.GetDryRun()}
	d, err := s.b.changePolicies(ctx, w, func(v *view) (edit, error) { return v.rollback(m.GetToVersion()) })
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.RollbackPoliciesResponse{
		Version: d.inForce(w), Changes: d.toWire(), Warnings: d.warnings(), DryRun: w.dryRun, Revision: d.revision,
	}), nil
}

// rollback is the edit that brings back what was in force at a version: of
// everything that was changed after it, what was there before its first change. An
// operation that is disabled stays so: that is ended by enabling it.
func (v *view) rollback(to int64) (e edit, err error) {
	set, err := v.policySet()
	if err != nil {
		return e, err
	}
	if to >= set.Version {
		return e, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("to_version: must be below the version in force, %d, is %d", set.Version, to))
	}
	history, err := v.history(to+1, set.Version+1)
	if err != nil {
		return e, err
	}
	if int64(len(history)) != set.Version-to {
		kept := "none is kept"
		if len(history) > 0 {
			kept = fmt.Sprintf("the oldest version to go back to is %d", history[0].Version-1)
		}
		return e, fmt.Errorf("%w: version %d; %s", ErrNotKept, to, kept)
	}
	u := undo{set: set, seen: map[record.Change]bool{}, plans: map[string]*earlierPlan{}, accounts: map[string]*earlierAccount{}}
	for _, h := range history {
		for _, c := range h.Changes {
			u.take(c)
		}
	}
	return u.edit(v)
}

// undo collects what was there before the first change of everything.
type undo struct {
	edit0    edit
	set      *policyset.Set
	seen     map[record.Change]bool // by subject, name and operation
	plans    map[string]*earlierPlan
	accounts map[string]*earlierAccount
}

// earlierPlan is what is known of a plan as it was; the rest is as it is.
type earlierPlan struct {
	known, existed bool // whether it was there at all
	policies       map[string]*lease.Policy
}

// earlierAccount is likewise of an account.
type earlierAccount struct {
	plan     *string
	policies map[string]*lease.Policy
}

func (u *undo) take(c record.Change) {
	first := record.Change{Subject: c.Subject, Name: c.Name, Operation: c.Operation}
	if u.seen[first] {
		return
	}
	u.seen[first] = true
	switch c.Subject {
	case record.OfEverybody:
		if c.Before == nil {
			u.edit0.removePolicies = append(u.edit0.removePolicies, c.Operation)
		} else {
			u.edit0.policies = append(u.edit0.policies, *c.Before)
		}
	case record.OfPlan:
		p := u.plans[c.Name]
		if p == nil {
			p = &earlierPlan{policies: map[string]*lease.Policy{}}
			u.plans[c.Name] = p
		}
		if c.Operation == "" {
			p.known, p.existed = true, c.Was != ""
		} else {
			p.policies[c.Operation] = c.Before
		}
	case record.OfAccount:
		a := u.accounts[c.Name]
		if a == nil {
			a = &earlierAccount{policies: map[string]*lease.Policy{}}
			u.accounts[c.Name] = a
		}
		if c.Operation == "" {
			a.plan = &c.Was
		} else {
			a.policies[c.Operation] = c.Before
		}
	case record.OfDefault:
		u.edit0.defaultPlan = &c.Was
	case record.OfOperation:
	}
}

// edit is what brings all of it back.
func (u *undo) edit(v *view) (edit, error) {
	e := u.edit0
	for _, name := range sortedKeys(u.plans) {
		was := u.plans[name]
		if was.known && !was.existed {
			e.removePlans = append(e.removePlans, name)
			continue
		}
		now, _ := u.set.Plan(name)
		e.plans = append(e.plans, record.Plan{Name: name, Policies: asWas(now.Policies, was.policies)})
	}
	names := sortedKeys(u.accounts)
	accounts, err := v.accountsOf(names)
	if err != nil {
		return e, err
	}
	for _, name := range names {
		was, now := u.accounts[name], accounts[name]
		plan := now.Plan
		if was.plan != nil {
			plan = *was.plan
		}
		e.accounts = append(e.accounts, record.Account{Account: name, Plan: plan, Policies: asWas(now.Policies, was.policies)})
	}
	return e, nil
}

// asWas are policies as they are, but for those that are known to have been others,
// or none.
func asWas(now []lease.Policy, was map[string]*lease.Policy) (policies []lease.Policy) {
	for _, p := range now {
		if _, changed := was[p.Operation]; !changed {
			policies = append(policies, p)
		}
	}
	for _, operation := range sortedKeys(was) {
		if p := was[operation]; p != nil {
			policies = append(policies, *p)
		}
	}
	return policies
}
