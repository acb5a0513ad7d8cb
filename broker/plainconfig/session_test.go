package plainconfig_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/plainconfig"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// cluster is a broker over a store in memory, and the API over a client of it.
type cluster struct {
	t     *testing.T
	admin tokenleasev1connect.AdminClient
	api   http.Handler
}

// start starts one with the worked example in force, at version 1.
func start(t *testing.T) *cluster {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b, err := broker.New(t.Context(), broker.Config{Store: store.NewMemory(), Shards: 4, ID: "a", AdvertiseURL: server.URL, HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	b.Mount(mux, edge.Options())
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, admin: tokenleasev1connect.NewAdminClient(server.Client(), server.URL)}
	api := http.NewServeMux()
	plainconfig.New(c.admin).Mount(api)
	c.api = api
	c.applyFile("policies: [{operation: report.create, token-bucket: {capacity: 40, refill: 20 per 1s}, cost: 5}]")
	return c
}

// applyFile puts the policies of a file in force.
func (c *cluster) applyFile(text string) {
	c.t.Helper()
	d, err := policyfile.Parse("p.yaml", []byte(text))
	if err == nil {
		_, err = c.admin.ApplyPolicies(c.t.Context(), connect.NewRequest(&pb.ApplyPoliciesRequest{
			Policies: d.Policies, Plans: d.Plans, DefaultPlan: d.DefaultPlan, Accounts: d.Accounts, AppliedBy: "ann",
		}))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request. A body is sent as JSON.
func (c *cluster) ask(method, target, body string) *httptest.ResponseRecorder {
	c.t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	c.api.ServeHTTP(rec, req)
	return rec
}

// exchange is a request and its answer in the package's comment.
type exchange struct{ method, target, body, status, answer string }

// exchanges are all of them, in order.
func exchanges(t *testing.T) []exchange {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`(?m)^//\t(GET|POST|PUT|DELETE) (/\S+)\n(?://\t(\{.*)\n)?//\n//\t(\d{3}) (\{.*)$`)
	var all []exchange
	for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
		all = append(all, exchange{m[1], m[2], m[3], m[4], m[5]})
	}
	if lines := regexp.MustCompile(`(?m)^//\t(GET|POST|PUT|DELETE) `).FindAll(source, -1); len(lines) != len(all) || len(all) < 12 {
		t.Fatalf("%d of %d requests have an answer", len(all), len(lines))
	}
	return all
}

// TestDocumentation: what the package's comment shows is what happens, in that order.
// "..." stands for what may be worded otherwise.
func TestDocumentation(t *testing.T) {
	c := start(t)
	for _, x := range exchanges(t) {
		rec := c.ask(x.method, x.target, x.body)
		parts := strings.Split(x.status+" "+x.answer+"\n", `"..."`)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		got := fmt.Sprintf("%d %s", rec.Code, rec.Body)
		if !regexp.MustCompile(`^` + strings.Join(parts, `"[^\n]*"`) + `$`).MatchString(got) {
			t.Errorf("%s %s %s\n got %s\nwant %s %s", x.method, x.target, x.body, got, x.status, x.answer)
		}
	}
}

// TestWithin: the service of the same process sees who asks, from where, and how it
// was answered.
func TestWithin(t *testing.T) {
	type callerKey struct{}
	mux := http.NewServeMux()
	c := start(t)
	path, handler := tokenleasev1connect.NewAdminHandler(c.admin, edge.Options()) // a client is a handler too
	var seen []string
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, fmt.Sprint(req.Context().Value(callerKey{}), " ", req.RemoteAddr, " ", req.URL.Path))
		if req.Context().Value(callerKey{}) == "mallory" {
			_ = connect.NewErrorWriter().Write(w, req, connect.NewError(connect.CodePermissionDenied, errors.New("not for you")))
			return
		}
		handler.ServeHTTP(w, req)
	}))
	plainconfig.New(plainconfig.Within(mux)).Mount(mux)
	ask := func(who, method, target, body string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, target, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, req.WithContext(context.WithValue(req.Context(), callerKey{}, who)))
		return rec
	}
	if rec := ask("mallory", http.MethodPut, "/v1/config/plan", `{"plan":"a","limits":[]}`); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "not for you") {
		t.Errorf("mallory: %d %s", rec.Code, rec.Body)
	}
	if rec := ask("ann", http.MethodPut, "/v1/config/plan", `{"plan":"a","limits":[]}`); rec.Code != http.StatusOK {
		t.Errorf("ann: %d %s", rec.Code, rec.Body)
	}
	if want := "mallory 192.0.2.1:1234 " + tokenleasev1connect.AdminListPoliciesProcedure; seen[0] != want {
		t.Errorf("the service saw %q, want %q", seen[0], want)
	}
	if want := "ann 192.0.2.1:1234 " + tokenleasev1connect.AdminApplyPoliciesProcedure; seen[len(seen)-1] != want {
		t.Errorf("the service saw %q, want %q", seen[len(seen)-1], want)
	}
}
