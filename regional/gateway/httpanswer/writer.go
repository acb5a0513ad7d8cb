package httpanswer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

// The header fields that a [Writer] sets, in canonical form.
const (
	FieldPolicy          = "Ratelimit-Policy"
	FieldRateLimit       = "Ratelimit"
	FieldShadow          = "Ratelimit-Shadow"
	FieldFallback        = "Ratelimit-Fallback"
	FieldRetryAfter      = "Retry-After"
	FieldCacheControl    = "Cache-Control"
	FieldLegacyLimit     = "X-Ratelimit-Limit"
	FieldLegacyRemaining = "X-Ratelimit-Remaining"
	FieldLegacyReset     = "X-Ratelimit-Reset"
)

const (
	// DefaultPolicyName is the name of the policy in the header fields.
	DefaultPolicyName = "default"
	// DefaultMaxJitter is the longest addition to the Retry-After of a 503.
	DefaultMaxJitter = 4 * time.Second
	// maxInteger is the largest integer of a structured field, by RFC 9651 (3.3.1).
	maxInteger = 999_999_999_999_999
	// maxPolicyName bounds the name of a policy, in bytes.
	maxPolicyName = 128
)

// Writer writes answers. The zero value is ready, and a Writer may be used by any
// number of goroutines while its fields are left alone.
type Writer struct {
	// Legacy adds the X-RateLimit fields.
	Legacy bool
	// PolicyName of the RateLimit fields: up to 128 bytes of printable ASCII. Empty,
	// or not of that form: DefaultPolicyName.
	PolicyName string
	// Details shows [decision.Answer.Detail] to callers. It speaks to operators,
	// so it belongs on internal surfaces: why an operation is disabled is one of
	// the things that it tells. Without it, callers read a sentence of this
	// package, and the answer's own only where it is about their request (invalid).
	Details bool
	// Jitter draws from [0, 1). nil: at random.
	Jitter func() float64
	// MaxJitter is the longest addition to the Retry-After of a 503, rounded down
	// to seconds. 0: DefaultMaxJitter. Negative: none.
	MaxJitter time.Duration
}

// Validate says what is wrong with the writer's settings.
func (w Writer) Validate() error {
	if len(w.PolicyName) > maxPolicyName {
		return fmt.Errorf("the policy name has %d bytes, and may have %d", len(w.PolicyName), maxPolicyName)
	}
	if !printable(w.PolicyName) {
		return errors.New("the policy name is not printable ASCII, which is all that a structured field can carry")
	}
	return nil
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Headers sets the fields of an answer in h, and removes those of them that do not
// apply, so that nothing of an earlier answer stays. It leaves a Cache-Control
// alone where the answer wants none.
func (w Writer) Headers(h http.Header, a decision.Answer) { w.headers(h, a, w.RetryAfter(a)) }

// headers sets the fields, given what RetryAfter drew.
func (w Writer) headers(h http.Header, a decision.Answer, retryAfter int64) {
	for _, field := range []string{
		FieldPolicy, FieldRateLimit, FieldShadow, FieldFallback, FieldRetryAfter,
		FieldLegacyLimit, FieldLegacyRemaining, FieldLegacyReset,
	} {
		h.Del(field)
	}
	admitted := Admitted(a)
	private, shadow := !admitted, admitted && a.Shadow
	// Clients that obey the numbers of a shadow would hold back what it admits.
	if n, known := numbersOf(a); known && !shadow {
		private = true
		w.numbers(h, n)
	}
	if retryAfter > 0 {
		h.Set(FieldRetryAfter, strconv.FormatInt(retryAfter, 10))
	}
	switch {
	case admitted && a.Reason == pb.Reason_REASON_FALLBACK:
		private = true
		h.Set(FieldFallback, "?1")
	case admitted && a.Reason != pb.Reason_REASON_ALLOWED:
		private = true
		h.Set(FieldShadow, Word(a.Reason))
	}
	if private {
		h.Set(FieldCacheControl, "no-store")
	}
}

// RetryAfter is the Retry-After of an answer in whole seconds, at least 1; 0 where
// there is none: for what is admitted, and for denials that waiting cannot help.
// That of a 503 has jitter, so each call may tell another one.
func (w Writer) RetryAfter(a decision.Answer) int64 {
	switch Status(a) {
	case http.StatusTooManyRequests:
		if a.Reason == pb.Reason_REASON_EXHAUSTED {
			return waitSeconds(a)
		}
	case http.StatusServiceUnavailable:
		return max(1, waitSeconds(a)) + w.jitterSeconds()
	}
	return 0
}

// jitterSeconds draws a whole number of seconds from 0 to MaxJitter, each as
// likely.
func (w Writer) jitterSeconds() int64 {
	most := int64(DefaultMaxJitter / time.Second)
	if w.MaxJitter != 0 {
		most = max(0, int64(w.MaxJitter/time.Second))
	}
	draw := w.Jitter
	if draw == nil {
		draw = rand.Float64 //nolint:forbidigo // those who were turned away are not to return together
	}
	return min(max(0, int64(draw()*float64(most+1))), most)
}

// waitSeconds is the wait in whole seconds, rounded up and at least 1; 0 without
// one. Of a permanent denial there is none, whatever the answer says.
func waitSeconds(a decision.Answer) int64 {
	if !a.HasRetry {
		return 0
	}
	return max(1, a.RetrySeconds())
}

// numbers are what the RateLimit fields tell.
type numbers struct {
	limit     int64 // tokens
	remaining int64 // tokens
	window    int64 // seconds; 0: not known
	wait      int64 // seconds; 0: none
}

// numbersOf reads the numbers of the caller's own budget; false where its limit is
// not known.
func numbersOf(a decision.Answer) (numbers, bool) {
	limit, remaining, window := a.Limit, a.Remaining, a.Window
	if len(a.Parts) > 0 {
		if own := a.Parts[0]; own.Limit != limit || own.Remaining != remaining {
			limit, remaining, window = own.Limit, own.Remaining, 0
		}
	}
	if limit <= 0 {
		return numbers{}, false
	}
	n := numbers{limit: min(limit, maxInteger), remaining: min(max(0, remaining), maxInteger)}
	if window > 0 {
		n.window = decision.Answer{HasRetry: true, RetryIn: window}.RetrySeconds()
	}
	if a.Reason != pb.Reason_REASON_COST_ABOVE_CAPACITY {
		n.wait = waitSeconds(a)
	}
	return n, true
}

// numbers writes them.
func (w Writer) numbers(h http.Header, n numbers) {
	policy, state := httpsfv.NewItem(w.policyName()), httpsfv.NewItem(w.policyName())
	policy.Params.Add("q", n.limit)
	if n.window > 0 {
		policy.Params.Add("w", n.window)
	}
	state.Params.Add("r", n.remaining)
	if n.wait > 0 {
		state.Params.Add("t", n.wait)
	}
	setList(h, FieldPolicy, policy)
	setList(h, FieldRateLimit, state)
	if !w.Legacy {
		return
	}
	h.Set(FieldLegacyLimit, strconv.FormatInt(n.limit, 10))
	h.Set(FieldLegacyRemaining, strconv.FormatInt(n.remaining, 10))
	if n.wait > 0 {
		h.Set(FieldLegacyReset, strconv.FormatInt(n.wait, 10))
	}
}

// setList sets a field to a list of one item. What it is given can be written; if
// it could not, no field is better than a wrong one.
func setList(h http.Header, field string, item httpsfv.Item) {
	if value, err := httpsfv.Marshal(httpsfv.List{item}); err == nil {
		h.Set(field, value)
	}
}

func (w Writer) policyName() string {
	if w.PolicyName == "" || w.Validate() != nil {
		return DefaultPolicyName
	}
	return w.PolicyName
}
