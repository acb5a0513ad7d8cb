package regional

import (
	"time"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
)

// logged hands a decision to the decision log, if there is one, and returns it.
// Without one this is a look at a pointer. What is not valid is not logged: it may be
// of any length.
func (l *Limiter) logged(c *claim, id string, d decision.Answer) decision.Answer {
	if log := l.cfg.DecisionLog; log != nil && d.Reason != pb.Reason_REASON_INVALID && log.Sampled() {
		log.Record(c.entry(id, &d))
	}
	return d
}

// entry is the claim's line.
func (c *claim) entry(id string, d *decision.Answer) decisionlog.Entry {
	return decisionlog.Entry{
		What: decisionlog.Decision, Key: c.key, Epoch: c.limiter.Epoch(), Cost: c.tokens,
		Allowed: d.Allowed, Reason: d.Reason, Shadow: d.Shadow, Policy: c.policy, GrantID: d.GrantID,
		DecisionID: id, Took: c.limiter.logTime() - c.tried,
	}
}

// logTime is the log's clock; 0 without one.
func (l *Limiter) logTime() time.Duration {
	if l.cfg.DecisionLog == nil {
		return 0
	}
	return l.cfg.DecisionLog.Mono()
}

// log hands each part of a decision to the log, or none. Of one that is denied, no
// part is told as allowed: what was taken is back.
func (s *several) log(d *decision.Answer, id string) {
	log := s.limiter.cfg.DecisionLog
	if log == nil || d.Reason == pb.Reason_REASON_INVALID || !log.Sampled() {
		return
	}
	for i := range s.claims {
		e := s.claims[i].entry(id, &s.answers[i])
		e.Part, e.Parts = i+1, len(s.claims)
		if !d.Allowed {
			e.Allowed, e.Shadow, e.GrantID = false, false, ""
		}
		log.Record(e)
	}
}

// logReplay tells that a recorded answer was given again.
func (l *Limiter) logReplay(req *decision.Request, d *decision.Answer) {
	log := l.cfg.DecisionLog
	if log == nil || !log.Sampled() {
		return
	}
	log.Record(decisionlog.Entry{
		What: decisionlog.Decision, Key: req.Key, Epoch: l.Epoch(), Cost: req.Cost.Tokens,
		Allowed: d.Allowed, Reason: d.Reason, Shadow: d.Shadow, Replayed: true, GrantID: d.GrantID, DecisionID: req.ID,
	})
}

// logHold is logged for an admitted reservation, and says if the log takes it.
func (l *Limiter) logHold(c *claim, id string, d *decision.Answer, r *reservation) bool {
	log := l.cfg.DecisionLog
	if log == nil || !log.Sampled() {
		return false
	}
	e := c.entry(id, d)
	e.ReservationID, e.Hold = r.id, r.Expires()
	log.Record(e)
	return true
}

// log tells of the settlement, as what has come of it. began is from before it was
// made.
func (r *reservation) log(cost int64, s decision.Settlement, began time.Duration) {
	if !r.logged {
		return
	}
	l := r.limiter
	l.cfg.DecisionLog.Record(decisionlog.Entry{
		What: decisionlog.Settlement, Key: r.key, Epoch: l.Epoch(), Cost: cost, Returned: s.Returned,
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Policy: r.policy, ReservationID: r.id, Took: l.logTime() - began,
	})
}
