package regional_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional"
)

// serve serves a limiter over HTTP/2 and returns a client of it.
func serve(t *testing.T, f *fakeBroker, change func(*regional.Config)) (tokenleasev1connect.LimiterClient, *regional.Limiter) {
	t.Helper()
	l, _ := start(t, f, change)
	mux := http.NewServeMux()
	l.Mount(mux)
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return tokenleasev1connect.NewLimiterClient(server.Client(), server.URL), l
}

func key(account, operation string) *pb.BudgetKey {
	return &pb.BudgetKey{Account: account, Operation: operation}
}

func TestServiceChecks(t *testing.T) {
	c, _ := serve(t, newFakeBroker(quota), nil)
	ctx := t.Context()
	resp, err := c.Check(ctx, connect.NewRequest(&pb.CheckRequest{Key: key("acme", "report.create"), DecisionId: "x"}))
	if err != nil || !resp.Msg.GetAllowed() || resp.Msg.GetLimitTokens() != 40 || resp.Msg.GetGrantId() == "" {
		t.Fatalf("got %v, %v", resp, err)
	}
	again, err := c.Check(ctx, connect.NewRequest(&pb.CheckRequest{Key: key("acme", "report.create"), DecisionId: "x"}))
	if err != nil || !again.Msg.GetReplayed() || !again.Msg.GetAllowed() {
		t.Errorf("got %v, %v", again, err)
	}
	old, err := c.Check(ctx, connect.NewRequest(&pb.CheckRequest{
		Key: key("acme", "report.create"), Also: []*pb.CheckPart{{Key: key("acme", "unknown")}},
	}))
	if err != nil || old.Msg.GetReason() != pb.Reason_REASON_NO_POLICY || len(old.Msg.GetParts()) != 2 {
		t.Errorf("got %v, %v", old, err)
	}
}

func TestServiceBatchesEachOnItsOwn(t *testing.T) {
	c, _ := serve(t, newFakeBroker(quota), nil)
	checks := []*pb.CheckRequest{
		{Key: key("acme", "report.create")}, {Key: key("", "report.create")}, {Key: key("other", "report.create"), CostTokens: new(int64(41))},
		{Key: key("acme", "report.create"), CostTokens: new(int64(35))}, {Key: key("acme", "report.create"), CostTokens: new(int64(1))},
	}
	resp, err := c.CheckBatch(t.Context(), connect.NewRequest(&pb.CheckBatchRequest{Checks: checks}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []pb.Reason{
		pb.Reason_REASON_ALLOWED, pb.Reason_REASON_INVALID, pb.Reason_REASON_COST_ABOVE_CAPACITY,
		pb.Reason_REASON_ALLOWED, pb.Reason_REASON_EXHAUSTED,
	} {
		if got := resp.Msg.GetResults()[i].GetResponse(); got.GetReason() != want {
			t.Errorf("check %d: got %v, want %v", i, got, want)
		}
	}
}

func TestServiceStreamsInOrder(t *testing.T) {
	c, _ := serve(t, newFakeBroker(policy{operation: "report.create", capacity: 1_000_000, cost: 1}), nil)
	stream := c.CheckStream(t.Context())
	const batches = 100
	go func() {
		for i := range batches {
			var checks []*pb.CheckRequest
			for range 1 + i%7 {
				checks = append(checks, &pb.CheckRequest{Key: key("acme", "report.create"), CostTokens: new(int64(1 + i))})
			}
			checks[0].Key.Account = "" // marks the batch by what is wrong with it
			checks[0].DecisionId = "x"
			if stream.Send(&pb.CheckStreamRequest{Checks: checks}) != nil {
				return
			}
		}
		_ = stream.CloseRequest()
	}()
	for i := range batches {
		resp, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.GetResults()); n != 1+i%7 {
			t.Fatalf("answer %d has %d results, want %d", i, n, 1+i%7)
		}
		for k, r := range resp.GetResults() {
			if want := k > 0; r.GetResponse().GetAllowed() != want {
				t.Errorf("answer %d, check %d: %v", i, k, r.GetResponse())
			}
		}
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v", err)
	}
	_ = stream.CloseResponse()
}

// Batches that wait take a bounded number of places, and their stream's end ends
// them.
func TestServiceStreamIsBoundedAndEndsWithItsCaller(t *testing.T) {
	f := newFakeBroker(quota)
	f.fail(errDown)
	c, _ := serve(t, f, func(cfg *regional.Config) { cfg.FirstGrantWait = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	stream := c.CheckStream(ctx)
	for range 50 {
		if err := stream.Send(&pb.CheckStreamRequest{Checks: []*pb.CheckRequest{{Key: key("acme", "report.create")}}}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("got %v", err)
	}
	_ = stream.CloseResponse() // the server's end is waited for by its Close, and goroutines by TestMain
}

func TestServiceStreamRefusesBatchesAboveTheBound(t *testing.T) {
	c, _ := serve(t, newFakeBroker(quota), nil)
	stream := c.CheckStream(t.Context())
	if err := stream.Send(&pb.CheckStreamRequest{Checks: make([]*pb.CheckRequest, pb.MaxBatchChecks+1)}); err != nil {
		t.Fatal(err)
	}
	_ = stream.CloseRequest()
	if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
	_ = stream.CloseResponse()
}

func TestCase45OverTheWire(t *testing.T) {
	c, _ := serve(t, newFakeBroker(tokensOf(100)), nil)
	ctx := t.Context()
	reserve := func(cost int64, id string) *pb.ReserveResponse {
		t.Helper()
		resp, err := c.Reserve(ctx, connect.NewRequest(&pb.ReserveRequest{Check: &pb.CheckRequest{
			Key: key("acme", "report.create"), CostTokens: &cost, DecisionId: id,
		}}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	settle := func(account, id string, cost int64) *pb.SettleResponse {
		t.Helper()
		resp, err := c.Settle(ctx, connect.NewRequest(&pb.SettleRequest{Key: key(account, "report.create"), ReservationId: id, CostTokens: cost}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	if r := reserve(900, ""); r.GetResponse().GetAllowed() || r.GetReservationId() != "" || r.GetReservedTokens() != 0 {
		t.Fatalf("900 of 100: %v", r)
	}
	r := reserve(50, "x")
	if !r.GetResponse().GetAllowed() || r.GetReservedTokens() != 50 || r.GetExpiresInNs() <= 0 || r.GetExpiresInNs() > int64(10*time.Second) {
		t.Fatalf("got %v", r)
	}
	if again := reserve(50, "x"); again.GetReservationId() != r.GetReservationId() || !again.GetResponse().GetReplayed() {
		t.Errorf("repeated: %v", again)
	}
	if s := settle("Acme", r.GetReservationId(), 0); s.GetSettled() || s.GetReturnedTokens() != 0 || s.GetDetail() == "" {
		t.Errorf("another account settled it: %v", s)
	}
	if s := settle("acme", "0123456789abcdef0123456789abcdef", 0); s.GetSettled() {
		t.Errorf("an ID of nobody was settled: %v", s)
	}
	if s := settle("acme", r.GetReservationId(), 60); s.GetSettled() {
		t.Errorf("60 of 50: %v", s)
	}
	for range 3 {
		if s := settle("acme", r.GetReservationId(), 30); !s.GetSettled() || s.GetReturnedTokens() != 20 {
			t.Errorf("got %v", s)
		}
	}
	if next := reserve(70, ""); !next.GetResponse().GetAllowed() {
		t.Errorf("30 of 100 are spent: %v", next)
	}
	invalid := reserve(-1, "")
	if invalid.GetResponse().GetReason() != pb.Reason_REASON_INVALID || invalid.GetReservationId() != "" {
		t.Errorf("got %v", invalid)
	}
}

// Tenants never see one another's numbers.
func TestAccountsAreApart(t *testing.T) {
	c, l := serve(t, newFakeBroker(quota), nil)
	ctx := t.Context()
	check := func(account string) *pb.CheckResponse {
		resp, err := c.Check(ctx, connect.NewRequest(&pb.CheckRequest{Key: key(account, "report.create"), DecisionId: "same", CostTokens: new(int64(5))}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	first := check("a")
	for range 20 {
		l.Check(ctx, "a", "report.create")
	}
	second := check("b")
	if second.GetReplayed() || !second.GetAllowed() || second.GetGrantId() == first.GetGrantId() {
		t.Errorf("got %v", second)
	}
}
