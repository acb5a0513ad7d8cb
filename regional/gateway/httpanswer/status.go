package httpanswer

import (
	"net/http"
	"strings"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// Admitted says that the work may start. An answer that contradicts itself, such
// as an allowed one whose reason is a denial, admits nothing unless it is in
// shadow mode, and one without a reason never does.
func Admitted(a decision.Answer) bool {
	switch {
	case !a.Allowed:
		return false
	case a.Shadow:
		return a.Reason != pb.Reason_REASON_UNSPECIFIED
	}
	return a.Reason == pb.Reason_REASON_ALLOWED || a.Reason == pb.Reason_REASON_FALLBACK
}

// Status is the HTTP status of an answer: 200 if it is admitted, and else 4xx or
// 5xx. What is not known is 503, never permission.
func Status(a decision.Answer) int {
	if Admitted(a) {
		return http.StatusOK
	}
	switch a.Reason {
	case pb.Reason_REASON_EXHAUSTED, pb.Reason_REASON_COST_ABOVE_CAPACITY:
		return http.StatusTooManyRequests
	case pb.Reason_REASON_DISABLED:
		return http.StatusForbidden
	case pb.Reason_REASON_INVALID:
		return http.StatusBadRequest
	case pb.Reason_REASON_REFRESH:
		return http.StatusConflict
	case pb.Reason_REASON_NO_POLICY:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// Word is the reason as a lower-case word with hyphens, such as
// "cost-above-capacity"; "unknown" for one that this program does not know.
func Word(r pb.Reason) string {
	name, known := pb.Reason_name[int32(r)]
	if !known || r == pb.Reason_REASON_UNSPECIFIED {
		return "unknown"
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "REASON_"), "_", "-"))
}
