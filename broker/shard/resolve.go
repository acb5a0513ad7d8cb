package shard

import (
	"errors"
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Errors of an attestation.
var (
	// ErrGrantGone means that the grant has ended already.
	ErrGrantGone = errors.New("shard: no such grant: it has ended, or never was")
	// ErrGrantLive means that the grant's epoch is still the holder's current one.
	ErrGrantLive = errors.New("shard: the grant's epoch is the current one of its holder")
)

// Resolution is an operator's attestation about one grant: no process of its
// epoch runs or can ever resume.
type Resolution struct {
	GrantID lease.GrantID
	Key     lease.Key // of the grant's budget
	// Word is whose word it is: By, Verified, Because and Forced of the audit entry.
	Word record.Audit
}

// Resolved is what an attestation did.
type Resolved struct {
	Grant   *pb.Grant // as it ended
	Counted int64     // tokens that count as spent from now on, or slots that are free again
	Slots   bool      // they are slots
}

// resolveJob ends an orphaned grant by attestation.
type resolveJob struct {
	what   Resolution
	reply  func(Resolved, error)
	result Resolved
	err    error
	lookup
	applied bool
}

// Resolve takes an attestation in. reply is called once, from Result or Next.
// Errors: ErrGrantGone, ErrGrantLive, and those of every request.
func (s *Shard) Resolve(what Resolution, reply func(Resolved, error)) {
	s.queue = append(s.queue, &resolveJob{what: what, reply: reply})
}

func (j *resolveJob) fail(err error) { j.reply(Resolved{}, err) }
func (j *resolveJob) finish(*Shard)  { j.reply(j.result, j.err) }

func (j *resolveJob) restart() bool {
	if j.applied {
		return false
	}
	j.lookup, j.err = lookup{}, nil
	return true
}

func (j *resolveJob) run(s *Shard, b *batch) progress {
	if b.full() {
		return again
	}
	e, ok := s.entry(j.what.Key, b)
	if !ok {
		return again
	}
	if e.err != nil {
		j.err = e.err
		return complete
	}
	var g *lease.Grant
	if e.exists && !e.unknown {
		g = e.ledger.Grant(j.what.GrantID)
	}
	if g == nil {
		j.err = ErrGrantGone
		return complete
	}
	if j.reg == nil {
		j.lookUp(s, b, g.Holder, &j.err)
		return again
	}
	if j.err == nil {
		j.attest(s, b, e, *g)
	}
	return complete
}

// attest counts the grant's outstanding credit as spent, unless its epoch may
// still run. It also fences the epoch in this shard, so that a late request of
// it opens nothing.
func (j *resolveJob) attest(s *Shard, b *batch, e *entry, g lease.Grant) {
	f := s.fence(g.Holder)
	if !f.Fences(g.Epoch) && j.reg.Serves() <= g.Epoch {
		j.err = fmt.Errorf("%w (%v epoch %d)", ErrGrantLive, g.Holder, g.Epoch)
		return
	}
	s.raise(f, max(g.Epoch+1, j.reg.Serves()), b)
	b.attestFence(s, f, g.Epoch)
	s.current(e, b)
	counted, err := e.ledger.Attest(s.now, g.ID)
	if err != nil {
		j.err = err
		return
	}
	stored := e.record(g)
	spent, slots := g.Spent+counted, e.ledger.Rule.Kind == lease.Concurrency
	if slots {
		spent = g.Spent
	}
	b.endGrant(s, e, g, Attested, spent, saidText(j.what.Word.By, j.what.Word.Because))
	e.forgetDemand(g.Holder, g.Epoch)
	word := j.what.Word
	word.Action, word.Subject, word.Before, word.After = "grants.resolve", g.ID.String(), stored, map[string]int64{"counted_as_spent": counted}
	if slots {
		word.After = map[string]int64{"freed_slots": counted}
	}
	b.add(s.audit(word))
	s.wake(e)
	j.applied = true
	j.result = Resolved{Grant: GrantToWire(stored, f.MinEpoch), Counted: counted, Slots: slots}
}

// audit is the operation that records what an operator did, in the transaction
// that does it.
func (s *Shard) audit(word record.Audit) store.Op {
	word.UnixMs = s.moment.UnixMs
	return put(s.cfg.Layout.Audit(word.UnixMs, word.Action+"-"+word.Subject), word)
}
