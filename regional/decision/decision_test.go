package decision_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

func TestRetrySeconds(t *testing.T) {
	for _, tc := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 1}, {1, 1}, {50 * time.Millisecond, 1}, {time.Second, 1}, {time.Second + 1, 2}, {59 * time.Second, 59}, {-5 * time.Second, 1}, {-1, 1},
	} {
		if got := (decision.Answer{HasRetry: true, RetryIn: tc.wait}).RetrySeconds(); got != tc.want {
			t.Errorf("%v: %d s, want %d", tc.wait, got, tc.want)
		}
	}
	if got := (decision.Answer{RetryIn: time.Minute}).RetrySeconds(); got != 0 {
		t.Errorf("without a wait: %d s", got)
	}
}

func TestZeroAnswerDenies(t *testing.T) {
	if a := (decision.Answer{}); a.Allowed {
		t.Error("the zero answer allows")
	}
	for _, resp := range []*pb.CheckResponse{nil, {}, {Allowed: true}} {
		if a := decision.AnswerFromWire(resp); a.Allowed || a.Reason != pb.Reason_REASON_UNAVAILABLE {
			t.Errorf("%v is read as %+v", resp, a)
		}
	}
}

// What is asked and answered survives the way over RPC.
func TestThereAndBack(t *testing.T) {
	req := decision.Request{
		Part: decision.Part{Key: lease.Key{Account: "acme", Operation: "op"}, Cost: decision.Tokens(0)},
		Also: []decision.Part{{Key: lease.Key{Account: "global", Operation: "all"}}, {Key: lease.Key{Account: "b", Operation: "c"}, Cost: decision.Tokens(7)}},
		ID:   "decision-1", PolicyVersion: 3, MaxWait: 1500 * time.Millisecond, Priority: pb.Priority_PRIORITY_HIGH,
	}
	if got := decision.FromWire(req.Wire()); !reflect.DeepEqual(got, req) {
		t.Errorf("%+v became %+v", req, got)
	}
	if got := (decision.Request{MaxWait: -time.Second}).Wire().GetMaxWaitMs(); got != 0 {
		t.Errorf("a negative wait became %d ms", got)
	}
	if got := (decision.Request{MaxWait: 1 << 62}).Wire().GetMaxWaitMs(); got != pb.MaxCheckWaitMillis {
		t.Errorf("a wait of centuries became %d ms", got)
	}
	answer := decision.Answer{
		Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, Limit: 40, Remaining: 3, Window: 2 * time.Second,
		HasRetry: true, RetryIn: 1234567, RetryAt: time.UnixMilli(1_790_000_000_123), PolicyVersion: 9, GrantID: "g1-000-00000001",
		Replayed: true, Shadow: true, NotStrict: true, Debt: 5, Detail: "text",
		Parts: []decision.PartAnswer{{
			Key: req.Key, Reason: pb.Reason_REASON_ALLOWED, Limit: 1, Remaining: 2, HasRetry: true, RetryIn: 3, PolicyVersion: 4, GrantID: "g",
		}},
	}
	if got := decision.AnswerFromWire(answer.Wire()); !reflect.DeepEqual(got, answer) {
		t.Errorf("%+v became %+v", answer, got)
	}
}

// A point in time is rounded up to milliseconds: it is never early.
func TestRetryAtIsNeverEarly(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_000)
	for _, tc := range []struct {
		at   time.Time
		want int64
	}{{at, at.UnixMilli()}, {at.Add(1), at.UnixMilli() + 1}, {at.Add(999_999), at.UnixMilli() + 1}} {
		a := decision.Answer{HasRetry: true, RetryAt: tc.at}
		if got := a.Wire().GetRetryUnixMs(); got != tc.want {
			t.Errorf("%v became %d, want %d", tc.at, got, tc.want)
		}
	}
}

// FuzzFromWire holds that no validated request is changed on its way.
func FuzzFromWire(f *testing.F) {
	seed, _ := proto.Marshal(&pb.CheckRequest{Key: &pb.BudgetKey{Account: "a", Operation: "b"}, CostTokens: proto.Int64(5), DecisionId: "i"})
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var req pb.CheckRequest
		if proto.Unmarshal(data, &req) != nil || req.Validate() != nil {
			return
		}
		once := decision.FromWire(&req)
		if twice := decision.FromWire(once.Wire()); !reflect.DeepEqual(once, twice) {
			t.Fatalf("%+v became %+v", once, twice)
		}
	})
}
