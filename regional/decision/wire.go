package decision

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// FromWire reads a validated request.
func FromWire(req *pb.CheckRequest) Request {
	r := Request{
		Part: part(req.GetKey(), req.CostTokens),
		ID:   req.GetDecisionId(), PolicyVersion: req.GetPolicyVersion(),
		MaxWait: time.Duration(req.GetMaxWaitMs()) * time.Millisecond, Priority: req.GetPriority(),
	}
	for _, p := range req.GetAlso() {
		r.Also = append(r.Also, part(p.GetKey(), p.CostTokens))
	}
	return r
}

func part(key *pb.BudgetKey, cost *int64) Part {
	p := Part{Key: lease.Key{Account: key.GetAccount(), Operation: key.GetOperation()}}
	if cost != nil {
		p.Cost = Tokens(*cost)
	}
	return p
}

// Wire is the request as it is sent. A wait is rounded down to milliseconds.
func (r Request) Wire() *pb.CheckRequest {
	req := &pb.CheckRequest{
		Key: keyWire(r.Key), CostTokens: r.Cost.wire(), DecisionId: r.ID, PolicyVersion: r.PolicyVersion,
		MaxWaitMs: uint32(max(0, min(r.MaxWait/time.Millisecond, pb.MaxCheckWaitMillis))), Priority: r.Priority,
	}
	for _, p := range r.Also {
		req.Also = append(req.Also, &pb.CheckPart{Key: keyWire(p.Key), CostTokens: p.Cost.wire()})
	}
	return req
}

func keyWire(k lease.Key) *pb.BudgetKey {
	return &pb.BudgetKey{Account: k.Account, Operation: k.Operation}
}

func (c Cost) wire() *int64 {
	if !c.Given {
		return nil
	}
	return &c.Tokens
}

// Wire is the answer as it is sent.
func (a Answer) Wire() *pb.CheckResponse {
	resp := &pb.CheckResponse{
		Allowed: a.Allowed, Reason: a.Reason, LimitTokens: a.Limit, RemainingTokens: a.Remaining,
		WindowNs: int64(a.Window), PolicyVersion: a.PolicyVersion, GrantId: a.GrantID, Detail: a.Detail,
		Replayed: a.Replayed, Shadow: a.Shadow, NotStrict: a.NotStrict, DebtTokens: a.Debt,
	}
	if a.HasRetry {
		resp.HasRetry, resp.RetryInNs, resp.RetryUnixMs = true, int64(a.RetryIn), ceilMilli(a.RetryAt)
	}
	for _, p := range a.Parts {
		resp.Parts = append(resp.Parts, &pb.CheckPartResponse{
			Key: keyWire(p.Key), Reason: p.Reason, LimitTokens: p.Limit, RemainingTokens: p.Remaining,
			HasRetry: p.HasRetry, RetryInNs: int64(p.RetryIn), PolicyVersion: p.PolicyVersion, GrantId: p.GrantID,
		})
	}
	return resp
}

// ceilMilli is the time in milliseconds since 1970, rounded up: guidance is never
// early.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// AnswerFromWire reads an answer. One without a reason is none: it denies as
// unavailable.
func AnswerFromWire(resp *pb.CheckResponse) Answer {
	if resp.GetReason() == pb.Reason_REASON_UNSPECIFIED {
		return Unavailable("the limiter gave no reason")
	}
	a := Answer{
		Allowed: resp.GetAllowed(), Reason: resp.GetReason(), Limit: resp.GetLimitTokens(), Remaining: resp.GetRemainingTokens(),
		Window: time.Duration(resp.GetWindowNs()), PolicyVersion: resp.GetPolicyVersion(), GrantID: resp.GetGrantId(), Detail: resp.GetDetail(),
		Replayed: resp.GetReplayed(), Shadow: resp.GetShadow(), NotStrict: resp.GetNotStrict(), Debt: resp.GetDebtTokens(),
	}
	if resp.GetHasRetry() {
		a.HasRetry, a.RetryIn, a.RetryAt = true, time.Duration(resp.GetRetryInNs()), time.UnixMilli(resp.GetRetryUnixMs())
	}
	for _, p := range resp.GetParts() {
		a.Parts = append(a.Parts, PartAnswer{
			Key: lease.Key{Account: p.GetKey().GetAccount(), Operation: p.GetKey().GetOperation()}, Reason: p.GetReason(),
			Limit: p.GetLimitTokens(), Remaining: p.GetRemainingTokens(), HasRetry: p.GetHasRetry(), RetryIn: time.Duration(p.GetRetryInNs()),
			PolicyVersion: p.GetPolicyVersion(), GrantID: p.GetGrantId(),
		})
	}
	return a
}
