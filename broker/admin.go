package broker

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// adminService serves the Admin RPCs. Requests have been validated.
//
// Everything shown is read from the store, at one revision per answer; nothing
// is decided from it.
type adminService struct{ b *Broker }

// ListBudgets implements tokenleasev1connect.AdminHandler.
func (s adminService) ListBudgets(ctx context.Context, req *connect.Request[pb.ListBudgetsRequest]) (*connect.Response[pb.ListBudgetsResponse], error) {
	v := s.b.view(ctx)
	resp := &pb.ListBudgetsResponse{}
	match := func(kv store.KeyValue) (bool, error) {
		r, err := record.Decode[record.Budget](kv)
		if err != nil || !matches(req.Msg.GetAccount(), r.Account) || !matches(req.Msg.GetOperation(), r.Operation) {
			return false, err
		}
		budget, err := v.budget(r, false)
		resp.Budgets = append(resp.Budgets, budget)
		return true, err
	}
	next, err := v.page(s.b.layout.Budgets, req.Msg.GetPageToken(), req.Msg.GetPageSize(), match)
	if err != nil {
		return nil, wireError(err)
	}
	resp.NextPageToken, resp.Revision = next, v.revision
	return connect.NewResponse(resp), nil
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
	budget, err := v.budget(r, true)
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ShowBudgetResponse{Budget: budget, Revision: v.revision}), nil
}

// ListGrants implements tokenleasev1connect.AdminHandler.
func (s adminService) ListGrants(ctx context.Context, req *connect.Request[pb.ListGrantsRequest]) (*connect.Response[pb.ListGrantsResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	resp := &pb.ListGrantsResponse{}
	match := func(kv store.KeyValue) (bool, error) {
		g, err := v.listedGrant(kv)
		if err != nil || g == nil || !matches(m.GetRegion(), g.GetHolder().GetRegion()) || !matches(m.GetInstance(), g.GetHolder().GetInstance()) ||
			!matches(m.GetAccount(), g.GetBudget().GetAccount()) || !matches(m.GetOperation(), g.GetBudget().GetOperation()) ||
			m.GetState() != pb.GrantState_GRANT_STATE_UNSPECIFIED && m.GetState() != g.GetState() {
			return false, err
		}
		resp.Grants = append(resp.Grants, g)
		return true, nil
	}
	prefix, err := v.grants()
	if err != nil {
		return nil, wireError(err)
	}
	next, err := v.page(prefix, m.GetPageToken(), m.GetPageSize(), match)
	if err != nil {
		return nil, wireError(err)
	}
	resp.NextPageToken, resp.Revision = next, v.revision
	return connect.NewResponse(resp), nil
}

// ShowGrant implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowGrant(ctx context.Context, req *connect.Request[pb.ShowGrantRequest]) (*connect.Response[pb.ShowGrantResponse], error) {
	v := s.b.view(ctx)
	r, err := v.find(req.Msg.GetGrantId())
	if err != nil {
		return nil, wireError(err)
	}
	g, err := v.grant(r)
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ShowGrantResponse{Grant: g, Revision: v.revision}), nil
}

// ListHolders implements tokenleasev1connect.AdminHandler.
func (s adminService) ListHolders(ctx context.Context, req *connect.Request[pb.ListHoldersRequest]) (*connect.Response[pb.ListHoldersResponse], error) {
	v := s.b.view(ctx)
	all, err := v.holders(func(h lease.Holder) bool { return matches(req.Msg.GetRegion(), h.Region) })
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ListHoldersResponse{Holders: all, Revision: v.revision}), nil
}

// ShowHolder implements tokenleasev1connect.AdminHandler.
func (s adminService) ShowHolder(ctx context.Context, req *connect.Request[pb.ShowHolderRequest]) (*connect.Response[pb.ShowHolderResponse], error) {
	v := s.b.view(ctx)
	want := lease.Holder{Region: req.Msg.GetHolder().GetRegion(), Instance: req.Msg.GetHolder().GetInstance()}
	all, err := v.holders(func(h lease.Holder) bool { return h == want })
	if err != nil {
		return nil, wireError(err)
	}
	if len(all) == 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("holder %v has never registered; `tokenlease holders list` shows those that have", want))
	}
	resp := &pb.ShowHolderResponse{Status: all[0], Revision: v.revision}
	for id := range s.b.cluster.Shards {
		err := v.each(s.b.layout.GrantsOf(id, want), func(kv store.KeyValue) error {
			r, err := record.Decode[record.Grant](kv)
			if err != nil {
				return err
			}
			if earlier, err := v.earlier(r); err != nil || earlier {
				return err
			}
			g, err := v.grant(r)
			resp.Grants = append(resp.Grants, g)
			return err
		})
		if err != nil {
			return nil, wireError(err)
		}
	}
	return connect.NewResponse(resp), nil
}

// ResolveGrant implements tokenleasev1connect.AdminHandler.
func (s adminService) ResolveGrant(ctx context.Context, req *connect.Request[pb.ResolveGrantRequest]) (*connect.Response[pb.ResolveGrantResponse], error) {
	b, m := s.b, req.Msg
	r, err := b.view(ctx).find(m.GetGrantId())
	if err != nil {
		return nil, wireError(err)
	}
	id, err := lease.ParseGrantID(r.ID)
	if err != nil {
		return nil, wireError(err)
	}
	local, remote, err := b.owner(ctx, req.Header(), id.Shard)
	if err != nil {
		return nil, wireError(err)
	}
	if local == nil {
		resp, err := b.peers.at(remote.URL).admin.ResolveGrant(ctx, passOn(b, m))
		return resp, relayed(ctx, err)
	}
	if m.GetRetireEpoch() {
		word := record.Audit{UnixMs: b.cfg.Clock.Now().UnixMilli(), By: m.GetAttestedBy(), Because: m.GetBecause()}
		if err := retire(ctx, b.cfg.Store, b.layout, lease.Holder{Region: r.Region, Instance: r.Instance}, r.Epoch, word); err != nil {
			return nil, wireError(err)
		}
	}
	done, err := local.resolve(ctx, shard.Resolution{GrantID: id, Key: r.Key(), By: m.GetAttestedBy(), Because: m.GetBecause()})
	if errors.Is(err, shard.ErrGrantLive) {
		err = fmt.Errorf("%w: start the holder again and its journal accounts for it; if no process of that epoch runs or can ever resume, attest that with --retire-epoch", err)
	}
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ResolveGrantResponse{Grant: done.Grant, CountedAsSpentTokens: done.Counted}), nil
}

// matches says that value passes the filter; an empty filter passes all.
func matches(filter, value string) bool { return filter == "" || filter == value }

// page walks through the records under prefix of every shard, from the place
// that token names, until size of them were taken. next is empty at the end.
func (v *view) page(prefix func(uint32) string, token string, size uint32, take func(store.KeyValue) (bool, error)) (next string, err error) {
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maxPage)
	start, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: not one that was returned by a page before"))
	}
	taken := uint32(0)
	for id := range v.b.cluster.Shards {
		from, end := record.All(prefix(id))
		if cmp.Compare(string(start), end) >= 0 {
			continue
		}
		from = max(from, string(start))
		full, last, err := v.walk(from, end, func(kv store.KeyValue) (bool, error) {
			ok, err := take(kv)
			if ok {
				taken++
			}
			return taken < size, err
		})
		if err != nil {
			return "", err
		}
		if !full {
			return base64.RawURLEncoding.EncodeToString([]byte(last + "\x00")), nil
		}
	}
	return "", nil
}

// find is the record of a grant, by its ID alone.
func (v *view) find(grantID string) (record.Grant, error) {
	id, err := lease.ParseGrantID(grantID)
	if err != nil || id.IsZero() {
		return record.Grant{}, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("grant_id: %.40q is not of the form g1-003-0000002a", grantID))
	}
	gone := connect.NewError(connect.CodeNotFound, fmt.Errorf("no grant %s: it has ended, or never was; `tokenlease grants list` shows those that are out", grantID))
	cluster, err := v.era()
	if err != nil {
		return record.Grant{}, err
	}
	if cluster.Generation > 1 && (id.Generation < cluster.Generation || id.Sequence == 0) {
		return record.Grant{}, connect.NewError(connect.CodeNotFound, fmt.Errorf("no grant %s: generation %d began with a declared restore, which reserved all that was out before as unknown until it is attested; see `tokenlease restore status`", grantID, cluster.Generation))
	}
	if id.Shard >= v.b.cluster.Shards {
		return record.Grant{}, gone
	}
	var found *record.Grant
	from, end := record.All(v.b.layout.Grants(id.Shard))
	_, _, err = v.walk(from, end, func(kv store.KeyValue) (bool, error) {
		if !strings.HasSuffix(kv.Key, "/"+grantID) {
			return true, nil
		}
		r, err := record.Decode[record.Grant](kv)
		found = &r
		return false, err
	})
	if err != nil {
		return record.Grant{}, err
	}
	if found == nil {
		return record.Grant{}, gone
	}
	return *found, nil
}

// holders are the registered holders that pass, with what they have out.
func (v *view) holders(pass func(lease.Holder) bool) ([]*pb.HolderStatus, error) {
	byName := map[lease.Holder]*pb.HolderStatus{}
	cluster, err := v.era()
	if err != nil {
		return nil, err
	}
	err = v.each(v.b.layout.Holders(), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Registration](kv)
		if err == nil && pass(r.Holder()) {
			byName[r.Holder()] = &pb.HolderStatus{
				Holder: &pb.Holder{Region: r.Region, Instance: r.Instance}, Epoch: r.Epoch,
				RegisteredUnixMs: r.RegisteredUnixMs, Retired: r.Retired, Fenced: r.Epoch < lease.EpochFloor(cluster.Generation),
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for id := range v.b.cluster.Shards {
		if err := v.tally(id, byName); err != nil {
			return nil, err
		}
	}
	all := make([]*pb.HolderStatus, 0, len(byName))
	for _, status := range byName {
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b *pb.HolderStatus) int {
		return cmp.Or(cmp.Compare(a.GetHolder().GetRegion(), b.GetHolder().GetRegion()),
			cmp.Compare(a.GetHolder().GetInstance(), b.GetHolder().GetInstance()))
	})
	return all, nil
}

// tally adds what one shard knows of the holders.
func (v *view) tally(id uint32, holders map[lease.Holder]*pb.HolderStatus) error {
	err := v.each(v.b.layout.Fences(id), func(kv store.KeyValue) error {
		f, err := record.Decode[record.Fence](kv)
		if h := holders[lease.Holder{Region: f.Region, Instance: f.Instance}]; h != nil {
			h.LastHeardUnixMs = max(h.LastHeardUnixMs, f.HeardUnixMs)
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.each(v.b.layout.Grants(id), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Grant](kv)
		h := holders[lease.Holder{Region: r.Region, Instance: r.Instance}]
		if err != nil || h == nil {
			return err
		}
		if earlier, err := v.earlier(r); err != nil || earlier {
			return err
		}
		g, err := v.grant(r)
		if g.GetState() == pb.GrantState_GRANT_STATE_ORPHANED {
			h.OrphanedGrants++
			h.OrphanedTokens += g.GetOutstandingTokens()
		} else {
			h.LiveGrants++
			h.LiveTokens += g.GetOutstandingTokens()
		}
		return err
	})
}
