package regional

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/replay"
)

// maxAlso is how many further budgets a request may have.
const maxAlso = 15

// maxIDBytes bounds a decision ID.
const maxIDBytes = 128

var _ decision.Reserver = (*Limiter)(nil)

// Decide implements [decision.Decider]. In this order it holds the request to its
// form, sheds it if this limiter is overloaded, looks for the recorded answer to
// its ID, holds it against the policy, and spends.
func (l *Limiter) Decide(ctx context.Context, req decision.Request) decision.Answer {
	if problem := requestProblem(&req); problem != "" {
		return l.counted(req.Key, decision.Invalid(problem))
	}
	if !l.guard.enter() {
		return l.counted(req.Key, overloaded())
	}
	defer l.guard.leave()
	if req.ID == "" {
		return l.counted(req.Key, l.decide(ctx, &req))
	}
	return l.once(ctx, &req, false, func() verdict { return verdict{answer: l.decide(ctx, &req)} }).answer
}

// Wait decides one check of the given cost for a caller that waits for its turn, as
// long as ctx lasts and no longer than 10 minutes. It returns at once where waiting
// cannot help in that time.
func (l *Limiter) Wait(ctx context.Context, account, operation string, cost int64) decision.Answer {
	return l.Decide(ctx, decision.Request{
		Part:    decision.Part{Key: lease.Key{Account: account, Operation: operation}, Cost: decision.Tokens(cost)},
		MaxWait: longestWait,
	})
}

func overloaded() decision.Answer {
	return decision.Answer{Reason: pb.Reason_REASON_OVERLOADED, Detail: "this limiter sheds checks to protect itself: ask another one, or later"}
}

// decide decides a request that has no recorded answer.
func (l *Limiter) decide(ctx context.Context, req *decision.Request) decision.Answer {
	if len(req.Also) > 0 {
		s := l.several(req)
		d := l.arrange(ctx, s, req)
		s.log(&d, req.ID)
		return d
	}
	c := l.claim(req)
	if req.MaxWait <= 0 {
		d := l.now(ctx, &c)
		return l.logged(&c, req.ID, d)
	}
	waiting := c
	d := l.arrange(ctx, &waiting, req)
	return l.logged(&waiting, req.ID, d)
}

func (l *Limiter) claim(req *decision.Request) claim {
	return claim{limiter: l, key: req.Key, budget: l.known(req.Key), cost: req.Cost, version: req.PolicyVersion}
}

// arrange decides a job as its request lets it wait.
func (l *Limiter) arrange(ctx context.Context, j job, req *decision.Request) decision.Answer {
	if req.MaxWait <= 0 {
		return l.await(ctx, j)
	}
	return l.inTurn(ctx, j, req.Key, turn{maxWait: req.MaxWait, high: req.Priority == pb.Priority_PRIORITY_HIGH})
}

// requestProblem is what is wrong with the form of a request, for people; empty for
// nothing. Of a request that is valid it allocates nothing.
func requestProblem(req *decision.Request) string {
	if problem := partProblem(&req.Part); problem != "" {
		return problem
	}
	if len(req.Also) > maxAlso {
		return fmt.Sprintf("also has %d budgets: at most %d", len(req.Also), maxAlso)
	}
	for i := range req.Also {
		if problem := partProblem(&req.Also[i]); problem != "" {
			return fmt.Sprintf("also[%d]: %s", i, problem)
		}
		for j := -1; j < i; j++ {
			earlier := req.Key
			if j >= 0 {
				earlier = req.Also[j].Key
			}
			if earlier == req.Also[i].Key {
				return fmt.Sprintf("also[%d] repeats a budget of the request: name each once, with the sum of the costs", i)
			}
		}
	}
	switch {
	case req.PolicyVersion < 0:
		return "the policy version is negative"
	case req.MaxWait < 0:
		return "the time to wait is negative"
	case req.MaxWait > longestWait:
		return fmt.Sprintf("the time to wait is above %v", longestWait)
	case req.Priority < pb.Priority_PRIORITY_UNSPECIFIED || req.Priority > pb.Priority_PRIORITY_HIGH:
		return "the priority is not known"
	}
	return idProblem(req.ID)
}

func partProblem(p *decision.Part) string {
	if problem := keyProblem(p.Key); problem != "" {
		return problem
	}
	if p.Cost.Given && p.Cost.Tokens < 0 {
		return "the cost is negative"
	}
	return ""
}

// keyProblem is what is wrong with a key; empty for nothing.
func keyProblem(key lease.Key) string {
	wire := pb.BudgetKey{Account: key.Account, Operation: key.Operation}
	if err := wire.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

func idProblem(id string) string {
	if len(id) > maxIDBytes {
		return fmt.Sprintf("the decision ID has %d bytes: at most %d", len(id), maxIDBytes)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return "the decision ID is not of printable ASCII without spaces"
		}
	}
	return ""
}

// verdict is what is recorded under a decision ID.
type verdict struct {
	answer      decision.Answer
	reservation *reservation // of an admitted Reserve
}

// payload is what a request asks for: two of one ID must agree in it. How long a
// caller is ready to wait, and which policy version it knows, may differ.
type payload struct {
	reserve bool
	cost    decision.Cost
	also    [sha256.Size]byte // of the further budgets; zero for none
}

func payloadOf(req *decision.Request, reserve bool) payload {
	p := payload{reserve: reserve, cost: req.Cost}
	if !p.cost.Given {
		p.cost.Tokens = 0
	}
	if len(req.Also) == 0 {
		return p
	}
	var text []byte
	put := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	for _, part := range req.Also {
		put(part.Key.Account)
		put(part.Key.Operation)
		if part.Cost.Given {
			text = binary.AppendUvarint(append(text, 1), uint64(part.Cost.Tokens))
		} else {
			text = append(text, 0)
		}
	}
	p.also = sha256.Sum256(text)
	return p
}

// once decides a request with an ID, or finds what was decided under it.
func (l *Limiter) once(ctx context.Context, req *decision.Request, reserve bool, decide func() verdict) verdict {
	key := replay.Key{Account: req.Key.Account, Operation: req.Key.Operation, ID: req.ID}
	r := l.replays.Do(ctx, key, payloadOf(req, reserve), func() (verdict, replay.Keep) {
		v := decide()
		return v, keep(ctx, &v.answer)
	})
	switch r.Outcome {
	case replay.Repeated:
		if held := r.Value.reservation; held != nil && !held.open() {
			return verdict{answer: l.counted(req.Key, decision.Invalid("the reservation of this decision has ended: use a new decision ID"))}
		}
		l.obs.counters["replays_total"].Inc()
		r.Value.answer = l.again(r.Value.answer, req, r.At)
		l.logReplay(req, &r.Value.answer)
		return r.Value
	case replay.Conflict:
		return verdict{answer: l.counted(req.Key, decision.Invalid("the decision ID stands for another request: use a new ID for each decision"))}
	case replay.GaveUp:
		return verdict{answer: l.counted(req.Key, decision.Unavailable("the caller did not wait for the decision on its first request of this ID"))}
	case replay.Decided:
	}
	l.counted(req.Key, r.Value.answer)
	return r.Value
}

// keep says what is recorded: what was spent, whether or not its caller still
// waits, and that a budget is used up. Everything else has spent nothing, and may be
// over when the caller asks again: it is decided anew.
func keep(ctx context.Context, d *decision.Answer) replay.Keep {
	switch {
	case d.Allowed:
		return replay.Record
	case ctx.Err() != nil:
		return replay.Drop // it may be the answer to a caller that has left, and no other
	case d.Reason == pb.Reason_REASON_EXHAUSTED:
		return replay.Record
	}
	return replay.Share
}

// again is a recorded answer, told now: the waits are what is left of them, and what
// remains is no more than is here now. A wait that is over says to ask again at
// once, under a new ID.
func (l *Limiter) again(d decision.Answer, req *decision.Request, at time.Duration) decision.Answer {
	d.Replayed = true
	passed := l.cfg.Clock.Mono() - at
	if d.HasRetry {
		l.retryIn(&d, max(0, d.RetryIn-passed))
	}
	d.Parts = slices.Clone(d.Parts) // the record is shared
	for i := range d.Parts {
		p := &d.Parts[i]
		p.Remaining = min(p.Remaining, l.credit(p.Key))
		d.Remaining = min(d.Remaining, p.Remaining)
		if p.HasRetry {
			p.RetryIn = max(0, p.RetryIn-passed)
		}
	}
	d.Remaining = min(d.Remaining, l.credit(req.Key))
	return d
}

// credit is what could be spent of the key's budget now without asking.
func (l *Limiter) credit(key lease.Key) int64 {
	if b, ok := l.budgets.Load(key); ok {
		return b.Remaining()
	}
	return 0
}
