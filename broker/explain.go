package broker

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ExplainGrant implements tokenleasev1connect.AdminHandler. The owner of the shard
// tells what it remembers; the store has the grant while it is out, and what
// operators did about it.
func (s adminService) ExplainGrant(ctx context.Context, req *connect.Request[pb.ExplainGrantRequest]) (*connect.Response[pb.ExplainGrantResponse], error) {
	b := s.b
	id, err := parseGrantID(req.Msg.GetGrantId())
	if err != nil {
		return nil, wireError(err)
	}
	if id.Shard >= b.cluster.Shards {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no grant %s: this cluster has the shards 0 to %d", req.Msg.GetGrantId(), b.cluster.Shards-1))
	}
	local, remote, err := b.owner(ctx, req.Header(), id.Shard)
	if err != nil {
		return nil, wireError(err)
	}
	if local == nil {
		resp, err := b.peers.at(remote.URL).admin.ExplainGrant(ctx, passOn(b, req.Msg))
		return resp, relayed(ctx, err)
	}
	e := explanation{v: b.view(ctx), id: id, resp: &pb.ExplainGrantResponse{}}
	if err := e.gather(ctx, local); err != nil {
		return nil, wireError(err)
	}
	return connect.NewResponse(e.resp), nil
}

// explanation is the story of one grant, in the making.
type explanation struct {
	v    *view
	id   lease.GrantID
	resp *pb.ExplainGrantResponse

	telling shard.Telling
	reg     record.Registration
}

func (e *explanation) gather(ctx context.Context, owner *runner) error {
	stored, missing := e.v.find(e.id.String())
	if missing != nil && connect.CodeOf(missing) != connect.CodeNotFound {
		return missing
	}
	var err error
	e.telling, err = ask(ctx, owner, func(s *shard.Shard, m shard.Moment, reply func(shard.Telling, error)) func() {
		reply(s.Tell(m, e.id, lease.Holder{Region: stored.Region, Instance: stored.Instance}), nil)
		return nil
	})
	if err != nil {
		return err
	}
	e.resp.KeptSinceUnixMs = e.telling.SinceMs
	story := e.telling.Story
	switch {
	case missing == nil:
		e.resp.Grant, err = e.v.grant(stored)
	case story != nil:
		e.resp.Ended = true
		lowest := uint64(0) // what has ended is not orphaned
		e.resp.Grant = shard.GrantToWire(record.FromGrant(story.Key, story.Grant, story.Opened), lowest)
	}
	if err != nil {
		return err
	}
	e.remembered()
	if err := e.operators(); err != nil {
		return err
	}
	if e.resp.GetGrant() == nil {
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("nothing is known of grant %v: it ended more than an hour ago, or before its shard changed hands at %s, or never was",
			e.id, time.UnixMilli(e.telling.SinceMs).UTC().Format(time.RFC3339)))
	}
	if err := e.registration(); err != nil {
		return err
	}
	e.orphaned()
	slices.SortStableFunc(e.resp.Events, func(a, b *pb.GrantEvent) int { return int(a.GetUnixMs() - b.GetUnixMs()) })
	return e.advise()
}

// remembered adds what the owner remembers.
func (e *explanation) remembered() {
	if e.telling.Story == nil {
		if g := e.resp.GetGrant(); g != nil {
			e.resp.Events = append(e.resp.Events, &pb.GrantEvent{UnixMs: g.GetOpenedUnixMs(), LedgerNs: g.GetOpenedLedgerNs(), What: shard.Opened.String(), Count: 1, Detail: "as it is stored"})
		}
		return
	}
	story := e.telling.Story
	if len(story.Events) == 0 || story.Events[0].What != shard.Opened {
		e.resp.Events = append(e.resp.Events, &pb.GrantEvent{UnixMs: story.Opened, LedgerNs: int64(story.Grant.Opened), What: shard.Opened.String(), Count: 1, Detail: "as it is stored"})
	}
	for _, ev := range story.Events {
		e.resp.Events = append(e.resp.Events, &pb.GrantEvent{
			UnixMs: ev.UnixMs, LedgerNs: int64(ev.Ledger), What: ev.What.String(),
			IssuedTokens: ev.Issued, SpentTokens: ev.Spent, ReturnedTokens: ev.Returned, Count: ev.Count, Detail: ev.Detail,
		})
	}
}

// operators adds what operators did about the grant: it may be all that is known.
func (e *explanation) operators() error {
	suffix := "-grants.resolve-" + url.PathEscape(e.id.String())
	key, err := e.v.findKey(e.v.b.layout.Audits(), suffix)
	if err != nil || key == "" {
		return err
	}
	kv, err := e.v.get(key)
	if err != nil || kv == nil {
		return err
	}
	entry, err := record.Decode[storedAudit](*kv)
	if err != nil {
		return err
	}
	before, err := record.Decode[record.Grant](store.KeyValue{Key: key, Value: entry.Before})
	if err != nil {
		return nil //nolint:nilerr // an entry in another form tells less
	}
	if e.resp.GetGrant() == nil {
		e.resp.Ended = true
		e.resp.Grant = shard.GrantToWire(before, 0)
	}
	known := func(ev *pb.GrantEvent) bool { return ev.GetWhat() == shard.Attested.String() }
	if !slices.ContainsFunc(e.resp.GetEvents(), known) {
		e.resp.Events = append(e.resp.Events, &pb.GrantEvent{
			UnixMs: entry.UnixMs, What: shard.Attested.String(), Count: 1, Detail: entry.By + ": " + entry.Because,
			IssuedTokens: before.Issued, SpentTokens: before.Spent, ReturnedTokens: before.Returned,
		})
	}
	return nil
}

// registration reads what is current of the holder.
func (e *explanation) registration() error {
	kv, err := e.v.get(e.v.b.layout.Holder(holderOf(e.resp.GetGrant().GetHolder())))
	if err == nil && kv != nil {
		e.reg, err = record.Decode[record.Registration](*kv)
	}
	return err
}

// orphaned adds since when the grant is, if it is: since its epoch was fenced, or the
// next one registered.
func (e *explanation) orphaned() {
	g := e.resp.GetGrant()
	if e.resp.GetEnded() || g.GetState() != pb.GrantState_GRANT_STATE_ORPHANED {
		return
	}
	ev := &pb.GrantEvent{
		What: shard.Orphaned.String(), Count: 1, IssuedTokens: g.GetIssuedTokens(), SpentTokens: g.GetSpentTokens(), ReturnedTokens: g.GetReturnedTokens(),
	}
	for _, f := range e.telling.Fencings {
		if f.MinEpoch > g.GetEpoch() && f.UnixMs > 0 {
			ev.UnixMs, ev.LedgerNs = f.UnixMs, int64(f.Ledger)
			ev.Detail = fmt.Sprintf("epochs below %d were fenced", f.MinEpoch)
			break
		}
	}
	if ev.UnixMs == 0 && e.reg.Epoch == g.GetEpoch()+1 {
		ev.UnixMs, ev.Detail = e.reg.RegisteredUnixMs, fmt.Sprintf("epoch %d registered", e.reg.Epoch)
	}
	if ev.UnixMs > 0 {
		e.resp.Events = append(e.resp.Events, ev)
	}
}

// advise says in words what the state means, and what would free the credit.
func (e *explanation) advise() error {
	g := e.resp.GetGrant()
	h := holderOf(g.GetHolder())
	say := func(format string, args ...any) { e.resp.Advice = append(e.resp.Advice, fmt.Sprintf(format, args...)) }
	switch {
	case e.resp.GetEnded():
		say("The grant has ended: nothing of it is out.")
		if e.happened(shard.Lapsed) != nil {
			say("It lapsed, as its policy says by reclaim: deadline: %v, epoch %d, did not ask about this budget for %v, so what was outstanding counts as spent since then, whether it was or not.", h, g.GetEpoch(), strictyaml.FormatDuration(time.Duration(g.GetLapsesAfterNs())))
		}
	case g.GetState() == pb.GrantState_GRANT_STATE_LIVE && g.GetKept():
		say("%v has ended the grant, and %d slots of it may still be in use by work that it cannot speak for. They stay reserved.", h, g.GetOutstandingTokens())
		say("Once that work has ended, attest it: tokenlease grants resolve %s --retire-epoch --because \"...\"", g.GetGrantId())
	case g.GetState() == pb.GrantState_GRANT_STATE_LIVE:
		say("%v, epoch %d, may spend what is outstanding: %d tokens. It comes back when the holder returns it or spends it.", h, g.GetEpoch(), g.GetOutstandingTokens())
		sayLapses(g, say)
		say("If no process of that epoch runs or can ever resume, see what retiring it would attest: tokenlease holders retire %v --dry-run", h)
	default:
		e.adviseOrphaned(g, h, say)
	}
	return nil
}

// happened is the first event of the kind that is known, or nil.
func (e *explanation) happened(what shard.What) *pb.GrantEvent {
	at := slices.IndexFunc(e.resp.GetEvents(), func(ev *pb.GrantEvent) bool { return ev.GetWhat() == what.String() })
	if at < 0 {
		return nil
	}
	return e.resp.GetEvents()[at]
}

// sayLapses says when silence ends the grant, if it does.
func sayLapses(g *pb.Grant, say func(string, ...any)) {
	if g.GetLapsesAfterNs() > 0 {
		say("Deadline: the policy says reclaim: deadline, which is weaker than proof. %v after the newest request about this budget by epoch %d, or after another broker took the shard over, what is outstanding lapses: it counts as spent. Requests about other budgets, or of later epochs, put nothing off.", strictyaml.FormatDuration(time.Duration(g.GetLapsesAfterNs())), g.GetEpoch())
	}
}

func (e *explanation) adviseOrphaned(g *pb.Grant, h lease.Holder, say func(string, ...any)) {
	since := ""
	if ev := e.happened(shard.Orphaned); ev != nil {
		since = " since " + time.UnixMilli(ev.GetUnixMs()).UTC().Format(time.RFC3339)
	}
	say("The grant is orphaned%s: epoch %d of %v is fenced and has not accounted for it. The %d tokens that it has out may have been spent, so they stay reserved.",
		since, g.GetEpoch(), h, g.GetOutstandingTokens())
	sayLapses(g, say)
	say("Proof: start %v again on the same journal, which accounts for it; what was not spent comes back at once.", h)
	if e.reg.Retired {
		say("Attestation: epoch %d was retired, and this grant was left over. Go on with: tokenlease holders retire %v", e.reg.Epoch, h)
	}
	say("Attestation: if no process of that epoch runs or can ever resume, tokenlease grants resolve %s --because \"...\" counts what is outstanding as spent now.", g.GetGrantId())
}
