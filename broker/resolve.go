package broker

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ResolveGrant implements tokenleasev1connect.AdminHandler.
//
// To retire the epoch with it takes what [adminService.RetireHolder] takes: a holder
// that was heard a moment ago probably lives, and what it admits after the attestation
// is above the budget. So that needs force, which is recorded.
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
	word := b.word(ctx, m.GetAttestedBy(), m.GetBecause())
	if m.GetRetireEpoch() {
		if word.Forced, err = b.forced(ctx, r, m.GetForce()); err != nil {
			return nil, wireError(err)
		}
		err := retire(ctx, b.cfg.Store, b.layout, lease.Holder{Region: r.Region, Instance: r.Instance}, r.Epoch, word)
		if err != nil && !errors.Is(err, ErrOtherEpoch) { // of an older epoch nothing is left to fence
			return nil, wireError(err)
		}
	}
	done, err := local.resolve(ctx, shard.Resolution{GrantID: id, Key: r.Key(), Word: word})
	if errors.Is(err, shard.ErrGrantLive) {
		err = fmt.Errorf("%w: start the holder again and its journal accounts for it; if no process of that epoch runs or can ever resume, attest that with --retire-epoch", err)
	}
	if err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(&pb.ResolveGrantResponse{Grant: done.Grant, CountedAsSpentTokens: done.Counted}), nil
}

// forced says whether it takes force to retire the epoch of a grant, and refuses that
// without. Of an epoch that is not current there is nothing to retire.
func (b *Broker) forced(ctx context.Context, g record.Grant, force bool) (bool, error) {
	would := &pb.RetireHolderResponse{HeardMsAgo: -1}
	_, err := b.view(ctx).attested(ctx, &pb.RetireHolderRequest{Holder: &pb.Holder{Region: g.Region, Instance: g.Instance}, Epoch: g.Epoch}, would)
	switch {
	case errors.Is(err, ErrOtherEpoch):
		return false, nil
	case err != nil:
		return false, err
	case would.GetNeedsForce() && !force:
		return false, tooLately(would)
	}
	return would.GetNeedsForce(), nil
}
