package httpanswer

import (
	"encoding/json"
	"net/http"
	"strings"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-11. Other denials are
// about:blank, as their status says it all.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	TypeBlank           = "about:blank"
)

// ProblemContentType is the media type of a problem body.
const ProblemContentType = "application/problem+json"

// maxDetail bounds what is shown of an answer's own detail, in bytes.
const maxDetail = 512

// Problem is the body of a denial by RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Reason is the [Word] of the answer's reason.
	Reason string `json:"reason"`
	// RetryAfterSeconds is the Retry-After of the same response; 0: none.
	RetryAfterSeconds int64 `json:"retry_after_seconds,omitempty"`
	// PolicyVersion that decided; 0: none is known.
	PolicyVersion int64 `json:"policy_version,omitempty"`
	// ViolatedPolicies names the policy as the RateLimit fields do; of quota-exceeded
	// alone.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Problem writes a denial: its header fields, status and problem body. What is
// admitted has no problem: asked to write one, it writes that of an unavailable
// limiter.
func (w Writer) Problem(rw http.ResponseWriter, a decision.Answer) {
	a = denied(a)
	w.ProblemAs(rw, a, Status(a))
}

// ProblemAs is Problem under another status, for gateways that understand a few
// only. The body tells the status that is sent.
func (w Writer) ProblemAs(rw http.ResponseWriter, a decision.Answer, status int) {
	a = denied(a)
	retryAfter := w.RetryAfter(a)
	h := rw.Header()
	w.headers(h, a, retryAfter)
	h.Set("Content-Type", ProblemContentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Length")
	rw.WriteHeader(status)
	body, _ := json.Marshal(w.body(a, status, retryAfter)) //nolint:errchkjson // texts and numbers
	rw.Write(append(body, '\n'))
}

// denied keeps a denial, and turns anything else into one. A denial whose reason
// is none, or unknown here, is told as what it amounts to.
func denied(a decision.Answer) decision.Answer {
	if Admitted(a) {
		return decision.Unavailable("an admitted request was to be answered as a problem")
	}
	if Status(a) == http.StatusServiceUnavailable && a.Reason != pb.Reason_REASON_OVERLOADED {
		a.Reason = pb.Reason_REASON_UNAVAILABLE
	}
	return a
}

// body is the problem of a denial.
func (w Writer) body(a decision.Answer, status int, retryAfter int64) Problem {
	p := Problem{
		Type: TypeBlank, Status: status, Detail: w.Detail(a), Reason: Word(a.Reason),
		RetryAfterSeconds: retryAfter, PolicyVersion: a.PolicyVersion,
	}
	switch Status(a) {
	case http.StatusTooManyRequests:
		p.Type, p.Title, p.ViolatedPolicies = TypeQuotaExceeded, "Quota exceeded", []string{w.policyName()}
	case http.StatusServiceUnavailable:
		p.Type, p.Title = TypeReducedCapacity, "Temporarily reduced capacity"
	default:
		p.Title = http.StatusText(status)
	}
	return p
}

// Detail is the sentence that tells the caller of a denial what it means and what
// to do. The answer's own is shown where it is meant for callers, and never where
// it may name another budget or a grant.
func (w Writer) Detail(a decision.Answer) string {
	own := w.Details || a.Reason == pb.Reason_REASON_INVALID
	if own && a.Detail != "" && len(a.Detail) <= maxDetail && len(a.Parts) == 0 &&
		(a.GrantID == "" || !strings.Contains(a.Detail, a.GrantID)) {
		return a.Detail
	}
	switch a.Reason {
	case pb.Reason_REASON_EXHAUSTED:
		if a.HasRetry {
			return "The quota is used up for now. Try again after the time that Retry-After says."
		}
		// A quota that never refills, or slots: those are free once some work has ended.
		return "The quota is used up, and nobody knows for how long."
	case pb.Reason_REASON_COST_ABOVE_CAPACITY:
		return "The request costs more than the quota can ever admit. Ask for less at a time: waiting does not help."
	case pb.Reason_REASON_DISABLED:
		return "The operation is disabled."
	case pb.Reason_REASON_INVALID:
		return "The request is not valid."
	case pb.Reason_REASON_REFRESH:
		return "The request names an older version of the policy than the one in force. Read that version and ask again."
	case pb.Reason_REASON_NO_POLICY:
		return "No quota is configured for the operation. The operator of this service has to add one."
	case pb.Reason_REASON_OVERLOADED:
		return "Too many requests are being decided at once. Try again after the time that Retry-After says."
	}
	return "Whether the quota admits the request could not be decided. Try again after the time that Retry-After says."
}
