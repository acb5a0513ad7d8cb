package identity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// allowed is who may call what, written down once more: the table of the package is
// held against it, method by method.
var allowed = map[string]string{
	"Broker/Register": "holder broker",
	"Broker/Sync":     "holder broker",
	"Broker/Watch":    "holder broker",

	"Limiter/Check":       "gateway",
	"Limiter/CheckBatch":  "gateway",
	"Limiter/CheckStream": "gateway",
	"Limiter/Reserve":     "gateway",
	"Limiter/Settle":      "gateway",

	"Admin/ListBudgets":       "viewer operator broker",
	"Admin/ShowBudget":        "viewer operator broker",
	"Admin/ListGrants":        "viewer operator broker",
	"Admin/ShowGrant":         "viewer operator broker",
	"Admin/ListHolders":       "viewer operator broker",
	"Admin/ShowHolder":        "viewer operator broker",
	"Admin/ExplainGrant":      "viewer operator broker",
	"Admin/TopBudgets":        "viewer operator broker",
	"Admin/ListShards":        "viewer operator broker",
	"Admin/ListAudit":         "viewer operator broker",
	"Admin/ShowCluster":       "viewer operator broker",
	"Admin/ListPolicies":      "viewer operator broker",
	"Admin/ListAccounts":      "viewer operator broker",
	"Admin/ShowPolicyStatus":  "viewer operator broker",
	"Admin/ListPolicyHistory": "viewer operator broker",
	"Admin/Verify":            "viewer operator broker",
	"Admin/ShowRestore":       "viewer operator broker",

	"Admin/WhoAmI": "holder gateway viewer operator broker norole",

	"Admin/RetireHolder":     "operator broker",
	"Admin/ResolveGrant":     "operator broker",
	"Admin/MoveShard":        "operator broker",
	"Admin/ApplyPolicies":    "operator broker",
	"Admin/RollbackPolicies": "operator broker",
	"Admin/DisableOperation": "operator broker",
	"Admin/EnableOperation":  "operator broker",
	"Admin/DeclareRestore":   "operator broker",
	"Admin/AttestRestore":    "operator broker",
}

// allowedDry is who else may call what if the message says dry_run.
var allowedDry = map[string]string{
	"Admin/RetireHolder":     "viewer",
	"Admin/ApplyPolicies":    "viewer",
	"Admin/RollbackPolicies": "viewer",
}

// everyMethod are the methods of every service of the package, by "Service/Method".
func everyMethod() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("tokenlease.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				all[string(service.Name())+"/"+string(m.Name())] = m
			}
		}
		return true
	})
	return all
}

// requests are valid ones, where an empty one is not, or would name no holder.
var requests = map[string]proto.Message{
	"Broker/Register":         &pb.RegisterRequest{Holder: eu0(), StartNonce: "0123456789abcdef"},
	"Broker/Sync":             &pb.SyncRequest{Holder: eu0(), Epoch: 1, ClusterId: "c"},
	"Broker/Watch":            &pb.WatchRequest{Holder: eu0(), Epoch: 1, ClusterId: "c"},
	"Admin/ShowHolder":        &pb.ShowHolderRequest{Holder: eu0()},
	"Admin/RetireHolder":      &pb.RetireHolderRequest{Holder: eu0(), AttestedBy: "anna"},
	"Admin/ListPolicyHistory": &pb.ListPolicyHistoryRequest{},
}

// dry is a request of the method that says dry_run, or nil if there is none.
func dry(t *testing.T, name string, method protoreflect.MethodDescriptor) proto.Message {
	t.Helper()
	field := method.Input().Fields().ByName("dry_run")
	if field == nil {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	msg := kind.New().Interface()
	if given := requests[name]; given != nil {
		proto.Merge(msg, given)
	}
	msg.ProtoReflect().Set(field, protoreflect.ValueOfBool(true))
	return msg
}

func eu0() *pb.Holder { return &pb.Holder{Region: "eu", Instance: "limiter-0"} }

// call makes a call, and tells the code that it ended with; 0: none.
func (s *site) call(ctx context.Context, client *http.Client, procedure string, msg proto.Message, options ...connect.ClientOption) connect.Code {
	s.t.Helper()
	err := s.try(ctx, client, procedure, msg, options...)
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// try makes a call of any method: the messages go as unknown fields of an empty one.
func (s *site) try(ctx context.Context, client *http.Client, procedure string, msg proto.Message, options ...connect.ClientOption) error {
	s.t.Helper()
	empty := &emptypb.Empty{}
	if msg != nil {
		raw, err := proto.Marshal(msg)
		if err == nil {
			err = proto.Unmarshal(raw, empty)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	c := connect.NewClient[emptypb.Empty, emptypb.Empty](client, s.url+procedure, options...)
	descriptor := everyMethod()[strings.TrimPrefix(procedure, "/tokenlease.v1.")]
	switch {
	case descriptor.IsStreamingClient():
		stream := c.CallBidiStream(ctx)
		_ = stream.Send(empty) // what is wrong is told by Receive
		_ = stream.CloseRequest()
		_, err := stream.Receive()
		_ = stream.CloseResponse()
		return unlessEnd(err)
	case descriptor.IsStreamingServer():
		stream, err := c.CallServerStream(ctx, connect.NewRequest(empty))
		if err != nil {
			return err
		}
		stream.Receive()
		defer stream.Close()
		return stream.Err()
	}
	_, err := c.CallUnary(ctx, connect.NewRequest(empty))
	return err
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func copyBody(to io.Writer, resp *http.Response) (int64, error) { return io.Copy(to, resp.Body) }

// callers are clients of each role.
func (s *site) callers() map[string]*http.Client {
	return map[string]*http.Client{
		"holder":   s.as("spiffe://example.org/tokenlease/holder/eu/limiter-0"),
		"gateway":  s.as("spiffe://example.org/tokenlease/gateway/edge"),
		"viewer":   s.as("spiffe://example.org/tokenlease/viewer/grafana"),
		"operator": s.as("spiffe://example.org/tokenlease/operator/anna"),
		"broker":   s.as("spiffe://example.org/tokenlease/broker/0"),
		"norole":   s.as("spiffe://example.org/ns/default/sa/other"),
	}
}

// gets calls the method and fails the test unless it gets in, or does not.
func (s *site) gets(role string, client *http.Client, name string, msg proto.Message, in bool, options ...connect.ClientOption) {
	s.t.Helper()
	want := connect.CodePermissionDenied
	if in {
		want = connect.CodeUnimplemented // it got in, and nobody was there
	}
	if name == "Admin/WhoAmI" {
		want = 0 // that one is there
	}
	got := s.call(s.t.Context(), client, "/tokenlease.v1."+name, msg, options...)
	if got == connect.CodeInvalidArgument && want == connect.CodeUnimplemented {
		return // it got in, and its empty request is not valid
	}
	if got != want {
		s.t.Errorf("%s calls %s with %v: %v, want %v", role, name, msg, got, want)
	}
}

// Each role calls each method of each service over real mutual TLS, as it is and as a
// dry run, and gets in or not exactly as written above. A method that is not written
// there fails the test.
func TestEveryRoleOnEveryMethod(t *testing.T) {
	s := serve(t, nil)
	callers, all := s.callers(), everyMethod()
	for name := range allowed {
		if all[name] == nil {
			t.Errorf("%s is written down, and there is no such method", name)
		}
	}
	for name, method := range all {
		who, written := allowed[name]
		if !written {
			t.Errorf("%s is a new method: say here and in method.go who may call it", name)
			continue
		}
		trial := dry(t, name, method)
		if (trial != nil) != (allowedDry[name] != "") {
			t.Errorf("%s has a dry run: %v; say here and in dryrun.go who may make one", name, trial != nil)
		}
		roles := strings.Fields(who)
		for role, client := range callers {
			in := slices.Contains(roles, role)
			s.gets(role, client, name, requests[name], in)
			if trial == nil {
				continue
			}
			in = in || slices.Contains(strings.Fields(allowedDry[name]), role)
			for _, protocol := range [][]connect.ClientOption{nil, {connect.WithSendGzip()}, {connect.WithGRPC()}, {connect.WithGRPCWeb()}} {
				s.gets(role, client, name, requests[name], slices.Contains(roles, role), protocol...)
				s.gets(role, client, name, trial, in, protocol...)
			}
		}
	}
}

// Who shows no certificate, or none that is valid here and now, gets nowhere, not
// even to learn who it is.
func TestCallersWithoutAValidCertificate(t *testing.T) {
	s := serve(t, nil)
	other := newAuthority(t)
	operator := localca.Request{URIs: []string{"spiffe://example.org/tokenlease/operator/eve"}}
	foreign, err := other.Issue(operator)
	if err != nil {
		t.Fatal(err)
	}
	expired := operator
	expired.Life = -time.Hour
	callers := map[string]*http.Client{
		"no certificate":                      s.client(),
		"unknown authority":                   s.client(foreign),
		"unknown authority, shown beside":     s.client(foreign, &other.Pair),
		"expired":                             s.client(s.issue(expired)),
		"signed by the certificate of a peer": s.client(foreign, s.issue(operator)),
	}
	for name := range everyMethod() {
		for who, client := range callers {
			if got := s.call(t.Context(), client, "/tokenlease.v1."+name, requests[name]); got != connect.CodeUnauthenticated {
				t.Errorf("%s calls %s: %v, want unauthenticated", who, name, got)
			}
		}
	}
}

// What a connection was allowed says nothing about its next request: an authority
// that is removed, and names that lose their role, are refused at once.
func TestEachRequestIsJudgedByTheTrustInForce(t *testing.T) {
	s := serve(t, nil)
	next := newAuthority(t)
	anna := s.as("spiffe://example.org/tokenlease/operator/anna")
	if got := s.code(anna); got != connect.CodeUnimplemented {
		t.Fatalf("an operator: %v", got)
	}
	others, err := identity.ParseMapping("roles.yaml", []byte("trust-domains: [prod.example.org]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what  string
		trust *identity.Trust
		want  connect.Code
	}{
		{"beside another authority", &identity.Trust{Authorities: poolOf(s.ca, next)}, connect.CodeUnimplemented},
		{"its authority is removed", &identity.Trust{Authorities: poolOf(next)}, connect.CodeUnauthenticated},
		{"and comes back", &identity.Trust{Authorities: poolOf(s.ca)}, connect.CodeUnimplemented},
		{"its trust domain counts no more", &identity.Trust{Authorities: poolOf(s.ca), Mapping: others}, connect.CodePermissionDenied},
		{"there are no authorities, and those of the system do not count", &identity.Trust{}, connect.CodeUnauthenticated},
	} {
		s.trust.Store(step.trust)
		if got := s.code(anna); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if dials := s.dials.Load(); dials != 1 {
		t.Errorf("%d connections were made: it was not the one that was let in first", dials)
	}
}

// A name that a broker passes on is believed, and from nobody else.
func TestOnlyBrokersNameOthers(t *testing.T) {
	s := serve(t, nil)
	for uri, want := range map[string]string{
		"spiffe://example.org/tokenlease/broker/0":      "spiffe://example.org/tokenlease/operator/böb / 1",
		"spiffe://example.org/tokenlease/operator/anna": "spiffe://example.org/tokenlease/operator/anna",
	} {
		client := connect.NewClient[pb.WhoAmIRequest, pb.WhoAmIResponse](s.as(uri), s.url+"/tokenlease.v1.Admin/WhoAmI", connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				req.Header().Set(identity.CallerHeader, "spiffe:%2F%2Fexample.org%2Ftokenlease%2Foperator%2Fb%C3%B6b%20%2F%201")
				return next(ctx, req)
			}
		})))
		resp, err := client.CallUnary(t.Context(), connect.NewRequest(&pb.WhoAmIRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Msg.GetName(); got != want {
			t.Errorf("%s asks for somebody else and is %q, want %q", uri, got, want)
		}
	}
}

// series are the lines of a metric, in order.
func series(reg *prometheus.Registry, name string) []string {
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines []string
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// What is not let in is counted by method and code, and by nothing that a caller
// could choose.
func TestRefusalsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := serve(t, nil, func(cfg *identity.Config) { cfg.Registerer = reg })
	viewer := s.as("spiffe://example.org/tokenlease/viewer/v")
	for range 3 {
		s.call(t.Context(), viewer, "/tokenlease.v1.Admin/ApplyPolicies", nil)
	}
	s.get(s.client(), "GET", "/some/path/of/mine")
	s.get(s.client(), "GET", "/and/another")
	want := []string{
		`tokenlease_identity_refused_total{code="permission_denied",method="ApplyPolicies"} 3`,
		`tokenlease_identity_refused_total{code="unauthenticated",method="other"} 2`,
	}
	if got := series(reg, "tokenlease_identity_refused_total"); !slices.Equal(got, want) {
		t.Errorf("counted are %q, want %q", got, want)
	}
}

// A holder speaks for itself, whatever else it is.
func TestHoldersSpeakForThemselves(t *testing.T) {
	s := serve(t, nil)
	eu := s.as("spiffe://example.org/tokenlease/holder/eu/limiter-0", "spiffe://example.org/tokenlease/gateway/edge", "spiffe://example.org/tokenlease/operator/anna")
	for name, request := range map[string]func(*pb.Holder) proto.Message{
		"Broker/Register": func(h *pb.Holder) proto.Message {
			return &pb.RegisterRequest{Holder: h, StartNonce: "0123456789abcdef"}
		},
		"Broker/Sync": func(h *pb.Holder) proto.Message {
			return &pb.SyncRequest{Holder: h, Epoch: 1, ClusterId: "c"}
		},
		"Broker/Watch": func(h *pb.Holder) proto.Message {
			return &pb.WatchRequest{Holder: h, Epoch: 1, ClusterId: "c"}
		},
	} {
		for _, protocol := range [][]connect.ClientOption{nil, {connect.WithGRPC()}, {connect.WithGRPCWeb()}} {
			for holder, want := range map[*pb.Holder]connect.Code{
				{Region: "eu", Instance: "limiter-0"}: connect.CodeUnimplemented,
				{Region: "us", Instance: "limiter-0"}: connect.CodePermissionDenied,
				{Region: "eu", Instance: "limiter-1"}: connect.CodePermissionDenied,
				{Region: "eu", Instance: "*"}:         connect.CodePermissionDenied,
				nil:                                   connect.CodePermissionDenied,
			} {
				if got := s.call(t.Context(), eu, "/tokenlease.v1."+name, request(holder), protocol...); got != want {
					t.Errorf("%s as %v: %v, want %v", name, holder, got, want)
				}
			}
		}
	}
	// An operator that is a holder as well sees and retires others.
	retire := &pb.RetireHolderRequest{Holder: &pb.Holder{Region: "us", Instance: "limiter-0"}, DryRun: true, AttestedBy: "anna"}
	if got := s.call(t.Context(), eu, "/tokenlease.v1.Admin/RetireHolder", retire); got == connect.CodePermissionDenied {
		t.Error("an operator may not retire another holder than itself")
	}
}

// Refusals say what is missing, in every protocol.
func TestRefusalsTellWhatIsMissing(t *testing.T) {
	s := serve(t, nil)
	viewer := s.as("spiffe://example.org/tokenlease/viewer/grafana")
	eu := s.as("spiffe://example.org/tokenlease/holder/eu/limiter-0")
	us := &pb.RegisterRequest{Holder: &pb.Holder{Region: "us", Instance: "limiter-0"}, StartNonce: "0123456789abcdef"}
	tests := []struct {
		client    *http.Client
		procedure string
		msg       proto.Message
		want      string
	}{
		{s.client(), "Admin/ListHolders", nil, "unauthenticated: no client certificate was shown: want one, on the command line with --cert and --key"},
		{viewer, "Admin/ApplyPolicies", nil, `permission_denied: "ApplyPolicies" needs the role operator, and "spiffe://example.org/tokenlease/viewer/grafana" has viewer`},
		{viewer, "Limiter/CheckStream", nil, `permission_denied: "CheckStream" needs the role gateway, and "spiffe://example.org/tokenlease/viewer/grafana" has viewer`},
		{eu, "Broker/Register", us, `permission_denied: "spiffe://example.org/tokenlease/holder/eu/limiter-0" may act as [eu/limiter-0], and the request is of "us"/"limiter-0"`},
		{s.as("spiffe://example.org/ns/a/sa/b"), "Admin/ListHolders", nil, "permission_denied: \"ListHolders\" needs the role viewer or operator, and nothing gives \"spiffe://example.org/ns/a/sa/b\" a role: see `tokenlease certs show` for the names in the certificate, and --roles of the server"},
	}
	for _, test := range tests {
		for _, protocol := range [][]connect.ClientOption{nil, {connect.WithGRPC()}, {connect.WithGRPCWeb()}} {
			err := s.try(t.Context(), test.client, "/tokenlease.v1."+test.procedure, test.msg, protocol...)
			if err == nil || err.Error() != test.want {
				t.Errorf("%s:\n got %v\nwant %s", test.procedure, err, test.want)
			}
		}
	}
	err := s.try(t.Context(), s.client(func() *localca.Pair {
		pair, err := newAuthority(t).Issue(localca.Request{CommonName: "eve"})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}()), "/tokenlease.v1.Admin/ListHolders", nil)
	if want := `unauthenticated: the client certificate of "cn:eve" is not valid: x509: certificate signed by unknown authority; renew it, or add its authority to those of the server`; err == nil || err.Error() != want {
		t.Errorf("of another authority:\n got %v\nwant %s", err, want)
	}
}

// Paths that are no methods are open as configured, and otherwise closed.
func TestPlainPaths(t *testing.T) {
	s := serve(t, nil)
	nobody, gateway := s.client(), s.as("spiffe://example.org/tokenlease/gateway/edge")
	viewer, operator := s.as("spiffe://example.org/tokenlease/viewer/v"), s.as("spiffe://example.org/tokenlease/operator/anna")
	tests := []struct {
		client       *http.Client
		method, path string
		status       int
		body         string
	}{
		{nobody, "GET", "/healthz", 200, ""},
		{nobody, "GET", "/metrics", 401, "no client certificate was shown: want one, on the command line with --cert and --key"},
		{gateway, "GET", "/metrics", 403, `"/metrics" needs the role viewer or operator, and "spiffe://example.org/tokenlease/gateway/edge" has gateway`},
		{viewer, "GET", "/metrics", 200, "spiffe://example.org/tokenlease/viewer/v"},
		{viewer, "GET", "/v1/config/limits", 200, "spiffe://example.org/tokenlease/viewer/v"},
		{viewer, "PUT", "/v1/config/plan", 403, `"/v1/config/plan" needs the role operator, and "spiffe://example.org/tokenlease/viewer/v" has viewer`},
		{operator, "PUT", "/v1/config/plan", 200, "spiffe://example.org/tokenlease/operator/anna"},
		{operator, "GET", "/v1/config", 403, `"/v1/config" is open to no role; the caller is "spiffe://example.org/tokenlease/operator/anna"`},
		{operator, "POST", "/metrics", 403, `"/metrics" is open to no role; the caller is "spiffe://example.org/tokenlease/operator/anna"`},
		{operator, "GET", "/metrics/more", 403, `"/metrics/more" is open to no role; the caller is "spiffe://example.org/tokenlease/operator/anna"`},
		{operator, "GET", "/", 403, `"/" is open to no role; the caller is "spiffe://example.org/tokenlease/operator/anna"`},
		{nobody, "GET", "/healthz/../metrics", 400, "the path is not in its shortest form"},
		{viewer, "GET", "/v1/config/%2e%2e/plan", 400, "the path is not in its shortest form"},
		{viewer, "POST", "/tokenlease.v1.Admin/ApplyPolicies", 403, `"ApplyPolicies" needs the role operator, and "spiffe://example.org/tokenlease/viewer/v" has viewer`},
		{operator, "POST", "/tokenlease.v1.Admin/NoSuchMethod", 403, `"/tokenlease.v1.Admin/NoSuchMethod" is open to no role; the caller is "spiffe://example.org/tokenlease/operator/anna"`},
	}
	for _, test := range tests {
		status, body := s.get(test.client, test.method, test.path)
		if status != test.status || body != test.body {
			t.Errorf("%s %s:\n got %d %s\nwant %d %s", test.method, test.path, status, body, test.status, test.body)
		}
	}
}

func TestMethodsOfRoles(t *testing.T) {
	for role, want := range map[identity.Roles]int{0: 1, identity.Holder: 1, identity.Viewer: 18, identity.Operator: 27, identity.Broker: 27} {
		got := identity.Methods("tokenlease.v1.Admin", role)
		if len(got) != want || !slices.IsSorted(got) {
			t.Errorf("%v may call %d methods of Admin, want %d: %v", role, len(got), want, got)
		}
	}
	if got := identity.AllMethods("tokenlease.v1.Limiter"); fmt.Sprint(got) != "[Check CheckBatch CheckStream Reserve Settle]" {
		t.Errorf("all methods of Limiter: %v", got)
	}
}

// A caller has so many calls of one service, by its name, and by its address where
// it has none. What another broker has let in is not counted again.
func TestCallersAreHeldToTheirAllowance(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := serveBehind(t, identity.Limits(identity.LimitsConfig{Service: "tokenlease.v1.Admin", PerSecond: 1, Burst: 2, Registerer: reg}), nil)
	anna := s.as("spiffe://example.org/tokenlease/operator/anna", "spiffe://example.org/tokenlease/gateway/edge")
	bob := s.as("spiffe://example.org/tokenlease/operator/bob")
	broker := s.as("spiffe://example.org/tokenlease/broker/0")
	for range 2 {
		s.code(anna)
	}
	err := s.try(t.Context(), anna, "/tokenlease.v1.Admin/ListHolders", nil)
	var refused *connect.Error
	if !errors.As(err, &refused) || refused.Code() != connect.CodeResourceExhausted || refused.Meta().Get("Retry-After") != "1" {
		t.Errorf("a third call at once: %v", err)
	}
	if got := s.call(t.Context(), anna, "/tokenlease.v1.Limiter/Settle", nil); got == connect.CodeResourceExhausted {
		t.Error("another service is counted")
	}
	if got := s.code(bob); got != connect.CodeUnimplemented {
		t.Errorf("another caller at the same address: %v", got)
	}
	for range 5 {
		if got := s.code(broker); got != connect.CodeUnimplemented {
			t.Errorf("a broker: %v", got)
		}
	}
	if got, want := series(reg, "tokenlease_identity_calls_shed_total"), "tokenlease_identity_calls_shed_total 1"; !slices.Equal(got, []string{want}) {
		t.Errorf("counted are %q, want %q", got, want)
	}
}

// A call beyond the allowance is refused before its body is read: one that is large,
// or never comes, costs nothing. It is so in the form of each protocol.
func TestAllowanceIsTakenBeforeTheBody(t *testing.T) {
	s := serveBehind(t, identity.Limits(identity.LimitsConfig{Service: "tokenlease.v1.Admin", PerSecond: 1, Burst: 1}), nil)
	for kind, status := range map[string]int{"application/proto": http.StatusTooManyRequests, "application/json": http.StatusTooManyRequests, "application/grpc": http.StatusOK} {
		nobody := s.as("spiffe://example.org/" + kind) // a certificate without a role
		if got := s.call(t.Context(), nobody, "/tokenlease.v1.Admin/WhoAmI", &pb.WhoAmIRequest{}); got != 0 {
			t.Fatalf("the first call: %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		body, never := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/tokenlease.v1.Admin/WhoAmI", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := nobody.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status || status == http.StatusOK && resp.Trailer.Get("Grpc-Status") != "8" {
			t.Errorf("%s: answered %d with trailers %v, want resource_exhausted", kind, resp.StatusCode, resp.Trailer)
		}
		_ = never.Close()
		cancel()
	}
}
