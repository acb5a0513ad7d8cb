package rpclimit_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/rpclimit"
)

// health is a service behind the limit; any service will do.
type health struct {
	grpc_health_v1.UnimplementedHealthServer

	work func(context.Context) error
}

func (h health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, h.work(ctx)
}

func (h health) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if err := h.work(stream.Context()); err != nil {
		return err
	}
	return stream.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
}

// grpcClient calls the service of a real server, in memory.
func grpcClient(t *testing.T, d *fake, cfg rpclimit.Config, work func(context.Context) error) grpc_health_v1.HealthClient {
	t.Helper()
	unary, stream, err := rpclimit.GRPC(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream))
	grpc_health_v1.RegisterHealthServer(server, health{work: work})
	go server.Serve(listener) // ends with Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// calls makes a unary call and a stream, and returns how each ended.
func calls(t *testing.T, client grpc_health_v1.HealthClient, account string) map[string]ended {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-account", account)
	var u ended
	_, u.err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&u.header), grpc.Trailer(&u.trailer))
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var s ended
	_, s.err = stream.Recv()
	s.header, _ = stream.Header()
	s.trailer = stream.Trailer()
	return map[string]ended{"unary": u, "stream": s}
}

type ended struct {
	err             error
	header, trailer metadata.MD
}

func (e ended) told(t *testing.T, md metadata.MD) told {
	t.Helper()
	one := func(key string) string { return strings.Join(md.Get(key), " | ") }
	s := status.Convert(e.err)
	got := told{
		Message: s.Message(), Header: one("ratelimit"), After: one("retry-after"), Pushback: one("grpc-retry-pushback-ms"),
		Code: map[codes.Code]string{
			codes.ResourceExhausted: "resource_exhausted", codes.Unavailable: "unavailable", codes.PermissionDenied: "permission_denied",
			codes.InvalidArgument: "invalid_argument", codes.FailedPrecondition: "failed_precondition", codes.Internal: "internal",
		}[s.Code()],
	}
	for _, detail := range s.Details() {
		switch v := detail.(type) {
		case *errdetails.ErrorInfo:
			got.Reason, got.Version = v.GetReason(), v.GetMetadata()["policy_version"]
		case *errdetails.RetryInfo:
			got.Delay = v.GetRetryDelay().AsDuration()
		}
	}
	return got
}

func TestGRPCDenials(t *testing.T) {
	client := grpcClient(t, newFake(), config(), func(context.Context) error { t.Error("the handler was reached"); return nil })
	for account, want := range denials() {
		for kind, e := range calls(t, client, account) {
			for where, md := range map[string]metadata.MD{"headers": e.header, "trailers": e.trailer} {
				if diff := cmp.Diff(want, e.told(t, md)); diff != "" {
					t.Errorf("%s of %q, by its %s (-want +got):\n%s", kind, account, where, diff)
				}
			}
			if len(e.header.Get("cache-control")) != 0 {
				t.Errorf("%s of %q speaks to caches", kind, account)
			}
		}
	}
}

func TestGRPCAdmitted(t *testing.T) {
	d := newFake()
	client := grpcClient(t, d, config(), func(ctx context.Context) error {
		if a, ok := admission.AnswerOf(ctx); !ok || a.Remaining != 35 {
			t.Errorf("the handler sees %+v, %v", a, ok)
		}
		return nil
	})
	for kind, e := range calls(t, client, "acme") {
		if e.err != nil || cmp.Diff([]string{`"default";r=35`}, e.header.Get("ratelimit")) != "" ||
			cmp.Diff([]string{`"default";q=40;w=2`}, e.header.Get("ratelimit-policy")) != "" || len(e.header.Get("retry-after")) != 0 {
			t.Errorf("%s: %v, %v", kind, e.err, e.header)
		}
	}
	for i, want := range []string{"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"} {
		if got := d.requests[i].Key.Operation; got != want {
			t.Errorf("call %d is told as %q, want %q", i, got, want)
		}
	}
}

func TestGRPCExempt(t *testing.T) {
	d := newFake()
	cfg := config()
	cfg.Exempt = func(call rpclimit.Call) bool { return strings.HasPrefix(call.Procedure, "/grpc.health.v1.") }
	client := grpcClient(t, d, cfg, func(context.Context) error { return nil })
	for kind, e := range calls(t, client, "exhausted") {
		if e.err != nil {
			t.Errorf("%s: %v", kind, e.err)
		}
	}
	if d.asked() != 0 {
		t.Errorf("%d exempt calls were decided", d.asked())
	}
}

// TestGRPCHolds: slots are given back and late costs settled, also if the handler
// fails.
func TestGRPCHolds(t *testing.T) {
	for _, test := range []struct {
		name string
		mode admission.Mode
		work func(context.Context) error
		code codes.Code
		cost int64
	}{
		{"slot", admission.Slots, func(context.Context) error { return nil }, codes.OK, 0},
		{"slot of a failure", admission.Slots, func(context.Context) error { return status.Error(codes.NotFound, "no") }, codes.NotFound, 0},
		{"late", admission.Late, func(ctx context.Context) error { _, err := rpclimit.Settle(ctx, 7); return err }, codes.OK, 7},
		{"late, not settled", admission.Late, func(context.Context) error { return nil }, codes.OK, 50},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newFake()
			cfg := config()
			cfg.Mode = test.mode
			client := grpcClient(t, d, cfg, test.work)
			for kind, e := range calls(t, client, "acme") {
				if status.Code(e.err) != test.code {
					t.Errorf("%s: %v", kind, e.err)
				}
				if cost := <-d.settled; cost != test.cost {
					t.Errorf("settled with %d, want %d", cost, test.cost)
				}
			}
		})
	}
}
