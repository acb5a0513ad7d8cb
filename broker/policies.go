package broker

import (
	"context"
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
	resp := &pb.ListPoliciesResponse{}
	err := v.each(s.b.layout.Policies(), func(kv store.KeyValue) error {
		p, err := record.Decode[lease.Policy](kv)
		resp.Policies = append(resp.Policies, policywire.To(p))
		return err
	})
	if err != nil {
		return nil, wireError(err)
	}
	resp.Revision = v.revision
	return connect.NewResponse(resp), nil
}

// ApplyPolicies implements tokenleasev1connect.AdminHandler. The policies and
// their audit entry are written in one transaction that compares what was read,
// so a concurrent change makes it start over, and a repeated one changes
// nothing.
func (s adminService) ApplyPolicies(ctx context.Context, req *connect.Request[pb.ApplyPoliciesRequest]) (*connect.Response[pb.ApplyPoliciesResponse], error) {
	wanted := make([]lease.Policy, 0, len(req.Msg.GetPolicies()))
	for i, p := range req.Msg.GetPolicies() {
		policy := policywire.From(p)
		if err := policy.Validate(); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("policies[%d]: %w", i, err))
		}
		wanted = append(wanted, policy)
	}
	for {
		resp, done, err := s.b.applyPolicies(ctx, wanted, req.Msg)
		if err != nil {
			return nil, wireError(err)
		}
		if done {
			return connect.NewResponse(resp), nil
		}
	}
}

// applyPolicies makes one attempt; done is false when something changed in
// between.
func (b *Broker) applyPolicies(ctx context.Context, wanted []lease.Policy, req *pb.ApplyPoliciesRequest) (resp *pb.ApplyPoliciesResponse, done bool, err error) {
	now := b.cfg.Clock.Now().UnixMilli()
	resp = &pb.ApplyPoliciesResponse{}
	var txn store.Txn
	var before, after []lease.Policy
	v := b.view(ctx)
	for _, policy := range wanted {
		key := b.layout.Policy(policy.Operation)
		kv, err := v.get(key)
		if err != nil {
			return nil, false, err
		}
		var current lease.Policy
		var revision int64
		if kv != nil {
			if current, err = record.Decode[lease.Policy](*kv); err != nil {
				return nil, false, err
			}
			revision = kv.ModRevision
		}
		txn.If = append(txn.If, store.Compare{Key: key, Target: store.ModRevision, Revision: revision})
		if kv != nil && policy.SameTerms(current) {
			resp.Policies = append(resp.Policies, policywire.To(current))
			continue
		}
		policy.Rule.Version, policy.UpdatedUnixMs = current.Rule.Version+1, now
		txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: key, Value: record.Encode(policy)})
		before, after = append(before, current), append(after, policy)
		resp.Policies = append(resp.Policies, policywire.To(policy))
		resp.Changed = append(resp.Changed, policy.Operation)
	}
	if len(after) > 0 {
		txn.Then = append(txn.Then, store.Op{
			Kind: store.OpPut, Key: b.layout.Audit(now, "policies.apply-"+randomID()),
			Value: record.Encode(record.Audit{
				UnixMs: now, Action: "policies.apply", By: req.GetAppliedBy(), Because: req.GetBecause(),
				Subject: fmt.Sprint(resp.GetChanged()), Before: before, After: after,
			}),
		})
	}
	res, err := b.cfg.Store.Txn(ctx, txn)
	if err != nil {
		return nil, false, err
	}
	resp.Revision = res.Revision
	return resp, res.Succeeded, nil
}
