package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// heardLately is how long a holder must have been silent before it is retired
	// without force.
	heardLately = time.Minute
	// maxRetiredGrants is how many grants an answer names.
	maxRetiredGrants = 1000
	// retireAtOnce is how many grants are resolved at the same time. A shard commits
	// what waits in one transaction.
	retireAtOnce = 64
	// maxIdlePasses is how often what is stored is gone over without a grant that could
	// be resolved, with idlePause in between: for longer than a broker takes to hear
	// that a shard has another owner.
	maxIdlePasses = 5
	idlePause     = reconcileEvery / 2
)

// RetireHolder implements tokenleasev1connect.AdminHandler.
//
// It cannot over-admit. What an attestation says is that no process of the epoch,
// or of an earlier one, runs or can ever resume. First the registration says that
// the epoch is retired, in a transaction that compares it as it was read: if the
// holder has started again meanwhile, the epoch is another one, and nothing is done.
// Then each grant of these epochs is resolved by the owner of its shard, in the
// chain of its commits. The owner looks the registration up in a guarded read, so it
// resolves no grant of an epoch that may still be served, whoever sends what and
// when; it fences the epoch in its shard in the same transaction; and the grant's
// outstanding credit counts as spent, so it comes back by refill alone.
//
//   - A zombie of the epoch that reports late finds its grant gone, and is fenced. If
//     it was spending after all, the attestation was false, and what it spent after it
//     is beyond any proof: that is what the operator answers for.
//   - A start after the fence has a higher epoch, whose grants are left alone. Its
//     journal may account for the older epochs at the same time: each grant ends once,
//     in whichever way comes first.
//   - Repetition resolves what is left. Resolved grants are gone, and their IDs are
//     never used again.
//   - A new owner in the middle reads what was committed, and goes on from there.
func (s adminService) RetireHolder(ctx context.Context, req *connect.Request[pb.RetireHolderRequest]) (*connect.Response[pb.RetireHolderResponse], error) {
	b, m := s.b, req.Msg
	if forwarded(req.Header()) {
		if m.GetDryRun() {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("dry_run: must not be set in what a broker passes on: that is a part of a real run"))
		}
		resp, err := b.resolveHere(ctx, m)
		return connect.NewResponse(resp), wireError(err)
	}
	v := b.view(ctx)
	resp := &pb.RetireHolderResponse{ClusterId: b.cluster.ID, DryRun: m.GetDryRun(), HeardMsAgo: -1}
	t, err := v.attested(ctx, m, resp)
	if err != nil {
		return nil, wireError(err)
	}
	if m.GetDryRun() {
		return connect.NewResponse(resp), wireError(v.foresee(m, t, resp))
	}
	if resp.GetNeedsForce() && !m.GetForce() {
		return nil, wireError(tooLately(resp))
	}
	word := b.word(ctx, m.GetAttestedBy(), m.GetBecause())
	word.Forced = resp.GetNeedsForce()
	if err := retire(ctx, b.cfg.Store, b.layout, holderOf(m.GetHolder()), m.GetEpoch(), word); err != nil {
		return nil, wireError(err)
	}
	m.Force = word.Forced // as it is recorded

	if err := v.tallyGrants(holderOf(m.GetHolder()), t); err != nil { // the view is of before
		return nil, unfinished(err, resp)
	}
	if err := b.resolveAll(ctx, m, resp); err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(resp), nil
}

// tooLately says why a holder is not retired without force.
func tooLately(resp *pb.RetireHolderResponse) error {
	h := holderOf(resp.GetStatus().GetHolder())
	if resp.GetHeardMsAgo() >= 0 && resp.GetHeardMsAgo() < heardLately.Milliseconds() {
		return fmt.Errorf("%w: %v was heard %v ago; stop it, and retire it once it was silent for %v, or force it, which is recorded",
			ErrHeard, h, time.Duration(resp.GetHeardMsAgo())*time.Millisecond, heardLately)
	}
	return fmt.Errorf("%w, as far as is known: not every owner of a shard has answered and listened for %v, so %v may have been heard since; ask again later, or force it, which is recorded",
		ErrHeard, heardLately, h)
}

// attested tells of whom something is attested, and whether that has to be forced.
// What the holder has out is still to be added to its status.
func (v *view) attested(ctx context.Context, m *pb.RetireHolderRequest, resp *pb.RetireHolderResponse) (t *tally, err error) {
	v.bad = func(err error) { unusable(resp, err) }
	resp.Status, t, err = v.holder(holderOf(m.GetHolder()))
	if err != nil {
		return nil, err
	}
	if resp.GetStatus().GetEpoch() == 0 {
		return nil, fmt.Errorf("%w: nobody knows its epoch: %s", record.ErrUnreadable, strings.Join(resp.GetUnusable(), "; "))
	}
	if m.GetEpoch() != 0 && m.GetEpoch() != resp.GetStatus().GetEpoch() {
		return nil, fmt.Errorf("%w: %v is at epoch %d, not %d; look at what it holds now, and decide anew",
			ErrOtherEpoch, holderOf(m.GetHolder()), resp.GetStatus().GetEpoch(), m.GetEpoch())
	}
	h, err := v.hearOf(ctx, []*pb.HolderStatus{resp.GetStatus()})
	if err != nil {
		return nil, err
	}
	last := resp.GetStatus().GetLastHeardUnixMs()
	if last > 0 {
		resp.HeardMsAgo = max(0, h.unixMs-last)
	}
	lately := max(last, resp.GetStatus().GetRegisteredUnixMs()) > h.unixMs-heardLately.Milliseconds()
	// What was decided already goes on, unless a process of the epoch shows up after all.
	resp.NeedsForce = lately || !h.listened(heardLately) && !resp.GetStatus().GetRetired()
	return t, nil
}

// foresee tells which grants would be resolved.
func (v *view) foresee(m *pb.RetireHolderRequest, t *tally, resp *pb.RetireHolderResponse) error {
	var all []*pb.Grant
	t.take = func(g *pb.Grant) { all = append(all, g) }
	if err := v.tallyGrants(holderOf(m.GetHolder()), t); err != nil {
		return err
	}
	kinds, err := v.kinds(all)
	for _, g := range all {
		if kind := kinds[v.budgetOf(g)]; kind != "" {
			count(resp, g, g.GetOutstandingTokens(), kind == lease.Concurrency)
		}
	}
	return err
}

// count adds a grant that is resolved, or would be.
func count(resp *pb.RetireHolderResponse, g *pb.Grant, tokens int64, slots bool) {
	resp.GrantsCount++
	if len(resp.GetGrants()) < maxRetiredGrants {
		resp.Grants = append(resp.Grants, g)
	}
	if slots {
		resp.FreedSlots += tokens
	} else {
		resp.CountedAsSpentTokens += tokens
	}
}

// budgetOf is the key of the record of the grant's budget.
func (v *view) budgetOf(g *pb.Grant) string {
	key := lease.Key{Account: g.GetBudget().GetAccount(), Operation: g.GetBudget().GetOperation()}
	return v.b.layout.Budget(lease.ShardOf(key, v.b.cluster.Shards), key)
}

// kinds are the kinds of rule of the grants' budgets, by the keys of their records:
// of those that can be read. Budgets that lie close together are read together.
func (v *view) kinds(grants []*pb.Grant) (map[string]lease.Kind, error) {
	keys := make([]string, 0, len(grants))
	for _, g := range grants {
		keys = append(keys, v.budgetOf(g))
	}
	slices.Sort(keys)
	kinds := make(map[string]lease.Kind, len(keys))
	err := v.records(slices.Compact(keys), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Budget](kv)
		if err != nil {
			return v.damaged(err)
		}
		kinds[kv.Key] = r.Rule.Kind
		return nil
	})
	return kinds, err
}

// unusable notes a record that cannot be read.
func unusable(resp *pb.RetireHolderResponse, err error) {
	resp.UnusableCount++
	if len(resp.GetUnusable()) < maxUnusable {
		resp.Unusable = append(resp.Unusable, err.Error())
	}
}

// resolveAll resolves the grants of all shards. It goes over what is stored until
// nothing is left but what cannot be resolved, as a record of it cannot be read: an
// owner that has not heard of the retirement yet may open one more.
func (b *Broker) resolveAll(ctx context.Context, m *pb.RetireHolderRequest, resp *pb.RetireHolderResponse) error {
	for idle := 0; ; idle++ {
		pass := &pb.RetireHolderResponse{}
		left, err := b.retirable(ctx, m, b.shards(), func(err error) { unusable(pass, err) })
		unread := pass.GetUnusableCount()
		if err == nil {
			err = b.resolvePass(ctx, m, left, pass)
		}
		stuck := pass.GetUnusableCount() - unread
		resp.Unusable, resp.UnusableCount = nil, 0 // those of the last pass count
		merge(resp, pass)
		switch {
		case err != nil:
			return unfinished(err, resp)
		case pass.GetGrantsCount() > 0:
			idle = -1
		case stuck < many(left) && idle == maxIdlePasses:
			return unfinished(fmt.Errorf("%w: some are stored, and no budget lists them; run `tokenlease verify`", shard.ErrRecord), resp)
		case stuck < many(left):
			b.ownership.pause(ctx, idlePause)
		case pass.GetUnusableCount() > 0:
			return unfinished(shard.ErrRecord, resp)
		default:
			return nil
		}
	}
}

// many is how many grants there are.
func many(left map[uint32][]record.Grant) (n int64) {
	for _, grants := range left {
		n += int64(len(grants))
	}
	return n
}

// shards are those of the cluster.
func (b *Broker) shards() []uint32 {
	all := make([]uint32, b.cluster.Shards)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// resolvePass resolves grants once: those of this broker's shards here, the others by
// their owners. Where some cannot be resolved, the others still are, before it tells
// why.
func (b *Broker) resolvePass(ctx context.Context, m *pb.RetireHolderRequest, left map[uint32][]record.Grant, pass *pb.RetireHolderResponse) error {
	if len(left) == 0 {
		return nil
	}
	owners, ownerless := b.ownersOf(ctx, left)
	var mu sync.Mutex
	var work errgroup.Group
	add := func(part *pb.RetireHolderResponse) {
		mu.Lock()
		defer mu.Unlock()
		merge(pass, part)
	}
	work.Go(func() error {
		part, err := b.resolveHere(ctx, m)
		add(part)
		return err
	})
	for url := range owners {
		work.Go(func() error {
			answer, err := b.peers.at(url).admin.RetireHolder(ctx, passOn(b, m))
			if err == nil {
				add(answer.Msg)
			}
			return relayed(ctx, err)
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return ownerless
}

// ownersOf are the other brokers that own some of the shards, by URL, as far as they
// are known, and an error if some are not.
func (b *Broker) ownersOf(ctx context.Context, left map[uint32][]record.Grant) (map[string]bool, error) {
	var mu sync.Mutex
	var work errgroup.Group
	owners := map[string]bool{}
	for id := range left {
		work.Go(func() error {
			local, remote, err := b.owner(ctx, nil, id)
			if err == nil && local == nil {
				mu.Lock()
				defer mu.Unlock()
				owners[remote.URL] = true
			}
			return err
		})
	}
	err := work.Wait()
	return owners, err
}

// unfinished says how far a retirement has come, and what was in its way, with the code
// of what it failed with.
func unfinished(err error, resp *pb.RetireHolderResponse) error {
	err = wireError(err)
	code := connect.CodeOf(err)
	if n := resp.GetUnusableCount(); n > 0 {
		err = fmt.Errorf("%w; %d cannot be resolved until their records are mended, the first: %s", err, n, strings.Join(resp.GetUnusable(), "; "))
	}
	return connect.NewError(code, fmt.Errorf("the epoch is fenced, but not all of its grants are resolved (%d are by this request); repeat the request to go on: %w", resp.GetGrantsCount(), err))
}

func merge(resp, part *pb.RetireHolderResponse) {
	room := maxRetiredGrants - len(resp.GetGrants())
	resp.Grants = append(resp.Grants, part.GetGrants()[:min(room, len(part.GetGrants()))]...)
	resp.GrantsCount += part.GetGrantsCount()
	resp.CountedAsSpentTokens += part.GetCountedAsSpentTokens()
	resp.FreedSlots += part.GetFreedSlots()
	room = maxUnusable - len(resp.GetUnusable())
	resp.Unusable = append(resp.Unusable, part.GetUnusable()[:min(room, len(part.GetUnusable()))]...)
	resp.UnusableCount += part.GetUnusableCount()
}

// retirable are the stored grants of the holder up to the epoch in some shards, by
// shard. bad gets those that cannot be read.
func (b *Broker) retirable(ctx context.Context, m *pb.RetireHolderRequest, shards []uint32, bad func(error)) (map[uint32][]record.Grant, error) {
	v := b.view(ctx)
	left := map[uint32][]record.Grant{}
	for _, id := range shards {
		err := v.each(b.layout.GrantsOf(id, holderOf(m.GetHolder())), func(kv store.KeyValue) error {
			r, err := storedGrant(kv)
			if err != nil {
				bad(err)
				return nil
			}
			earlier, err := v.earlier(r)
			if err == nil && !earlier && r.Epoch <= m.GetEpoch() {
				left[id] = append(left[id], r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return left, nil
}

// resolveHere resolves the grants in the shards of this broker. Those that cannot be
// read at all are told by who asks, who reads them too.
func (b *Broker) resolveHere(ctx context.Context, m *pb.RetireHolderRequest) (*pb.RetireHolderResponse, error) {
	resp := &pb.RetireHolderResponse{ClusterId: b.cluster.ID}
	runners := b.ownership.serving()
	left, err := b.retirable(ctx, m, slices.Sorted(maps.Keys(runners)), func(error) {})
	if err != nil {
		return resp, err
	}
	word := b.word(ctx, m.GetAttestedBy(), m.GetBecause())
	word.Forced = m.GetForce()
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(retireAtOnce)
	for id, grants := range left {
		for _, g := range grants {
			if ctx.Err() != nil {
				break
			}
			work.Go(func() error {
				done, err := b.resolveOne(ctx, runners[id], g, word)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					count(resp, done.Grant, done.Counted, done.Slots)
				case errors.Is(err, shard.ErrGrantGone): // it has ended meanwhile
				case errors.Is(err, shard.ErrRecord), errors.Is(err, record.ErrUnreadable):
					unusable(resp, fmt.Errorf("grant %s: %w", g.ID, err))
				default:
					return err
				}
				return nil
			})
		}
	}
	if err = work.Wait(); err == nil {
		err = ctx.Err()
	}
	return resp, err
}

func (b *Broker) resolveOne(ctx context.Context, r *runner, g record.Grant, word record.Audit) (shard.Resolved, error) {
	id, err := lease.ParseGrantID(g.ID)
	if err != nil {
		return shard.Resolved{}, err
	}
	return r.resolve(ctx, shard.Resolution{GrantID: id, Key: g.Key(), Word: word})
}
