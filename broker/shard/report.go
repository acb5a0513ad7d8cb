package shard

import (
	"errors"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// runReports applies the reports: counters first, then the wish.
func (j *syncJob) runReports(s *Shard, b *batch) bool {
	all := true
	for i, r := range j.req.GetBudgets() {
		if j.reported[i] {
			continue
		}
		if b.full() {
			return false
		}
		e, ok := s.entry(keyOf(r.GetKey()), b)
		if !ok {
			all = false
			continue
		}
		if e.err != nil {
			j.resp.Budgets[i] = &pb.BudgetAnswer{Key: r.GetKey(), Sequence: r.GetSequence(), Evidence: pb.Evidence_EVIDENCE_RECORD_UNUSABLE}
			j.reported[i], j.gave = true, true
			continue
		}
		if j.resp.Budgets[i], j.err = j.report(s, b, e, r); j.err != nil {
			return false
		}
		j.reported[i] = true
		j.steps++
	}
	return all
}

// report applies one report. Counters count from whatever request, however old;
// credit goes only to an epoch that is served, and only for a request newer than
// the newest that was applied (C5.4). So a repeated request is answered, and
// debited once.
func (j *syncJob) report(s *Shard, b *batch, e *entry, r *pb.BudgetReport) (*pb.BudgetAnswer, error) {
	answer := &pb.BudgetAnswer{Key: r.GetKey(), Sequence: r.GetSequence()}
	if err := j.reportCounters(s, b, e, r, answer); err != nil {
		return nil, err
	}
	j.installed(b, e, r)
	pol, ruled := s.ruling(e)
	if !e.exists && ruled {
		s.start(e, pol)
	}
	if !e.exists {
		answer.Shortage = pb.Shortage_SHORTAGE_NO_POLICY
		return answer, nil
	}
	if ruled && s.install(e, pol, b) {
		j.gave = true
	}
	before := e.ledger.Live(j.holder, j.req.GetEpoch())
	switch {
	case s.fence(j.holder).Fences(j.req.GetEpoch()):
		s.refuse(j) // it may have been fenced since it was admitted
		return answer, nil
	case answer.Evidence != pb.Evidence_EVIDENCE_UNSPECIFIED:
		// A holder from another history gets nothing on top.
	case answer.Gone:
		// The holder stops spending that grant first, and then asks again.
	case j.stale(e, r.GetSequence()):
		answer.Shortage = pb.Shortage_SHORTAGE_STALE
		j.gave = true
	case !ruled:
		answer.Shortage = pb.Shortage_SHORTAGE_NO_POLICY
	default:
		s.supersede(j, e.key, r.GetSequence(), b)
		j.wish(s, b, e, r, pol.DefaultCost, answer)
	}
	if ruled {
		answer.Policy = pol.wire
	}
	if live := e.ledger.Live(j.holder, j.req.GetEpoch()); live != nil {
		answer.GrantId, answer.IssuedTokens = live.ID.String(), live.Issued
		j.extend(s, b, e, live, r, answer, pol, before == nil)
	}
	return answer, nil
}

// extend notes, for the live grant of the sender, until when its holder may spend it. That
// becomes shorter only by the first answer to a request that names the grant and tells
// that its holder goes by no more than the policy's bound, or by the one that opens it; see
// lease/lapse.go. What an answer to an older report says the holder does not apply.
func (j *syncJob) extend(s *Shard, b *batch, e *entry, live *lease.Grant, r *pb.BudgetReport, answer *pb.BudgetAnswer, pol policy, opened bool) {
	lasts, bound := pol.LapsesAfter(), time.Duration(r.GetBoundNs())
	if bound == 0 {
		lasts = 0
	}
	if lasts == 0 && live.Lasts == 0 || answer.GetGone() || answer.GetEvidence() != pb.Evidence_EVIDENCE_UNSPECIFIED ||
		r.GetSequence() < e.newest(j.holder, j.req.GetEpoch()) {
		return
	}
	first := !j.rerun && answer.GetShortage() != pb.Shortage_SHORTAGE_STALE && r.GetGrantId() == answer.GetGrantId()
	extend := e.ledger.Prolong
	if lasts == 0 || bound <= pol.MaxStaleness && (first || opened) {
		extend = e.ledger.Extend
	}
	if extend(s.now, live.ID, lasts) {
		b.touchGrant(e, live.ID)
	}
	s.lapseLater(e)
}

// stale says that a report is not newer than the newest one applied. One that
// waited among the parked is its own newest.
func (j *syncJob) stale(e *entry, sequence uint64) bool {
	applied := e.newest(j.holder, j.req.GetEpoch())
	return sequence < applied || sequence == applied && !j.rerun
}

func (j *syncJob) reportCounters(s *Shard, b *batch, e *entry, r *pb.BudgetReport, answer *pb.BudgetAnswer) error {
	if r.GetGrantId() == "" {
		return nil
	}
	g, err := j.own(e, r.GetGrantId())
	if err != nil {
		return err
	}
	if g == nil {
		answer.Gone, j.gave = true, true
		return nil
	}
	was := *g
	err = e.ledger.Account(s.now, was.ID, r.GetSpentTokens(), r.GetReturnedTokens(), r.GetOwedTokens())
	var above *lease.AboveIssuedError
	switch {
	case errors.As(err, &above):
		answer.Evidence, j.gave = s.evidence(err), true
	case err != nil:
		return err
	case g.Spent != was.Spent || g.Returned != was.Returned || g.Owed != was.Owed:
		b.touchGrant(e, g.ID)
		e.spend(s.moment.Mono, g.Spent-was.Spent)
		j.gave = j.gave || r.GetNeedTokens() == 0
		if g.Returned != was.Returned {
			s.wake(e)
		}
	}
	return nil
}

// installed takes over which policy version the holder has installed. It only rises,
// so it costs a commit once for each.
func (j *syncJob) installed(b *batch, e *entry, r *pb.BudgetReport) {
	live := e.ledger.Live(j.holder, j.req.GetEpoch())
	if live == nil || live.ID.String() != r.GetGrantId() {
		return
	}
	if version := min(r.GetPolicyVersion(), e.ledger.Rule.Version); version > e.installed[live.ID] {
		e.installed[live.ID] = version
		b.touchGrant(e, live.ID)
	}
}

// wish records what the holder wants and tops its grant up towards its fair
// share, as far as credit is available. What would still be below the need is of
// no use and is not given.
func (j *syncJob) wish(s *Shard, b *batch, e *entry, r *pb.BudgetReport, defaultCost int64, answer *pb.BudgetAnswer) {
	if e.fresh {
		b.touch(e) // what it earns from now on is kept, however seldom it is asked for
	}
	l := &e.ledger
	d := e.demand(j.holder, j.req.GetEpoch())
	d.want, d.need = wanted(r, defaultCost)
	d.held = r.GetHeldTokens()
	d.heard, d.hinted = s.moment.Mono, 0
	d.sequence = r.GetSequence()
	claims := s.claims(e)
	level := levelOf(claims, j.holder)
	answer.LevelTokens = level

	var out int64 // that is free, as levels are
	live := l.Live(j.holder, j.req.GetEpoch())
	if live != nil {
		out = d.free(live.Outstanding())
		if r.GetSequence() > live.Sequence {
			live.Sequence = r.GetSequence()
			b.touchGrant(e, live.ID)
		}
	}
	add := max(0, min(level-out, l.Headroom(s.now, j.holder)))
	if out+add < d.need {
		add = 0
	}
	if add > 0 {
		s.grant(b, e, j.holder, j.req.GetEpoch(), r.GetSequence(), add)
		j.gave = true
	}
	j.shortage(s, e, answer, out+add, d)
	if add < d.want-out {
		s.recall(e, claims, b)
	}
}

func levelOf(claims []claim, h lease.Holder) int64 {
	for _, c := range claims {
		if c.holder == h {
			return c.level
		}
	}
	return 0
}

// wanted is the report's want and need, with the default cost filled in for the
// checks whose holder does not know it.
func wanted(r *pb.BudgetReport, defaultCost int64) (want, need int64) {
	want, need = r.GetWantTokens(), r.GetNeedTokens()
	checks := int64(r.GetDefaultCostChecks())
	if checks == 0 || defaultCost == 0 {
		return want, need
	}
	want = min(want, lease.MaxCapacity) + min(checks, lease.MaxCapacity/defaultCost)*defaultCost
	if need == 0 || defaultCost < need {
		need = defaultCost
	}
	return want, need
}

// grant opens or tops up the holder's grant; add is within its headroom.
func (s *Shard) grant(b *batch, e *entry, holder lease.Holder, epoch, sequence uint64, add int64) {
	var err error
	live := e.ledger.Live(holder, epoch)
	id := lease.GrantID{Generation: s.era.Generation, Shard: s.cfg.ID, Sequence: s.nextGrant}
	if live == nil {
		s.nextGrant++
		err = e.ledger.Open(s.now, id, holder, epoch, add)
		s.stats.GrantsOpened++
	} else {
		id = live.ID
		err = e.ledger.TopUp(s.now, id, add)
	}
	if err != nil {
		// Only a grant that has been issued MaxCounter gets here; its holder
		// closes it long before.
		s.log.Error("a grant was refused by the ledger", "error", err)
		return
	}
	if live == nil {
		if e.opened == nil {
			e.opened = map[lease.GrantID]int64{}
		}
		e.opened[id] = s.moment.UnixMs
		if e.installed == nil {
			e.installed = map[lease.GrantID]int64{}
		}
		e.installed[id] = e.ledger.Rule.Version // the policy is in the same answer
	}
	e.ledger.Grant(id).Sequence = sequence
	b.touchGrant(e, id)
	s.stats.TokensIssued += add
}

// shortage says why less is held than needed, and when refill could cover it. It
// names no time where refill is not what is lacking: others have a claim to what
// there is.
func (j *syncJob) shortage(s *Shard, e *entry, answer *pb.BudgetAnswer, held int64, d *demand) {
	if held >= d.need {
		d.since = 0
		return
	}
	if d.need > e.ledger.Rule.ShareCap() {
		answer.Shortage = pb.Shortage_SHORTAGE_ABOVE_CAPACITY
		return
	}
	if d.since == 0 {
		d.since = s.moment.Mono
	}
	answer.Shortage, j.short = pb.Shortage_SHORTAGE_EXHAUSTED, true
	if e.unknown {
		return // until the restore is attested, which no refill brings nearer
	}
	if answer.GetLevelTokens() >= d.need {
		answer.Shortage = pb.Shortage_SHORTAGE_RECALLING // unless refill is quicker
	}
	if d.need-held > e.ledger.Rule.ShareCap()-e.ledger.HeldBy(j.holder) {
		return // earlier epochs of the holder have its share: no refill helps
	}
	if wait, ok := e.ledger.Retry(s.now, d.need-held); ok && wait > 0 {
		answer.HasRetry, answer.RetryInNs = true, int64(wait)
	}
}
