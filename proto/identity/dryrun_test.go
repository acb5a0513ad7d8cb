package identity_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/identity"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const applyPath = "/tokenlease.v1.Admin/ApplyPolicies"

// reached counts what gets as far as a method.
func reached(count *atomic.Int64) connect.HandlerOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			count.Add(1)
			return next(ctx, req)
		}
	}))
}

func wired(t *testing.T, msg proto.Message) string {
	t.Helper()
	raw, err := proto.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A viewer gets to a method that changes something with a message that was read and says
// dry_run, and with nothing else, whatever its form. What is refused is told and counted
// as it was without that.
func TestViewersMakeDryRunsAlone(t *testing.T) {
	reg := prometheus.NewRegistry()
	var in atomic.Int64
	s := serve(t, reached(&in), func(cfg *identity.Config) { cfg.Registerer = reg })
	viewer := s.as("spiffe://example.org/tokenlease/viewer/grafana")
	dryRun, actual := &pb.ApplyPoliciesRequest{DryRun: true, RemoveOperations: []string{"x"}}, &pb.ApplyPoliciesRequest{RemoveOperations: []string{"x"}}
	const refusal = `"ApplyPolicies" needs the role operator, and "spiffe://example.org/tokenlease/viewer/grafana" has viewer`
	tests := []struct {
		what, method, kind, coding, body string
		gets                             bool
		status                           int
	}{
		{"a dry run", "POST", "application/proto", "", wired(t, dryRun), true, 501},
		{"a dry run in JSON", "POST", "application/json", "", `{"dryRun":true,"removeOperations":["x"]}`, true, 501},
		{"a dry run in JSON with a charset", "POST", "application/json; charset=utf-8", "", `{"dry_run":true,"removeOperations":["x"]}`, true, 501},
		{"a dry run that is compressed", "POST", "application/proto", "gzip", gzipped(t, wired(t, dryRun)), true, 501},
		{"a dry run at last", "POST", "application/proto", "", wired(t, actual) + "\x58\x01", true, 501},
		{"a real one", "POST", "application/proto", "", wired(t, actual), false, 403},
		{"a real one in JSON", "POST", "application/json", "", `{"dryRun":false,"removeOperations":["x"]}`, false, 403},
		{"a real one that is compressed", "POST", "application/proto", "gzip", gzipped(t, wired(t, actual)), false, 403},
		{"no dry run at last", "POST", "application/proto", "", wired(t, dryRun) + "\x58\x00", false, 403},
		{"a dry run that is a field of no number", "POST", "application/proto", "", wired(t, actual) + "\xf8\x07\x01", false, 403},
		{"nothing", "POST", "application/proto", "", "", false, 403},
		{"one that is not valid", "POST", "application/json", "", `{"policies":[{}]}`, false, 403},
		{"GET", "GET", "", "", "", false, 403},
		{"GET with a message", "GET", "application/json", "", `{"dryRun":true}`, false, 403},
		{"PUT", "PUT", "application/json", "", `{"dryRun":true}`, false, 403},
		{"a form that no method reads", "POST", "application/xml", "", "<dryRun/>", false, 403},
		{"no form", "POST", "", "", `{"dryRun":true}`, false, 403},
		{"a stream", "POST", "application/connect+json", "", `{"dryRun":true}`, false, 200},
	}
	refused := 0
	for _, test := range tests {
		before := in.Load()
		status, body := s.post(viewer, test.method, applyPath, test.kind, test.coding, strings.NewReader(test.body))
		if got := in.Load() > before; got != test.gets || status != test.status {
			t.Errorf("%s: answered %d, and reached the method: %v; %s", test.what, status, got, body)
		}
		if !test.gets {
			refused++
			if !strings.Contains(strings.ReplaceAll(body, `\"`, `"`), refusal) {
				t.Errorf("%s: %s", test.what, body)
			}
		}
	}
	want := fmt.Sprintf(`tokenlease_identity_refused_total{code="permission_denied",method="ApplyPolicies"} %d`, refused)
	if got := series(reg, "tokenlease_identity_refused_total"); !slices.Equal(got, []string{want}) {
		t.Errorf("counted are %q, want %q", got, want)
	}
}

// What cannot be read is no dry run, and gets nowhere. A viewer's message is bounded as
// everybody's is, also once it is unpacked.
func TestDryRunsThatCannotBeRead(t *testing.T) {
	var in atomic.Int64
	s := serve(t, reached(&in))
	viewer := s.as("spiffe://example.org/tokenlease/viewer/grafana")
	large := `{"dryRun":true,"because":"` + strings.Repeat("x", edge.MaxApplyBytes) + `"}`
	for _, test := range []struct {
		what, path, kind, coding string
		body                     string
		status                   int
	}{
		{"no JSON", applyPath, "application/json", "", `{"dryRun":true`, 400},
		{"a field that there is not", applyPath, "application/json", "", `{"dryRun":true,"dry":true}`, 400},
		{"a field twice", applyPath, "application/json", "", `{"dryRun":true,"dryRun":false}`, 400},
		{"no message", applyPath, "application/proto", "", "\xff\xff", 400},
		{"another coding", applyPath, "application/json", "br", `{"dryRun":true}`, 501},
		{"no gzip", applyPath, "application/json", "gzip", `{"dryRun":true}`, 400},
		{"too large", applyPath, "application/json", "", large, 429},
		{"too large once it is unpacked", applyPath, "application/json", "gzip", gzipped(t, large), 429},
		{"of the bound of another method", "/tokenlease.v1.Admin/RetireHolder", "application/json", "", large[:edge.MaxAdminBytes] + `"}`, 429},
	} {
		if status, body := s.post(viewer, "POST", test.path, test.kind, test.coding, strings.NewReader(test.body)); status != test.status || in.Load() > 0 {
			t.Errorf("%s: answered %d, want %d, and reached the method: %v; %s", test.what, status, test.status, in.Load() > 0, body)
		}
	}
}

// Who may make no dry run is refused before the body is read, as ever.
func TestOthersAreRefusedBeforeTheirDryRunIsRead(t *testing.T) {
	s := serve(t, nil)
	for role, client := range s.callers() {
		if slices.Contains([]string{"viewer", "operator", "broker"}, role) {
			continue
		}
		body, never := io.Pipe() // nothing is ever sent
		if status, _ := s.post(client, "POST", applyPath, "application/json", "", body); status != http.StatusForbidden {
			t.Errorf("%s: answered %d", role, status)
		}
		_ = never.Close()
	}
}

// A method whose message is of a type that does not know of dry runs is closed to
// viewers, whatever the message has in fields that nobody reads.
func TestUnknownMessagesAreNoDryRuns(t *testing.T) {
	var s *site
	var in atomic.Int64
	guard := identity.NewGuard(identity.Config{Trust: func() *identity.Trust { return s.trust.Load() }})
	s = serveBehind(t, func(http.Handler) http.Handler {
		return connect.NewUnaryHandler(applyPath, func(_ context.Context, req *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
			in.Add(1)
			return connect.NewResponse(req.Msg), nil
		}, connect.WithInterceptors(guard.Interceptor()))
	}, nil)
	for uri, want := range map[string]connect.Code{
		"spiffe://example.org/tokenlease/viewer/grafana": connect.CodePermissionDenied,
		"spiffe://example.org/tokenlease/operator/anna":  0,
	} {
		if got := s.call(t.Context(), s.as(uri), applyPath, &pb.ApplyPoliciesRequest{DryRun: true}); got != want {
			t.Errorf("%s: %v, want %v", uri, got, want)
		}
	}
	if in.Load() != 1 {
		t.Errorf("the method was reached %d times", in.Load())
	}
}

// post makes a plain request.
func (s *site) post(client *http.Client, method, path, kind, coding string, body io.Reader) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if _, err := copyBody(&text, resp); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, text.String()
}

// Of viewers whose messages are not read yet two are let in at a time; who may call the
// method whatever it says is let in besides. What ends makes room.
func TestFewUnreadDryRunsAtATime(t *testing.T) {
	var in atomic.Int64
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s := serveBehind(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Encoding") == "gzip" { // those that take their time
				arrived <- struct{}{}
				<-goOn
			}
			next.ServeHTTP(w, r)
		})
	}, reached(&in))
	viewer, operator := s.as("spiffe://example.org/tokenlease/viewer/grafana"), s.as("spiffe://example.org/tokenlease/operator/anna")
	post := func(client *http.Client, coding string) (int, string) {
		body := `{"dryRun":true,"removeOperations":["x"]}`
		if coding == "gzip" {
			body = gzipped(t, body)
		}
		return s.post(client, "POST", applyPath, "application/json", coding, strings.NewReader(body))
	}
	ended := make(chan int, 2)
	for range 2 {
		go func() {
			status, _ := post(viewer, "gzip")
			ended <- status
		}()
		<-arrived
	}
	if status, body := post(viewer, ""); status != http.StatusTooManyRequests || !strings.Contains(body, "try again in a second") || in.Load() > 0 {
		t.Errorf("the third is answered %d, %s", status, body)
	}
	if status, body := post(operator, ""); status != http.StatusNotImplemented || in.Load() != 1 {
		t.Errorf("an operator is answered %d, %s", status, body)
	}
	close(goOn)
	for range 2 {
		if status := <-ended; status != http.StatusNotImplemented {
			t.Errorf("one of the first is answered %d", status)
		}
	}
	if status, body := post(viewer, ""); status != http.StatusNotImplemented {
		t.Errorf("later: %d, %s", status, body)
	}
}
