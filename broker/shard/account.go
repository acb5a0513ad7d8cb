package shard

import (
	"errors"
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// pageSize is how many grants of an epoch are read at a time.
const pageSize = 32

// accounting is a final account on its way: it fences the epoch, then walks
// through the epoch's grants page by page and ends each.
type accounting struct {
	account *pb.EpochAccount
	named   map[string]*pb.GrantAccount
	answer  *pb.AccountAnswer
	started bool
	done    bool
	kept    bool // a grant stays, since work may hold slots of it
	pager   pager
	at      int // next grant of the page
}

// pager reads grants under a prefix, in order of key, a page at a time.
type pager struct {
	from    string // where the next page starts; empty: at the prefix
	page    []record.Grant
	loaded  bool
	reading bool
	more    bool
	err     error
}

func newAccounting(a *pb.EpochAccount) *accounting {
	named := make(map[string]*pb.GrantAccount, len(a.GetGrants()))
	for _, g := range a.GetGrants() {
		named[g.GetGrantId()] = g
	}
	return &accounting{account: a, named: named, answer: &pb.AccountAnswer{Epoch: a.GetEpoch(), Partial: a.GetPartial()}}
}

// load reads the next page unless it is there.
func (p *pager) load(b *batch, prefix string, limit int64) bool {
	if p.loaded || p.err != nil {
		return true
	}
	if p.reading {
		return false
	}
	key, end := record.All(prefix)
	if p.from != "" {
		key = p.from
	}
	p.reading = b.read(store.Op{Kind: store.OpRange, Key: key, End: end, Limit: limit}, func(r store.OpResult) error {
		p.reading, p.loaded, p.more, p.page = false, true, r.More, p.page[:0]
		for _, kv := range r.KVs {
			g, err := record.Decode[record.Grant](kv)
			if err != nil {
				p.err = fmt.Errorf("%w: %w", ErrRecord, err)
				return err
			}
			p.page = append(p.page, g)
			p.from = kv.Key + "\x00"
		}
		return nil
	})
	return false
}

// runAccounts applies the final accounts, one after the other.
func (j *syncJob) runAccounts(s *Shard, b *batch) bool {
	for _, a := range j.accounts {
		if a.done {
			continue
		}
		if !j.account(s, b, a) {
			return false
		}
		a.done, j.gave = true, true
		j.resp.Accounts = append(j.resp.Accounts, a.answer)
	}
	return true
}

// account ends the grants of an epoch: those that are named by their counters,
// the others as unspent (C5.6), unless the account is a partial one. Nothing
// can be opened for the epoch any more once it is fenced, and that stands in the
// same chain of commits before the last page is read.
func (j *syncJob) account(s *Shard, b *batch, a *accounting) bool {
	f, epoch := s.fence(j.holder), a.account.GetEpoch()
	if !a.started {
		if b.full() {
			return false
		}
		proceed, err := j.startAccount(s, b, f, a)
		if err != nil {
			j.err = err
			return false
		}
		if !proceed {
			return true
		}
		a.started = true
		j.steps++
	}
	if s.era.Fences(epoch) {
		a.answer.Applied = true // its grants are gone, and what they had out is unknown
		return true
	}
	prefix := s.cfg.Layout.GrantsOfEpoch(s.cfg.ID, j.holder, epoch)
	for {
		if !a.pager.load(b, prefix, pageSize) {
			return false
		}
		if a.pager.err != nil {
			j.err = a.pager.err
			return false
		}
		if !j.endPage(s, b, a) {
			return false
		}
		if !a.pager.more {
			break
		}
		a.pager.loaded, a.at = false, 0
	}
	if b.full() {
		return false
	}
	a.answer.Applied = a.answer.Evidence == pb.Evidence_EVIDENCE_UNSPECIFIED
	// Where slots stay reserved, an older copy of the journal may still come and know
	// nothing of them.
	if a.answer.Applied && !a.account.GetPartial() && !a.kept && f.Forget(epoch) {
		b.touchFence(s, f)
	}
	return true
}

// startAccount checks the account's source and fences its epoch. proceed is
// false when it is refused.
//
// A holder accounts for its own epoch, since it has stopped spending. A journal
// accounts for earlier epochs of the current one, whose start holds its
// exclusive lock; one that lags the counter it told before is a copy, and proves
// nothing.
func (j *syncJob) startAccount(s *Shard, b *batch, f *fence, a *accounting) (proceed bool, err error) {
	epoch := a.account.GetEpoch()
	switch a.account.GetSource() {
	case pb.AccountSource_ACCOUNT_SOURCE_HOLDER:
		if epoch != j.req.GetEpoch() {
			return false, fmt.Errorf("%w: a holder's account of epoch %d was sent by epoch %d", ErrInvalid, epoch, j.req.GetEpoch())
		}
		s.raise(f, epoch+1, b)
	case pb.AccountSource_ACCOUNT_SOURCE_JOURNAL:
		if epoch >= j.req.GetEpoch() {
			return false, fmt.Errorf("%w: a journal's account of epoch %d was sent by epoch %d", ErrInvalid, epoch, j.req.GetEpoch())
		}
		if s.era.Fences(epoch) {
			return true, nil
		}
		if j.fenced {
			return false, nil
		}
		if told := f.Counter(epoch); a.account.GetJournalCounter() < told {
			s.stats.Evidence++
			s.log.Error("a journal is older than one that was told before: it was restored or cloned, and proves nothing",
				"holder", j.holder, "epoch", epoch, "counter", a.account.GetJournalCounter(), "told", told)
			a.answer.Evidence = pb.Evidence_EVIDENCE_JOURNAL_LAGS
			return false, nil
		}
	default:
		return false, fmt.Errorf("%w: an account without a source", ErrInvalid)
	}
	return true, nil
}

// endPage ends the grants of the page as far as their ledgers are loaded and
// the batch has room.
func (j *syncJob) endPage(s *Shard, b *batch, a *accounting) bool {
	loaded := true
	for _, r := range a.pager.page[a.at:] {
		if _, ok := s.entry(r.Key(), b); !ok {
			loaded = false
		}
	}
	if !loaded {
		return false
	}
	for ; a.at < len(a.pager.page); a.at++ {
		if b.full() {
			return false
		}
		r := a.pager.page[a.at]
		named, ok := a.named[r.ID]
		if !ok && a.account.GetPartial() {
			continue
		}
		e, _ := s.entry(r.Key(), b)
		if e.err != nil {
			a.answer.Evidence = pb.Evidence_EVIDENCE_RECORD_UNUSABLE
			continue
		}
		j.endGrant(s, b, e, a, r, named)
		j.steps++
	}
	return true
}

func (j *syncJob) endGrant(s *Shard, b *batch, e *entry, a *accounting, r record.Grant, named *pb.GrantAccount) {
	id, err := lease.ParseGrantID(r.ID)
	if err != nil || !e.exists {
		return
	}
	g := e.ledger.Grant(id)
	if g == nil {
		return // ended since the page was read
	}
	if g.Kept && named == nil {
		a.kept = true // an earlier part, or an earlier account, has named it: its slots may be in use
		return
	}
	was := *g
	s.current(e, b)
	if a.account.GetSource() == pb.AccountSource_ACCOUNT_SOURCE_JOURNAL {
		err = e.ledger.CloseProven(s.now, id, named.GetSpentTokens())
	} else {
		err = e.ledger.CloseHeld(s.now, id, named.GetSpentTokens(), named.GetReturnedTokens(), named.GetOwedTokens(), named.GetHeldTokens())
	}
	if _, ok := errors.AsType[*lease.AboveIssuedError](err); ok {
		a.answer.Evidence = s.evidence(err)
		return
	}
	s.closed(b, e, was, Accounted, named.GetSpentTokens()+named.GetHeldTokens(), sourceText(a.account.GetSource()))
	a.kept = a.kept || e.ledger.Grant(id) != nil
	e.forgetDemand(j.holder, a.account.GetEpoch())
	s.wake(e)
}
