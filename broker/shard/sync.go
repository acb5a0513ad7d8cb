package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ErrInvalid means that a request contradicts itself or names what is not its
// own.
var ErrInvalid = errors.New("shard: invalid request")

// syncJob is a SyncRequest on its way: admission, then closes, final accounts,
// reports and the list. Each step is applied once, in whatever batch has room;
// the answer leaves after the commit of the last.
type syncJob struct {
	req      *pb.SyncRequest
	holder   lease.Holder
	reply    func(*pb.SyncResponse, error)
	deadline time.Duration // until when it may hang, on the monotonic clock

	resp     *pb.SyncResponse
	err      error
	admitted bool
	fenced   bool
	lookup
	closed   []bool
	accounts []*accounting
	reported []bool
	list     listing
	gave     bool // there is more to tell than a shortage
	short    bool // a report found a shortage that waiting can end
	steps    int  // applied so far

	rerun     bool // it was parked: its own sequence numbers are not stale
	recalling bool // it was parked for credit that is being called back
	canceled  bool
	wakeAt    time.Duration
}

// Ticket cancels a request whose caller has given up.
type Ticket struct{ job *syncJob }

// Cancel makes a hanging request end at the next Next. A request that is
// answered already is left alone.
func (t Ticket) Cancel() { t.job.canceled = true }

// Sync takes a request in. reply is called once, from Result or Next, and must
// not block. The request must have passed Validate, and must not be changed
// until then.
func (s *Shard) Sync(req *pb.SyncRequest, m Moment, reply func(*pb.SyncResponse, error)) Ticket {
	j := &syncJob{
		req:      req,
		holder:   lease.Holder{Region: req.GetHolder().GetRegion(), Instance: req.GetHolder().GetInstance()},
		reply:    reply,
		deadline: m.Mono + time.Duration(req.GetWaitMs())*time.Millisecond,
	}
	j.reset()
	s.hearFrom(j.holder, m)
	s.queue = append(s.queue, j)
	return Ticket{job: j}
}

func (j *syncJob) reset() {
	j.resp, j.err = &pb.SyncResponse{}, nil
	j.admitted, j.fenced, j.lookup = false, false, lookup{}
	j.closed = make([]bool, len(j.req.GetCloses()))
	j.reported = make([]bool, len(j.req.GetBudgets()))
	j.resp.Closes = make([]*pb.CloseAnswer, len(j.closed))
	j.resp.Budgets = make([]*pb.BudgetAnswer, len(j.reported))
	j.accounts = j.accounts[:0]
	for _, a := range j.req.GetAccounts() {
		j.accounts = append(j.accounts, newAccounting(a))
	}
	j.list = listing{}
	j.gave, j.short, j.steps = false, false, 0
}

func (j *syncJob) restart() bool {
	if j.steps > 0 && !j.rerun {
		return false
	}
	j.reset()
	return true
}

func (j *syncJob) fail(err error) { j.reply(nil, err) }

func (j *syncJob) finish(s *Shard) {
	if j.err != nil {
		j.reply(nil, j.err)
		return
	}
	j.resp.Head = s.headRevision
	j.reply(j.resp, nil)
}

func (j *syncJob) run(s *Shard, b *batch) progress {
	if j.canceled {
		j.err = ErrCanceled
	}
	for _, step := range []func(*Shard, *batch) bool{j.admit, j.runCloses, j.runAccounts, j.runReports, j.runList} {
		if j.err != nil {
			return complete
		}
		if !step(s, b) && j.err == nil {
			return again
		}
	}
	if j.err == nil && j.mayHang(s) {
		return hanging
	}
	return complete
}

// admit settles whether the sender's epoch is served. The first request of an
// epoch to this shard looks up its registration, in a guarded read that began
// after the request arrived, and fences the epochs before it.
func (j *syncJob) admit(s *Shard, b *batch) bool {
	if j.admitted {
		return true
	}
	if b.full() {
		return false
	}
	f, epoch := s.fence(j.holder), j.req.GetEpoch()
	if s.era.Fences(epoch) { // whatever it has seen is of another history
		s.refuse(j)
		j.admitted = true
		j.steps++
		return true
	}
	if j.req.GetHighestHead() > s.headRevision {
		b.setBack = ErrSetBack // if this is the owner, which the commit will tell
		j.err = ErrSetBack
		return false
	}
	if !f.Fences(epoch) && f.verified != epoch {
		if j.reg == nil {
			j.lookUp(s, b, j.holder, &j.err)
			return false
		}
		if j.reg.Epoch < epoch {
			b.setBack = s.unheardOf(epoch) // it was given out, and the store does not know it
			j.err = b.setBack
			return false
		}
		s.raise(f, max(epoch, j.reg.Serves()), b)
		if j.reg.Retired {
			b.attestFence(s, f, j.reg.Epoch)
		}
		if !f.Fences(epoch) {
			f.verified = epoch
			s.fences[j.holder] = f
		}
	}
	if f.Fences(epoch) {
		s.refuse(j)
		s.judgeAttestation(f, epoch)
	}
	j.tell(s, f, b)
	s.hearFrom(j.holder, s.moment)
	if !j.fenced {
		s.hearRoundTrip(j.holder, time.Duration(j.req.GetRoundTripNs()), s.moment)
	}
	j.admitted = true
	j.steps++
	return true
}

// refuse has the answer say that the sender's epoch is fenced: it counts what the request
// tells, and gives nothing.
func (s *Shard) refuse(j *syncJob) {
	j.fenced, j.gave = true, true
	j.resp.Fenced, j.resp.CurrentEpoch = true, s.fence(j.holder).MinEpoch
}

// tell records the journal's write counter. A fenced epoch without a counter is
// one whose account is done; it gets no new one.
func (j *syncJob) tell(s *Shard, f *fence, b *batch) {
	epoch, counter := j.req.GetEpoch(), j.req.GetJournalCounter()
	if (!j.fenced || f.Counter(epoch) > 0) && f.Tell(epoch, counter) {
		b.touchFence(s, f)
	}
	j.resp.JournalCounter = f.Counter(epoch)
}

// raise fences the holder's epochs below lowest.
func (s *Shard) raise(f *fence, lowest uint64, b *batch) {
	if f.Raise(lowest) {
		f.verified = 0
		b.touchFence(s, f)
		b.hintFenced(s, f)
	}
}

// runCloses ends the grants that the holder has closed. A grant that is gone
// already is confirmed as gone, and nothing changes (C5.5).
func (j *syncJob) runCloses(s *Shard, b *batch) bool {
	all := true
	for i, c := range j.req.GetCloses() {
		if j.closed[i] {
			continue
		}
		if b.full() {
			return false
		}
		e, ok := s.entry(keyOf(c.GetKey()), b)
		if !ok {
			all = false
			continue
		}
		if e.err != nil {
			j.resp.Closes[i] = &pb.CloseAnswer{GrantId: c.GetGrantId(), Evidence: pb.Evidence_EVIDENCE_RECORD_UNUSABLE}
			j.closed[i], j.gave = true, true
			continue
		}
		if j.resp.Closes[i], j.err = j.close(s, b, e, c); j.err != nil {
			return false
		}
		j.closed[i], j.gave = true, true
		j.steps++
	}
	return all
}

func (j *syncJob) close(s *Shard, b *batch, e *entry, c *pb.GrantAccount) (*pb.CloseAnswer, error) {
	answer := &pb.CloseAnswer{GrantId: c.GetGrantId()}
	g, err := j.own(e, c.GetGrantId())
	if err != nil || g == nil || g.Kept { // kept: it has been closed, and its slots are nobody's to free by a close
		return answer, err
	}
	was := *g
	s.current(e, b)
	// A holder that lives closes a grant with slots in use only when it was told, perhaps
	// late, that there are none any more. Where the rule is one of slots again by now,
	// they stay reserved, beside whatever grant the epoch opens next.
	if err := e.ledger.CloseHeld(s.now, was.ID, c.GetSpentTokens(), c.GetReturnedTokens(), c.GetOwedTokens(), c.GetHeldTokens()); err != nil {
		answer.Evidence = s.evidence(err)
		return answer, nil
	}
	s.closed(b, e, was, Closed, c.GetSpentTokens(), "")
	e.forgetDemand(j.holder, j.req.GetEpoch())
	s.wake(e)
	return answer, nil
}

// current brings a budget to the policy in force before its grants are ended: under a
// rule of before, slots that are in use could count as spent, and be free.
func (s *Shard) current(e *entry, b *batch) {
	if pol, ruled := s.ruling(e); ruled && e.exists {
		s.install(e, pol, b)
	}
}

// closed marks a grant that its holder has closed as ended, or as changed where
// slots of it may still be in use. It tells by what it ended, and with how many
// tokens that were told as spent.
func (s *Shard) closed(b *batch, e *entry, was lease.Grant, what What, spent int64, detail string) {
	if e.ledger.Grant(was.ID) != nil {
		b.touchGrant(e, was.ID)
		return
	}
	e.spend(s.moment.Mono, spent-was.Spent)
	b.endGrant(s, e, was, what, spent, detail)
}

// own is the grant of the sender's epoch with this ID, or nil if it is gone.
func (j *syncJob) own(e *entry, grantID string) (*lease.Grant, error) {
	id, err := lease.ParseGrantID(grantID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !e.exists {
		return nil, nil //nolint:nilnil // gone is no error
	}
	g := e.ledger.Grant(id)
	if g != nil && (g.Holder != j.holder || g.Epoch != j.req.GetEpoch()) {
		return nil, fmt.Errorf("%w: grant %v is of %v epoch %d, not of the sender", ErrInvalid, id, g.Holder, g.Epoch)
	}
	return g, nil
}

// evidence counts and reports a contradiction. Of many it logs one in a second, so
// that a holder fills no disk.
func (s *Shard) evidence(err error) pb.Evidence {
	s.stats.Evidence++
	if s.moment.Mono >= s.evidenceAgain {
		s.evidenceAgain = s.moment.Mono + time.Second
		s.log.Error("an account contradicts the ledger and was refused", "error", err, "so_far", s.stats.Evidence)
	}
	return pb.Evidence_EVIDENCE_ABOVE_ISSUED
}

func keyOf(k *pb.BudgetKey) lease.Key {
	return lease.Key{Account: k.GetAccount(), Operation: k.GetOperation()}
}
