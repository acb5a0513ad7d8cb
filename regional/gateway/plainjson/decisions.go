package plainjson

import (
	"errors"
	"net/http"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/jsonbody"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Decisions decides for accounts that the caller has verified.
func (a *API) Decisions() http.Handler {
	return post(MaxBodyBytes, readDecision, func(rw http.ResponseWriter, req *http.Request, asked decision.Request) {
		answer := a.cfg.Decider.Decide(req.Context(), asked)
		a.cfg.Answers.Headers(rw.Header(), answer)
		jsonbody.Write(rw, httpanswer.Status(answer), a.verdict(rw.Header(), answer))
	})
}

// readDecision reads the body of a decision.
func readDecision(body []byte) (decision.Request, error) {
	var r decision.Request
	var account, operation, id string
	err := readBody(body, []field{
		{"verifiedAccount", true, func(d *decoder, path string) error { return d.text(path, &account) }},
		{"operation", true, func(d *decoder, path string) error { return d.text(path, &operation) }},
		{"cost", false, func(d *decoder, path string) error {
			r.Cost.Given = true
			return d.number(path, &r.Cost.Tokens)
		}},
		{"policyVersion", false, func(d *decoder, path string) error { return d.number(path, &r.PolicyVersion) }},
		{"decisionId", false, func(d *decoder, path string) error {
			if err := d.text(path, &id); err != nil {
				return err
			}
			return checkID(path, id)
		}},
	})
	if err != nil {
		return decision.Request{}, err
	}
	if err := clientkey.CheckVerified(account); err != nil {
		return decision.Request{}, fault("verifiedAccount", "%w", err)
	}
	r.ID, r.Key = id, lease.Key{Account: account, Operation: operation}
	return r, checkKey("verifiedAccount", r.Key)
}

// checkID holds a decision ID to 1 to 128 printable ASCII characters.
func checkID(path, id string) error {
	if id == "" || len(id) > pb.MaxDecisionIDBytes {
		return fault(path, "must have 1 to %d bytes, has %d", pb.MaxDecisionIDBytes, len(id))
	}
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return fault(path, "must be printable ASCII without spaces, is not at byte %d", i)
		}
	}
	return nil
}

// checkKey holds the key of a budget to what limiters take. The account has
// another name in the body.
func checkKey(account string, key lease.Key) error {
	err := (&pb.BudgetKey{Account: key.Account, Operation: key.Operation}).Validate()
	if f := (*pb.FieldError)(nil); errors.As(err, &f) {
		if f.Field == "account" {
			return fault(account, "%s", f.Problem)
		}
		return fault(f.Field, "%s", f.Problem)
	}
	return err
}

// verdict is the body of a decision.
type verdict struct {
	Decision          string `json:"decision"` // allowed, denied or refresh
	Reason            string `json:"reason"`
	Limit             *int64 `json:"limit,omitempty"`
	Remaining         *int64 `json:"remaining,omitempty"`
	PolicyVersion     int64  `json:"policyVersion,omitempty"`
	GrantID           string `json:"grantId,omitempty"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty"`
	RetryAt           string `json:"retryAt,omitempty"`
	Replayed          bool   `json:"replayed,omitempty"`
	Shadow            bool   `json:"shadow,omitempty"`
	NotStrict         bool   `json:"notStrict,omitempty"`
	Debt              int64  `json:"debt,omitempty"`
	Detail            string `json:"detail,omitempty"`
}

// verdict is the body of an answer whose header fields are set.
func (a *API) verdict(h http.Header, answer decision.Answer) verdict {
	v := verdict{Decision: "denied", Reason: httpanswer.Word(answer.Reason), PolicyVersion: answer.PolicyVersion}
	if answer.Reason == pb.Reason_REASON_REFRESH && !httpanswer.Admitted(answer) {
		v.Decision = "refresh"
		return v
	}
	if httpanswer.Admitted(answer) {
		v.Decision = "allowed"
	}
	v.Limit, v.Remaining = numbers(answer)
	v.GrantID, v.Replayed, v.Shadow = answer.GrantID, answer.Replayed, answer.Shadow
	v.NotStrict, v.Debt = answer.NotStrict, answer.Debt
	v.RetryAfterSeconds = retryAfter(h)
	if v.RetryAfterSeconds > 0 && answer.HasRetry && !answer.RetryAt.IsZero() {
		v.RetryAt = ceilSecond(answer.RetryAt).UTC().Format(time.RFC3339)
	}
	if len(answer.Detail) <= 1024 {
		v.Detail = answer.Detail
	}
	return v
}

// numbers of an answer, where a policy is known.
func numbers(answer decision.Answer) (limit, remaining *int64) {
	if answer.PolicyVersion == 0 && answer.Limit == 0 {
		return nil, nil
	}
	return &answer.Limit, new(max(0, answer.Remaining))
}

// ceilSecond is the time rounded up to a second: guidance is never early.
func ceilSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}
