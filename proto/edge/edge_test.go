package edge_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tokenlease/tokenlease/proto/edge"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// recorder is a limiter and a broker that remember what reached them.
type recorder struct {
	tokenleasev1connect.UnimplementedLimiterHandler
	tokenleasev1connect.UnimplementedBrokerHandler

	reached chan proto.Message
}

func (r *recorder) Check(_ context.Context, req *connect.Request[tokenleasev1.CheckRequest]) (*connect.Response[tokenleasev1.CheckResponse], error) {
	r.reached <- req.Msg
	return connect.NewResponse(&tokenleasev1.CheckResponse{Allowed: true}), nil
}

func (r *recorder) Watch(_ context.Context, req *connect.Request[tokenleasev1.WatchRequest], stream *connect.ServerStream[tokenleasev1.WatchResponse]) error {
	r.reached <- req.Msg
	return stream.Send(&tokenleasev1.WatchResponse{})
}

// serve starts a server with the options of the edge.
func serve(t *testing.T) (*recorder, *httptest.Server) {
	t.Helper()
	r := &recorder{reached: make(chan proto.Message, 1)}
	mux := http.NewServeMux()
	mux.Handle(tokenleasev1connect.NewLimiterHandler(r, edge.Options()))
	mux.Handle(tokenleasev1connect.NewBrokerHandler(r, edge.Options()))
	mux.Handle(tokenleasev1connect.NewAdminHandler(tokenleasev1connect.UnimplementedAdminHandler{}, edge.Options()))
	mux.Handle("/other/Method", connect.NewUnaryHandler("/other/Method",
		func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
			r.reached <- &emptypb.Empty{}
			return connect.NewResponse(&emptypb.Empty{}), nil
		}, edge.Options()))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return r, server
}

// protocols are the ways to speak to a server.
func protocols() map[string]connect.ClientOption {
	return map[string]connect.ClientOption{
		"connect":  connect.WithClientOptions(),
		"json":     connect.WithProtoJSON(),
		"grpc":     connect.WithGRPC(),
		"grpc-web": connect.WithGRPCWeb(),
	}
}

func TestUnary(t *testing.T) {
	for name, option := range protocols() {
		t.Run(name, func(t *testing.T) {
			r, server := serve(t)
			client := tokenleasev1connect.NewLimiterClient(server.Client(), server.URL, option)

			_, err := client.Check(t.Context(), connect.NewRequest(&tokenleasev1.CheckRequest{CostTokens: proto.Int64(1)}))
			requireRefused(t, r, err, "key.account: must have 1 to 256 bytes, has 0")

			valid := &tokenleasev1.CheckRequest{Key: &tokenleasev1.BudgetKey{Account: "acme", Operation: "report.create"}}
			if _, err := client.Check(t.Context(), connect.NewRequest(valid)); err != nil {
				t.Fatal(err)
			}
			requireReached(t, r, valid)
		})
	}
}

func TestServerStream(t *testing.T) {
	for name, option := range protocols() {
		t.Run(name, func(t *testing.T) {
			r, server := serve(t)
			client := tokenleasev1connect.NewBrokerClient(server.Client(), server.URL, option)
			request := &tokenleasev1.WatchRequest{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}}

			requireRefused(t, r, watch(t.Context(), client, request), "epoch: must be 1 or more, is 0")

			request.Epoch = 3
			if err := watch(t.Context(), client, request); err != nil {
				t.Fatal(err)
			}
			requireReached(t, r, request)
		})
	}
}

func TestMessagesWithoutRulesPass(t *testing.T) {
	r, server := serve(t)
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), server.URL+"/other/Method")
	if _, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{})); err != nil {
		t.Fatal(err)
	}
	requireReached(t, r, &emptypb.Empty{})
}

func TestClientsAreNotChecked(t *testing.T) {
	_, server := serve(t)
	client := tokenleasev1connect.NewBrokerClient(server.Client(), server.URL+"/nowhere", connect.WithInterceptors(edge.Validate()))
	_, err := client.Register(t.Context(), connect.NewRequest(&tokenleasev1.RegisterRequest{}))
	if connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("an invalid request through a client's interceptor: %v, want the server's answer to an unknown path", err)
	}
}

// TestCase29HostileBodies: whatever is wrong with a check, the answer is
// invalid argument, the handler is not reached, and the answer is short.
func TestCase29HostileBodies(t *testing.T) {
	const key = `"key":{"account":"acme","operation":"report.create"}`
	tests := []struct{ name, body string }{
		{"negative cost", `{` + key + `,"costTokens":-1}`},
		{"cost NaN", `{` + key + `,"costTokens":"NaN"}`},
		{"cost 2^63", `{` + key + `,"costTokens":"9223372036854775808"}`},
		{"10 MB cost", `{` + key + `,"costTokens":"` + strings.Repeat("9", 10_000_000) + `"}`},
		{"10 MB field name", `{"` + strings.Repeat("f", 10_000_000) + `":1}`},
		{"cost with a fraction", `{` + key + `,"costTokens":1.5}`},
		{"empty account", `{"key":{"account":"","operation":"report.create"}}`},
		{"10 MB operation", `{"key":{"account":"acme","operation":"` + strings.Repeat("o", 10_000_000) + `"}}`},
		{"invalid UTF-8", `{"key":{"account":"a` + "\xff" + `","operation":"report.create"}}`},
		{"NUL", `{"key":{"account":"a\u0000","operation":"report.create"}}`},
		{"empty body", ``},
		{"not an object", `[]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, server := serve(t)
			status, body := post(t, server, test.body)
			if status != http.StatusBadRequest || !strings.Contains(body, `"invalid_argument"`) {
				t.Errorf("answer %d %.200s, want 400 with invalid_argument", status, body)
			}
			if len(body) > 512 {
				t.Errorf("the answer has %d bytes, want a short one", len(body))
			}
			requireUnreached(t, r)
		})
	}
}

func TestOversizedRequestIsNotRead(t *testing.T) {
	r, server := serve(t)
	status, body := post(t, server, strings.Repeat(" ", edge.MaxRequestBytes+1))
	if !strings.Contains(body, `"resource_exhausted"`) {
		t.Errorf("answer %d %.200s, want resource_exhausted", status, body)
	}
	requireUnreached(t, r)
}

// TestBoundsOfAdmin: callers without a role may ask who they are, so what they send is
// bounded far lower. Within its bound, a request is looked at.
func TestBoundsOfAdmin(t *testing.T) {
	_, server := serve(t)
	for procedure, most := range map[string]int{
		tokenleasev1connect.AdminWhoAmIProcedure:        edge.MaxAdminBytes,
		tokenleasev1connect.AdminListBudgetsProcedure:   edge.MaxAdminBytes,
		tokenleasev1connect.AdminApplyPoliciesProcedure: edge.MaxApplyBytes,
	} {
		if _, body := postTo(t, server, procedure, strings.Repeat(" ", most+1)); !strings.Contains(body, `"resource_exhausted"`) {
			t.Errorf("%s with %d bytes: %.200s, want resource_exhausted", procedure, most+1, body)
		}
		if _, body := postTo(t, server, procedure, strings.Repeat(" ", most-2)+"{}"); strings.Contains(body, `"resource_exhausted"`) {
			t.Errorf("%s with %d bytes: %.200s", procedure, most, body)
		}
	}
}

// TestElementsAreBounded: a few kilobytes, compressed, are refused before they become
// hundreds of megabytes.
func TestElementsAreBounded(t *testing.T) {
	_, server := serve(t)
	const first = "\x0a\x00" // an empty message, or text, in field 1; in a Sync in field 7
	for _, test := range []struct{ procedure, kind, body, want string }{
		{tokenleasev1connect.AdminApplyPoliciesProcedure, "application/proto", strings.Repeat(first, edge.MaxApplyBytes/2), "more than 50000 elements"},
		{tokenleasev1connect.AdminApplyPoliciesProcedure, "application/json", `{"policies":[{}` + strings.Repeat(",{}", edge.MaxApplyBytes/3-10) + `]}`, "more than 50000 elements"},
		{tokenleasev1connect.AdminApplyPoliciesProcedure, "application/json; charset=utf-8", `{"removeAccounts":[""` + strings.Repeat(`,""`, edge.MaxApplyBytes/3-10) + `]}`, "more than 50000 elements"},
		{tokenleasev1connect.BrokerSyncProcedure, "application/proto", strings.Repeat("\x3a\x00", edge.MaxRequestBytes/2), "more than 204101 elements"},
		{tokenleasev1connect.LimiterCheckBatchProcedure, "application/proto", strings.Repeat(first, edge.MaxRequestBytes/2), "more than 32000 elements"},
		{tokenleasev1connect.LimiterCheckBatchProcedure, "application/proto", strings.Repeat(first, 1001), "has 1001"}, // that is for Validate to say
	} {
		packed := compressed(t, test.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, answer := sendTo(t, server, test.procedure, packed, http.Header{"Content-Type": {test.kind}, "Content-Encoding": {"gzip"}})
		runtime.ReadMemStats(&after)
		if !strings.Contains(answer, test.want) || !strings.Contains(answer, `"invalid_argument"`) {
			t.Errorf("%s of %s, %d bytes as %d: %.300s, want invalid_argument and %q", test.procedure, test.kind, len(test.body), len(packed), answer, test.want)
		}
		// What is decompressed into grows by doubling, and more with the race detector.
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(9*len(test.body)+8<<20); took > most {
			t.Errorf("%s of %s, %d bytes: %d bytes were allocated, want at most %d", test.procedure, test.kind, len(test.body), took, most)
		}
	}
}

// compressed is a text in gzip.
func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// post sends a body as a JSON check and returns the status and the answer.
func post(t *testing.T, server *httptest.Server, body string) (int, string) {
	t.Helper()
	return postTo(t, server, tokenleasev1connect.LimiterCheckProcedure, body)
}

// postTo sends a body in JSON to a procedure.
func postTo(t *testing.T, server *httptest.Server, procedure, body string) (int, string) {
	t.Helper()
	return sendTo(t, server, procedure, []byte(body), http.Header{"Content-Type": {"application/json"}})
}

// sendTo sends a body to a procedure.
func sendTo(t *testing.T, server *httptest.Server, procedure string, body []byte, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+procedure, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// watch reads a stream to its end and returns the error that ended it.
func watch(ctx context.Context, client tokenleasev1connect.BrokerClient, m *tokenleasev1.WatchRequest) error {
	stream, err := client.Watch(ctx, connect.NewRequest(m))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
	}
	return stream.Err()
}

func requireRefused(t *testing.T, r *recorder, err error, want string) {
	t.Helper()
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want invalid_argument: %s", err, want)
	}
	requireUnreached(t, r)
}

func requireUnreached(t *testing.T, r *recorder) {
	t.Helper()
	select {
	case m := <-r.reached:
		t.Errorf("an invalid request reached the handler: %.200v", m)
	default:
	}
}

func requireReached(t *testing.T, r *recorder, want proto.Message) {
	t.Helper()
	select {
	case m := <-r.reached:
		if !proto.Equal(m, want) {
			t.Errorf("the handler saw %v, want %v", m, want)
		}
	default:
		t.Error("the request did not reach the handler")
	}
}
