package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ListGrants implements tokenleasev1connect.AdminHandler.
func (s adminService) ListGrants(ctx context.Context, req *connect.Request[pb.ListGrantsRequest]) (*connect.Response[pb.ListGrantsResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	unusable := v.past()
	resp := &pb.ListGrantsResponse{}
	opened := s.b.cfg.Clock.Now().UnixMilli() - m.GetMinAgeMs()
	l := listing{
		filters: []string{
			"grants", m.GetRegion(), m.GetInstance(), m.GetAccount(), m.GetOperation(), m.GetGrantIdPrefix(),
			m.GetState().String(), strconv.FormatInt(m.GetMinAgeMs(), 10),
		},
		token: m.GetPageToken(), size: m.GetPageSize(),
		take: func(kv store.KeyValue) (bool, error) {
			g, err := v.listedGrant(kv)
			if err != nil || g == nil || !selects(m, g) || m.GetMinAgeMs() > 0 && g.GetOpenedUnixMs() > opened {
				return false, v.damaged(err)
			}
			resp.Grants = append(resp.Grants, g)
			return true, nil
		},
	}
	if err := v.planGrants(m, &l); err != nil {
		return nil, wireError(err)
	}
	next, err := v.list(l)
	if err != nil {
		return nil, wireError(err)
	}
	resp.NextPageToken, resp.Revision = next, v.revision
	resp.Unusable, resp.UnusableCount = unusable.first, unusable.count()
	return connect.NewResponse(resp), nil
}

// selects says that the grant passes the filters, its age apart.
func selects(m *pb.ListGrantsRequest, g *pb.Grant) bool {
	return matches(m.GetRegion(), g.GetHolder().GetRegion()) && matches(m.GetInstance(), g.GetHolder().GetInstance()) &&
		matches(m.GetAccount(), g.GetBudget().GetAccount()) && matches(m.GetOperation(), g.GetBudget().GetOperation()) &&
		strings.HasPrefix(g.GetGrantId(), m.GetGrantIdPrefix()) &&
		(m.GetState() == pb.GrantState_GRANT_STATE_UNSPECIFIED || m.GetState() == g.GetState())
}

// planGrants says which keys to read for a list of grants, and which of them to
// decode. Budgets name their grants, so a filter by account reads its budgets
// first. Regions and instances begin the keys, and a grant's ID names its shard.
func (v *view) planGrants(m *pb.ListGrantsRequest, l *listing) error {
	cluster, err := v.era()
	if err != nil {
		return err
	}
	if cluster.Unknown() { // one grant stands for each budget: see listedGrant
		l.spans = v.b.budgetSpans(m.GetAccount(), m.GetOperation())
		return nil
	}
	if m.GetAccount() != "" {
		l.spans, err = v.grantSpans(m.GetAccount(), m.GetOperation())
	} else {
		l.spans = v.b.grantRanges(m)
	}
	if m.GetRegion() == "" && m.GetInstance() != "" || m.GetState() != pb.GrantState_GRANT_STATE_UNSPECIFIED || m.GetGrantIdPrefix() != "" {
		l.pass = v.passGrant(m, cluster.Generation)
	}
	return err
}

// grantRanges are the ranges of a list that is not by account.
func (b *Broker) grantRanges(m *pb.ListGrantsRequest) []span {
	var spans []span
	for id := range b.cluster.Shards {
		if !mayBeIn(m.GetGrantIdPrefix(), id) {
			continue
		}
		prefix := b.layout.Grants(id)
		switch {
		case m.GetRegion() != "" && m.GetInstance() != "":
			prefix = b.layout.GrantsOf(id, lease.Holder{Region: m.GetRegion(), Instance: m.GetInstance()})
		case m.GetRegion() != "":
			prefix = b.layout.GrantsIn(id, m.GetRegion())
		}
		from, end := record.All(prefix)
		spans = append(spans, span{from, end})
	}
	return spans
}

// mayBeIn says that an ID which begins so can be one of the shard.
func mayBeIn(prefix string, id uint32) bool {
	_, rest, ok := strings.Cut(prefix, "-")
	if !ok {
		return true
	}
	number := fmt.Sprintf("%03x-", id)
	return strings.HasPrefix(number, rest) || strings.HasPrefix(rest, number)
}

// grantSpans are the keys of the grants that the account's budgets list.
func (v *view) grantSpans(account, operation string) ([]span, error) {
	var keys []string
	for _, s := range v.b.budgetSpans(account, operation) {
		_, _, err := v.walk(s.from, s.end, func(kv store.KeyValue) (bool, error) {
			r, err := record.Decode[record.Budget](kv)
			if err != nil {
				return true, v.damaged(err)
			}
			prefix := v.b.layout.Grants(lease.ShardOf(lease.Key{Account: r.Account, Operation: r.Operation}, v.b.cluster.Shards))
			for _, path := range r.Grants {
				keys = append(keys, prefix+path)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	spans := make([]span, len(keys))
	for i, key := range keys {
		spans[i] = span{key, key + "\x00"}
	}
	return spans, nil
}

// passGrant tells from a grant's key whether it may pass the filters.
func (v *view) passGrant(m *pb.ListGrantsRequest, generation uint32) func(string) (bool, string) {
	return func(key string) (bool, string) {
		h, epoch, id, ok := record.ParseGrantKey(key)
		parsed, err := lease.ParseGrantID(id)
		if !ok || err != nil {
			return true, "" // damage, which decoding tells
		}
		if !matches(m.GetRegion(), h.Region) || !matches(m.GetInstance(), h.Instance) || !strings.HasPrefix(id, m.GetGrantIdPrefix()) {
			return false, ""
		}
		if m.GetState() == pb.GrantState_GRANT_STATE_UNSPECIFIED || parsed.Generation < generation {
			return true, ""
		}
		lowest, err := v.minEpoch(parsed.Shard, h)
		if err != nil {
			return true, "" // told when it is decoded
		}
		orphaned := epoch < lowest
		if orphaned == (m.GetState() == pb.GrantState_GRANT_STATE_ORPHANED) {
			return true, ""
		}
		if !orphaned { // and so are all that follow of this holder
			_, end := record.All(v.b.layout.GrantsOf(parsed.Shard, h))
			return false, end
		}
		return false, v.b.layout.GrantsOfEpoch(parsed.Shard, h, lowest)
	}
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

// find is the record of a grant, by its ID alone. It reads the keys of the shard
// that the ID names, without their records.
func (v *view) find(grantID string) (record.Grant, error) {
	id, err := parseGrantID(grantID)
	if err != nil {
		return record.Grant{}, err
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
	key, err := v.findKey(v.b.layout.Grants(id.Shard), "/"+grantID)
	if err != nil {
		return record.Grant{}, err
	}
	if key == "" {
		return record.Grant{}, gone
	}
	kv, err := v.get(key)
	if err != nil {
		return record.Grant{}, err
	}
	return record.Decode[record.Grant](*kv)
}

// parseGrantID reads an ID that a request names.
func parseGrantID(grantID string) (lease.GrantID, error) {
	id, err := lease.ParseGrantID(grantID)
	if err != nil || id.IsZero() {
		return id, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("grant_id: %.40q is not of the form g1-003-0000002a", grantID))
	}
	return id, nil
}

// findKey is the key under the prefix that ends so, or none.
func (v *view) findKey(prefix, suffix string) (string, error) {
	from, end := record.All(prefix)
	for {
		res, err := v.read(store.RangeRequest{Key: from, End: end, Limit: readKeys, KeysOnly: true})
		if err != nil {
			return "", err
		}
		for _, kv := range res.KVs {
			if strings.HasSuffix(kv.Key, suffix) {
				return kv.Key, nil
			}
			from = kv.Key + "\x00"
		}
		if !res.More {
			return "", nil
		}
	}
}

// readKeys is how many keys are read at a time without their values.
const readKeys = 10_000
