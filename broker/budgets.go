package broker

import (
	"context"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ListBudgets implements tokenleasev1connect.AdminHandler.
func (s adminService) ListBudgets(ctx context.Context, req *connect.Request[pb.ListBudgetsRequest]) (*connect.Response[pb.ListBudgetsResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	unusable := v.past()
	var records []record.Budget
	l := listing{
		filters: []string{"budgets", m.GetAccount(), m.GetOperation(), m.GetSearch()},
		token:   m.GetPageToken(), size: m.GetPageSize(),
		spans: s.b.budgetSpans(m.GetAccount(), m.GetOperation()),
		take: func(kv store.KeyValue) (bool, error) {
			r, err := record.Decode[record.Budget](kv)
			if err != nil {
				return false, v.damaged(err)
			}
			records = append(records, r)
			return true, nil
		},
	}
	if m.GetOperation() != "" || m.GetSearch() != "" {
		l.pass = func(key string) (bool, string) {
			account, operation := budgetOf(key)
			return matches(m.GetOperation(), operation) && (contains(account, m.GetSearch()) || contains(operation, m.GetSearch())), ""
		}
	}
	next, err := v.list(l)
	if err == nil {
		err = v.readGrants(records)
	}
	if err != nil {
		return nil, wireError(err)
	}
	resp := &pb.ListBudgetsResponse{NextPageToken: next}
	for _, r := range records {
		budget, err := v.budget(r, false)
		if err == nil {
			resp.Budgets = append(resp.Budgets, budget)
		}
		if err := v.damaged(err); err != nil {
			return nil, wireError(err)
		}
	}
	resp.Revision, resp.Unusable, resp.UnusableCount = v.revision, unusable.first, unusable.count()
	return connect.NewResponse(resp), nil
}

// budgetSpans is where the budgets of the account and operation are stored; either
// may be empty for all.
func (b *Broker) budgetSpans(account, operation string) []span {
	if account != "" && operation != "" {
		key := lease.Key{Account: account, Operation: operation}
		at := b.layout.Budget(lease.ShardOf(key, b.cluster.Shards), key)
		return []span{{at, at + "\x00"}}
	}
	spans := make([]span, 0, b.cluster.Shards)
	for id := range b.cluster.Shards {
		prefix := b.layout.Budgets(id)
		if account != "" {
			prefix = b.layout.BudgetsOf(id, account)
		}
		from, end := record.All(prefix)
		spans = append(spans, span{from, end})
	}
	return spans
}

// budgetOf is the account and operation in the key of a budget's record.
func budgetOf(key string) (account, operation string) {
	path := key[:strings.LastIndexByte(key, '/')]
	account, _ = url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	operation, _ = url.PathUnescape(key[len(path)+1:])
	return account, operation
}

// ShowBudget implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowBudget(ctx context.Context, req *connect.Request[pb.ShowBudgetRequest]) (*connect.Response[pb.ShowBudgetResponse], error) {
	b, v := s.b, s.b.view(ctx)
	key := lease.Key{Account: req.Msg.GetKey().GetAccount(), Operation: req.Msg.GetKey().GetOperation()}
	kv, err := v.get(b.layout.Budget(lease.ShardOf(key, b.cluster.Shards), key))
	if err != nil {
		return nil, wireError(err)
	}
	if kv == nil {
		return nil, connect.NewError(connect.CodeNotFound, v.unrecorded(key))
	}
	r, err := record.Decode[record.Budget](*kv)
	if err != nil {
		return nil, wireError(err)
	}
	unusable := v.past() // what it shows without
	if err := v.readGrants([]record.Budget{r}); err != nil {
		return nil, wireError(err)
	}
	budget, err := v.budget(r, true)
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ShowBudgetResponse{
		Budget: budget, Revision: v.revision, Unusable: unusable.first, UnusableCount: unusable.count(),
	}), nil
}
