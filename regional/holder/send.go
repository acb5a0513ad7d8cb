package holder

import (
	"slices"
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// maxHanging is how many requests may hang at one shard.
	maxHanging = 16
	// maxAccount is how many grants one message of a final account names.
	maxAccount = pb.MaxAccountGrants
)

// pending says that the shard has something to be told.
func (m *Manager) pending(sh *shardState) bool {
	if m.phase == ended {
		return false
	}
	if m.phase == running && (len(sh.waiting[urgent])+len(sh.waiting[routine]) > 0 || sh.tellNow || len(sh.waiting[starved]) > 0 && sh.hanging < maxHanging) {
		return true
	}
	for _, c := range sh.closing {
		if c.flight == 0 {
			return true
		}
	}
	for _, a := range sh.accounts() {
		if a.flight == 0 && !a.over() {
			return true
		}
	}
	return false
}

// send builds the shard's next requests.
func (m *Manager) send(sh *shardState, now time.Duration, e *Effects) {
	if now < sh.notBefore {
		return
	}
	list := m.phase == running && sh.contacted && now >= sh.nextList
	for sh.inFlight < m.cfg.MaxInFlight && (list || m.pending(sh)) {
		f, req := m.flight(sh, now)
		req.ListGrants, f.listed = list, list
		if list {
			m.nextList(sh, now)
		}
		list = false
		m.addReports(f, req, urgent, now)
		m.addReports(f, req, routine, now)
		m.addCloses(f, req)
		m.addAccounts(f, req)
		if len(req.Budgets)+len(req.Closes)+len(req.Accounts) == 0 && !req.ListGrants && !sh.tellNow {
			delete(m.flights, m.requests) // only the starved are left
			break
		}
		sh.tellNow = false
		sh.inFlight++
		sh.open = append(sh.open, m.requests)
		e.Syncs = append(e.Syncs, Sync{ID: m.requests, Request: req})
	}
	m.sendStarved(sh, now, e)
}

// sendStarved asks for the budgets that go short in a request that hangs.
func (m *Manager) sendStarved(sh *shardState, now time.Duration, e *Effects) {
	if len(sh.waiting[starved]) == 0 || sh.hanging >= maxHanging || m.phase != running {
		return
	}
	f, req := m.flight(sh, now)
	f.hanging = true
	req.WaitMs = uint32(m.cfg.HangTime / time.Millisecond)
	m.addReports(f, req, starved, now)
	if len(req.Budgets) == 0 {
		delete(m.flights, m.requests)
		return
	}
	for _, k := range f.keys {
		if k.bounded > 0 { // its answer would be too old, and what it gives with it
			req.WaitMs = min(req.WaitMs, uint32(k.bounded/renewParts/time.Millisecond))
		}
	}
	sh.hanging++
	sh.open = append(sh.open, m.requests)
	e.Syncs = append(e.Syncs, Sync{ID: m.requests, Hanging: true, Request: req})
}

func (m *Manager) flight(sh *shardState, now time.Duration) (*flight, *pb.SyncRequest) {
	m.requests++
	f := &flight{shard: sh, sent: now, clocks: m.cfg.Clocks()}
	m.flights[m.requests] = f
	if !sh.contacted {
		sh.contacted = true
		m.nextList(sh, now)
	}
	return f, &pb.SyncRequest{
		Holder: &pb.Holder{Region: m.cfg.Holder.Region, Instance: m.cfg.Holder.Instance},
		Epoch:  m.cfg.Epoch, ClusterId: m.cfg.Cluster, Shard: sh.id, HighestHead: sh.head, JournalCounter: m.journal.counter,
		RoundTripNs: int64(sh.rtt),
	}
}

func (m *Manager) nextList(sh *shardState, now time.Duration) {
	sh.nextList = now + m.cfg.ListEvery/2 + time.Duration(float64(m.cfg.ListEvery)*m.cfg.Jitter())
}

// addReports takes budgets from a queue into the request, as many as it holds.
func (m *Manager) addReports(f *flight, req *pb.SyncRequest, from queue, now time.Duration) {
	rest := f.shard.waiting[from]
	for len(rest) > 0 && len(req.Budgets) < m.cfg.MaxReports {
		k := rest[0]
		rest = rest[1:]
		if k.queued != from {
			continue // it has moved to another queue
		}
		k.queued = notQueued
		if m.phase != running || k.gone || k.flight != 0 && !k.hanging {
			continue
		}
		req.Budgets = append(req.Budgets, m.report(k, m.requests, now, f.hanging))
		f.keys = append(f.keys, k)
	}
	if len(rest) == 0 {
		rest = nil
	}
	f.shard.waiting[from] = rest
}

func (m *Manager) addCloses(f *flight, req *pb.SyncRequest) {
	for _, c := range f.shard.closing {
		if c.flight != 0 || len(req.Closes) >= m.cfg.MaxReports {
			continue
		}
		c.flight = m.requests
		f.closes = append(f.closes, c)
		req.Closes = append(req.Closes, c.wire())
	}
}

func (m *Manager) addAccounts(f *flight, req *pb.SyncRequest) {
	for _, a := range f.shard.accounts() {
		if a.flight != 0 || a.over() || len(req.Accounts) >= pb.MaxSyncAccounts {
			continue
		}
		a.flight = m.requests
		a.sent = min(len(a.grants), maxAccount)
		f.accounts = append(f.accounts, a)
		req.Accounts = append(req.Accounts, &pb.EpochAccount{
			Epoch: a.epoch, Source: a.source, JournalCounter: a.counter,
			Grants: a.grants[:a.sent], Partial: a.sent < len(a.grants),
		})
	}
}

// Synced takes the outcome of a request. An error says nothing about whether
// the broker has applied it.
func (m *Manager) Synced(id uint64, resp *pb.SyncResponse, err error, now time.Duration) {
	f := m.flights[id]
	if f == nil {
		return
	}
	delete(m.flights, id)
	sh := f.shard
	defer sh.answered(id)
	if f.hanging {
		sh.hanging--
	} else {
		sh.inFlight--
	}
	m.stats.Syncs++
	if err != nil {
		m.failed(f, id, now)
		return
	}
	sh.failures, sh.notBefore = 0, 0
	sh.heard = max(sh.heard, f.sent)
	sh.head = max(sh.head, resp.GetHead())
	if !f.hanging {
		sh.rtt = smooth(sh.rtt, now-f.sent)
	}
	m.confirmCloses(f, resp)
	m.confirmAccounts(f, resp)
	if resp.GetFenced() && m.phase == running {
		m.log.Warn("this epoch has been replaced; nothing more is spent", "epoch", m.cfg.Epoch, "current", resp.GetCurrentEpoch())
		m.fenced = true
		m.end()
	}
	m.acknowledged(sh, resp.GetJournalCounter())
	m.answers(f, id, resp, now)
	if resp.GetListed() {
		m.compare(sh, resp.GetGrants())
	}
}

// failed frees what the request carried, to be sent again.
func (m *Manager) failed(f *flight, id uint64, now time.Duration) {
	sh := f.shard
	m.stats.SyncFailures++
	if f.sent >= sh.failedAt {
		sh.failures++ // others that were on their way tell nothing new
	}
	sh.failedAt = now
	sh.notBefore = max(sh.notBefore, f.sent+m.backoff(sh.failures)) // the time that the attempt took counts
	for _, k := range f.keys {
		if k.flight != id {
			continue
		}
		k.flight, k.hanging = 0, false
		k.sentSpent, k.sentReturned, k.sentOwed = 0, 0, k.knownOwed // perhaps never heard: report them again
		if k.grant != "" && k.budget.holds.used.Load() {
			k.sentHeld = -1 // likewise
		}
		m.outlook(k, func(o *Outlook) { o.Recalling, o.Down = false, o.Down || sh.failures > 1 })
		if sh.failures > 1 {
			k.budget.tell()
		}
		m.activate(k)
		if count, _, _ := k.budget.demand(); count > 0 || k.returned > 0 {
			m.ask(k, k.need, false)
		}
	}
	for _, c := range f.closes {
		c.flight = 0
	}
	for _, a := range f.accounts {
		a.flight = 0
	}
	sh.tellNow = sh.tellNow || len(m.journal.unacked) > 0
}

// confirmCloses takes the answers to closes: what is gone is told no more.
func (m *Manager) confirmCloses(f *flight, resp *pb.SyncResponse) {
	for _, c := range f.closes {
		c.flight = 0
	}
	if len(resp.GetCloses()) == 0 {
		return
	}
	answers := make(map[string]*pb.CloseAnswer, len(resp.GetCloses()))
	for _, a := range resp.GetCloses() {
		answers[a.GetGrantId()] = a
	}
	f.shard.closing = slices.DeleteFunc(f.shard.closing, func(c *closing) bool {
		a := answers[c.id]
		if a == nil {
			return false
		}
		m.closeConfirmed(f.shard, c, a.GetEvidence())
		return true
	})
}

// closeConfirmed takes the broker's word that it knows of a close. Where slots of the
// grant may be in use, they stay reserved under its ID, so it is remembered for the
// epoch: it is not taken up again, not closed as unspent when it is listed, named in
// the final account, and kept in the journal, which names it after a crash.
func (m *Manager) closeConfirmed(sh *shardState, c *closing, evidence pb.Evidence) {
	if c.held > 0 && evidence == pb.Evidence_EVIDENCE_UNSPECIFIED {
		sh.kept = append(sh.kept, c)
		return
	}
	sh.confirmed(c.id)
	if evidence != pb.Evidence_EVIDENCE_UNSPECIFIED {
		m.contradicted(sh, c, evidence)
	} else if m.cfg.Journal != JournalOff {
		m.journal.forget = append(m.journal.forget, c.id)
	}
}

// contradicted notes a grant of which the ledger and this process remember
// different histories. It is never closed as unspent, and the final account
// names it with its counters; an operator resolves it.
func (m *Manager) contradicted(sh *shardState, c *closing, what pb.Evidence) {
	m.stats.Evidence++
	if sh.refused == nil {
		sh.refused = map[string]*closing{}
	}
	sh.refused[c.id] = c
	m.log.Error("the broker's ledger contradicts this limiter: the store or a disk was set back, or this limiter was cloned; the grant stays reserved until it is resolved",
		"grant", c.id, "evidence", what)
}

func smooth(old, fresh time.Duration) time.Duration {
	if old == 0 {
		return fresh
	}
	return (old + fresh) / 2
}

// outlook replaces the budget's outlook by a changed copy.
func (m *Manager) outlook(k *keyState, change func(*Outlook)) {
	var o Outlook
	if old := k.budget.Outlook(); old != nil {
		o = *old
	}
	before := o
	change(&o)
	if k.budget.Outlook() == nil || o != before {
		k.budget.outlook.Store(&o)
	}
}
