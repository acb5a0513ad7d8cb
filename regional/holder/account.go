package holder

import (
	"maps"
	"slices"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// account is the final account of one epoch to one shard.
type account struct {
	epoch   uint64
	source  pb.AccountSource
	counter uint64
	grants  []*pb.GrantAccount // not confirmed yet
	sent    int                // how many of them the message on its way names
	flight  uint64             // 0: none
	done    bool
	refused bool
}

// over says that there is nothing more to send.
func (a *account) over() bool { return a.done || a.refused }

// pastAccount is an earlier epoch that the journal accounts for, shard by shard.
type pastAccount struct {
	epoch    uint64
	accounts []*account
	told     bool
}

// accounts are all final accounts to the shard.
func (sh *shardState) accounts() []*account {
	if sh.account == nil {
		return sh.past
	}
	return append([]*account{sh.account}, sh.past...)
}

// wire is the closed grant in the form of requests.
func (c *closing) wire() *pb.GrantAccount {
	return &pb.GrantAccount{
		GrantId: c.id, SpentTokens: c.spent, ReturnedTokens: c.returned, HeldTokens: c.held, OwedTokens: c.owed,
		Key: &pb.BudgetKey{Account: c.key.Account, Operation: c.key.Operation},
	}
}

// takePast prepares the accounts of the epochs that the journal proves. They go
// to every shard, since only a shard knows of grants that were never drawn.
func (m *Manager) takePast() {
	for _, p := range m.cfg.Earlier {
		past := &pastAccount{epoch: p.Epoch}
		for _, sh := range m.shards {
			a := &account{epoch: p.Epoch, source: pb.AccountSource_ACCOUNT_SOURCE_JOURNAL, counter: p.Counter}
			sh.past = append(sh.past, a)
			past.accounts = append(past.accounts, a)
		}
		for _, d := range p.Drawn {
			id, err := lease.ParseGrantID(d.GrantID)
			if err != nil || id.Shard >= m.cfg.Shards {
				m.log.Error("the journal names a grant that cannot be", "grant", d.GrantID)
				continue
			}
			a := past.accounts[id.Shard]
			a.grants = append(a.grants, &pb.GrantAccount{GrantId: d.GrantID, SpentTokens: d.Tokens})
		}
		m.past = append(m.past, past)
	}
}

// Stop ends the epoch in order: nothing is spent from now on, and every shard
// that was dealt with gets the exact final account. Go on feeding and stepping
// until Ended.
func (m *Manager) Stop() {
	if m.phase == running {
		m.end()
	}
}

// end empties the hot path of every budget and prepares the final account.
func (m *Manager) end() {
	m.phase = ending
	keys := make([]*keyState, 0, len(m.keys))
	for _, k := range m.keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *keyState) int { return a.budget.Key.Compare(b.budget.Key) })
	for _, k := range keys {
		if !k.broken {
			m.closeGrant(k)
		}
		m.stopBudget(k.budget)
	}
	var slots int64
	for _, sh := range m.shards {
		if !sh.contacted {
			continue
		}
		for _, c := range slices.Concat(sh.closing, sh.kept) {
			slots += c.held
		}
		sh.account = &account{epoch: m.cfg.Epoch, source: pb.AccountSource_ACCOUNT_SOURCE_HOLDER}
		for _, c := range sh.closing {
			sh.account.grants = append(sh.account.grants, c.wire())
		}
		for _, c := range sh.kept {
			sh.account.grants = append(sh.account.grants, c.wire())
		}
		for _, id := range slices.Sorted(maps.Keys(sh.refused)) {
			sh.account.grants = append(sh.account.grants, sh.refused[id].wire())
		}
		sh.closing, sh.waiting, sh.tellNow = nil, [queues][]*keyState{}, false
	}
	if slots > 0 {
		m.log.Warn("work still holds slots of this limiter at its end: they stay reserved; once that work has ended, say so with `tokenlease grants resolve`", "slots", slots)
	}
}

func (m *Manager) stopBudget(b *Budget) {
	stopped := &Outlook{Stopped: true}
	if o := b.Outlook(); o != nil {
		stopped.Policy = o.Policy
	}
	b.outlook.Store(stopped)
	b.tell()
}

// confirmAccounts takes the answers to final accounts.
func (m *Manager) confirmAccounts(f *flight, resp *pb.SyncResponse) {
	for _, a := range f.accounts {
		a.flight = 0
		i := slices.IndexFunc(resp.GetAccounts(), func(answer *pb.AccountAnswer) bool { return answer.GetEpoch() == a.epoch })
		switch {
		case i < 0:
		case resp.Accounts[i].GetApplied() && resp.Accounts[i].GetPartial():
			a.grants = a.grants[a.sent:]
		case resp.Accounts[i].GetApplied():
			a.done, a.grants = true, nil
			f.shard.nextList = 0 // what is still listed are slots that work may hold
		case resp.Accounts[i].GetEvidence() != pb.Evidence_EVIDENCE_UNSPECIFIED:
			a.refused = true
			m.stats.Evidence++
			m.log.Error("a final account was refused; what it would have freed stays reserved until it is resolved",
				"epoch", a.epoch, "shard", f.shard.id, "evidence", resp.Accounts[i].GetEvidence())
		default:
			a.refused = true // this epoch was fenced: its successor accounts
		}
	}
}

// finished are the epochs whose accounts every shard has confirmed.
func (m *Manager) finished() []uint64 {
	var epochs []uint64
	for _, p := range m.past {
		if !p.told && !slices.ContainsFunc(p.accounts, func(a *account) bool { return !a.done }) {
			p.told = true
			epochs = append(epochs, p.epoch)
		}
	}
	if m.phase != ending {
		return epochs
	}
	clean := true
	for _, sh := range m.shards {
		if sh.account == nil {
			continue
		}
		if !sh.account.over() {
			return epochs
		}
		clean = clean && sh.account.done && len(sh.refused) == 0
	}
	m.phase = ended
	if clean {
		epochs = append(epochs, m.cfg.Epoch)
	}
	return epochs
}

// warnOfOrphan tells once of a grant of an earlier epoch that no journal here
// accounts for, or whose slots may still be in use.
func (m *Manager) warnOfOrphan(sh *shardState, g *pb.Grant) {
	at := slices.IndexFunc(sh.past, func(a *account) bool { return a.epoch == g.GetEpoch() && !a.refused })
	accounted := at >= 0
	if accounted && !sh.past[at].done || m.warned[g.GetGrantId()] || len(m.warned) >= maxWarned {
		return
	}
	m.warned[g.GetGrantId()] = true
	if accounted || g.GetKept() {
		m.log.Warn("slots that an earlier start of this limiter had given to work stay reserved: once that work has ended, say so with `tokenlease grants resolve`",
			"grant", g.GetGrantId(), "epoch", g.GetEpoch(), "slots", g.GetOutstandingTokens())
		return
	}
	m.log.Warn("credit of an earlier start of this limiter is not accounted for, and stays reserved: start it once with that journal, or resolve it with `tokenlease grants resolve`",
		"grant", g.GetGrantId(), "epoch", g.GetEpoch(), "outstanding", g.GetOutstandingTokens())
}

// maxWarned bounds how many orphaned grants are named in the log.
const maxWarned = 100

// compare holds the shard's list of this holder's grants against what is known
// here (C5.7). What this epoch never held, and does not wait for, is closed as
// unspent. Grants of earlier epochs wait for their journal's account.
func (m *Manager) compare(sh *shardState, grants []*pb.Grant) {
	sh.orphans = 0
	for _, g := range grants {
		if g.GetEpoch() != m.cfg.Epoch {
			sh.orphans++
			m.warnOfOrphan(sh, g)
			continue
		}
		key := lease.Key{Account: g.GetBudget().GetAccount(), Operation: g.GetBudget().GetOperation()}
		k := m.keys[key]
		switch {
		case m.phase != running, sh.knowsClosed(g.GetGrantId()):
		case k != nil && (k.grant == g.GetGrantId() || k.flight != 0):
		default:
			sh.close(&closing{key: key, id: g.GetGrantId()})
		}
	}
	m.stats.Orphans = 0
	for _, sh := range m.shards {
		m.stats.Orphans += sh.orphans
	}
}
