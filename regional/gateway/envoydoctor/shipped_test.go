package envoydoctor_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/envoydoctor"
)

// shipped is the shipped configuration in Envoy's own messages.
func shipped(t *testing.T) *bootstrap.Bootstrap {
	t.Helper()
	return toBootstrap(t, envoy.FailClosedConfig())
}

func toBootstrap(t *testing.T, file []byte) *bootstrap.Bootstrap {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(file, &tree); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	out := &bootstrap.Bootstrap{}
	if err := protojson.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestShippedConfiguration: it is what Envoy's own messages take, by Envoy's own
// rules, and the doctor has nothing to say about it.
func TestShippedConfiguration(t *testing.T) {
	config := shipped(t)
	if err := config.ValidateAll(); err != nil {
		t.Error(err)
	}
	for _, inner := range anys(config) {
		message, err := inner.UnmarshalNew()
		if err != nil {
			t.Error(err)
			continue
		}
		if v, ok := message.(interface{ ValidateAll() error }); ok {
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %v", inner.GetTypeUrl(), err)
			}
		}
	}
	report, err := envoydoctor.Read(envoy.FailClosedConfig())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 0 || report.Listeners != 1 || report.Limiters != 1 || report.Routes != 2 {
		t.Errorf("%+v", report)
	}
}

// anys are all that are anywhere within a message.
func anys(m proto.Message) []*anypb.Any {
	var all []*anypb.Any
	var visit func(protoreflect.Message)
	visit = func(m protoreflect.Message) {
		if inner, ok := m.Interface().(*anypb.Any); ok {
			all = append(all, inner)
			if message, err := inner.UnmarshalNew(); err == nil {
				visit(message.ProtoReflect())
			}
			return
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					visit(v.List().Get(i).Message())
				}
			case f.IsMap() && f.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					visit(v.Message())
					return true
				})
			case f.Message() != nil && !f.IsMap():
				visit(v.Message())
			}
			return true
		})
	}
	visit(m.ProtoReflect())
	return all
}

// asked is a decider that admits, and remembers for whom.
type asked struct{ keys chan lease.Key }

func (a asked) Decide(_ context.Context, req decision.Request) decision.Answer {
	a.keys <- req.Key
	return decision.Answer{Allowed: true, Reason: pb.Reason_REASON_ALLOWED}
}

// TestShippedMapping: what the shipped configuration asks is what the shipped
// mapping knows, and a request without an account is denied.
func TestShippedMapping(t *testing.T) {
	m, err := envoy.ParseMapping("descriptors.yaml", envoy.FailClosedMapping())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	decider := asked{keys: make(chan lease.Key, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- envoy.New(envoy.Config{Decider: decider, Mapping: m}).Serve(t.Context(), listener)
	}()
	t.Cleanup(func() { <-ended })
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := ratelimit.NewRateLimitServiceClient(conn)
	var operations []string
	for _, host := range managers(t, shipped(t))[0].GetRouteConfig().GetVirtualHosts() {
		for _, r := range host.GetRoutes() {
			for _, limit := range r.GetRoute().GetRateLimits() {
				with, without := &ratelimitcommon.RateLimitDescriptor{}, &ratelimitcommon.RateLimitDescriptor{}
				for _, action := range limit.GetActions() {
					if g := action.GetGenericKey(); g != nil {
						e := &ratelimitcommon.RateLimitDescriptor_Entry{Key: g.GetDescriptorKey(), Value: g.GetDescriptorValue()}
						with.Entries, without.Entries = append(with.Entries, e), append(without.Entries, e)
					}
					if claim := action.GetMetadata(); claim != nil {
						with.Entries = append(with.Entries, &ratelimitcommon.RateLimitDescriptor_Entry{Key: claim.GetDescriptorKey(), Value: "acme"})
					}
				}
				resp, err := client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitcommon.RateLimitDescriptor{with}})
				if err != nil || resp.GetOverallCode() != ratelimit.RateLimitResponse_OK {
					t.Fatalf("%v: %v, %v", with, resp, err)
				}
				key := <-decider.keys
				if key.Account != "acme" {
					t.Errorf("account %q", key.Account)
				}
				operations = append(operations, key.Operation)
				resp, err = client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitcommon.RateLimitDescriptor{without}})
				if err != nil || resp.GetOverallCode() != ratelimit.RateLimitResponse_OVER_LIMIT {
					t.Errorf("without an account: %v, %v", resp, err)
				}
			}
		}
	}
	if len(operations) != 2 || operations[0] != "report.create" || operations[1] != "api.read" {
		t.Errorf("operations %v", operations)
	}
}

// managers are the connection managers of a configuration.
func managers(t *testing.T, config *bootstrap.Bootstrap) []*manager.HttpConnectionManager {
	t.Helper()
	var all []*manager.HttpConnectionManager
	for _, l := range config.GetStaticResources().GetListeners() {
		all = append(all, managersOf(t, l)...)
	}
	return all
}

func managersOf(t *testing.T, l *listenerpb.Listener) []*manager.HttpConnectionManager {
	t.Helper()
	var all []*manager.HttpConnectionManager
	for _, chain := range l.GetFilterChains() {
		for _, f := range chain.GetFilters() {
			m := &manager.HttpConnectionManager{}
			if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	return all
}
