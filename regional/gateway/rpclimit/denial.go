package rpclimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Domain of the google.rpc.ErrorInfo of a denial.
const Domain = "tokenlease"

// Code is the code of an answer: OK if it is admitted, and else a denial. Connect
// has the same numbers. What is not known is Unavailable, never permission.
func Code(a decision.Answer) codes.Code {
	switch httpanswer.Status(a) {
	case http.StatusOK:
		return codes.OK
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusConflict:
		return codes.FailedPrecondition
	case http.StatusInternalServerError:
		return codes.Internal
	}
	return codes.Unavailable
}

// denial is what a caller is told of one.
type denial struct {
	code    codes.Code
	message string
	header  http.Header            // the fields of package httpanswer
	wait    time.Duration          // 0: waiting cannot help
	details []protoadapt.MessageV1 // of package google.rpc
}

// deny describes a denial. Header, details and pushback tell one wait.
func deny(w httpanswer.Writer, a decision.Answer) denial {
	d := denial{code: Code(a), message: w.Detail(a), header: http.Header{}}
	w.Headers(d.header, a)
	d.wait = wait(a, d.header)
	info := &errdetails.ErrorInfo{Reason: reasonWord(a), Domain: Domain}
	if a.PolicyVersion > 0 {
		info.Metadata = map[string]string{"policy_version": strconv.FormatInt(a.PolicyVersion, 10)}
	}
	d.details = append(d.details, protoadapt.MessageV1Of(info))
	if d.wait > 0 {
		d.details = append(d.details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.wait)}))
	}
	return d
}

// wait is the exact wait of an exhausted budget, and that of Retry-After, with its
// jitter, where nobody could tell.
func wait(a decision.Answer, header http.Header) time.Duration {
	seconds, err := strconv.ParseInt(header.Get(httpanswer.FieldRetryAfter), 10, 64)
	switch {
	case err != nil || seconds <= 0:
		return 0
	case a.Reason == pb.Reason_REASON_EXHAUSTED && a.RetryIn > 0:
		return a.RetryIn
	case seconds > int64(math.MaxInt64/time.Second):
		return math.MaxInt64
	}
	return time.Duration(seconds) * time.Second
}

// reasonWord is the reason as google.rpc.ErrorInfo wants it.
func reasonWord(a decision.Answer) string {
	if Code(a) == codes.Unavailable && a.Reason != pb.Reason_REASON_OVERLOADED {
		return "UNAVAILABLE"
	}
	return strings.ToUpper(strings.ReplaceAll(httpanswer.Word(a.Reason), "-", "_"))
}

// pushback is the wait in milliseconds, rounded up, as retrying gRPC clients read
// it; -1 tells them not to repeat.
func (d denial) pushback() string {
	if d.wait <= 0 {
		return "-1"
	}
	ms := int64((d.wait-1)/time.Millisecond) + 1
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}
