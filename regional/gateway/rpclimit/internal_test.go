package rpclimit

import (
	"math"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

func TestPushback(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "-1", -1: "-1", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "2147483647",
	} {
		if got := (denial{wait: wait}).pushback(); got != want {
			t.Errorf("%d ns: %s, want %s", wait, got, want)
		}
	}
}

// FuzzDenial: whatever the answer, header, details and pushback tell one wait, never
// an early one, and a permanent denial none.
func FuzzDenial(f *testing.F) {
	f.Add(false, int32(2), true, int64(4e8), 0.5)
	f.Add(false, int32(3), true, int64(4e8), 0.5)
	f.Add(false, int32(4), true, int64(math.MaxInt64), 0.9)
	f.Add(true, int32(2), true, int64(-1), 0.1)
	f.Fuzz(func(t *testing.T, allowed bool, reason int32, hasRetry bool, wait int64, draw float64) {
		a := decision.Answer{Allowed: allowed, Reason: pb.Reason(reason), HasRetry: hasRetry, RetryIn: time.Duration(wait)}
		if Code(a) == codes.OK {
			return
		}
		d := deny(httpanswer.Writer{Jitter: func() float64 { return draw }}, a)
		after := d.header.Get("Retry-After")
		if (after != "") != (d.wait > 0) || (d.pushback() == "-1") != (after == "") {
			t.Fatalf("Retry-After %q, wait %v, pushback %s", after, d.wait, d.pushback())
		}
		seconds, _ := strconv.ParseInt(after, 10, 64)
		if d.wait > 0 && (hasRetry && d.wait < a.RetryIn || d.wait.Seconds() > float64(seconds)) {
			t.Errorf("Retry-After %q, wait %v of %v", after, d.wait, a.RetryIn)
		}
		if Code(a) == codes.Unavailable && after == "" {
			t.Error("unavailable without a wait")
		}
		told := false
		for _, detail := range d.details {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				told = info.GetRetryDelay().AsDuration() == d.wait
			}
		}
		if told != (d.wait > 0) {
			t.Errorf("RetryInfo: %v, wait %v", told, d.wait)
		}
	})
}

// FuzzHeaderOf: metadata keeps its values under canonical names, and no
// pseudo-header gets among them.
func FuzzHeaderOf(f *testing.F) {
	f.Add("x-account", "acme")
	f.Add(":authority", "host")
	f.Add("", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		h := headerOf(metadata.MD{name: {value, "second"}})
		if strings.HasPrefix(name, ":") {
			if len(h) != 0 {
				t.Errorf("%q became %v", name, h)
			}
			return
		}
		got := h[textproto.CanonicalMIMEHeaderKey(name)]
		if len(h) != 1 || len(got) != 2 || got[0] != value || got[1] != "second" {
			t.Errorf("%q: %q became %v", name, value, h)
		}
	})
}
