package httplimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
)

// identify takes the account from a header, as a gateway behind its own
// authentication would.
func identify(r *http.Request) (decision.Request, error) {
	var req decision.Request
	req.Key.Account, req.Key.Operation = r.Header.Get("X-Account"), "report.create"
	if cost := r.Header.Get("X-Cost"); cost != "" {
		n, err := strconv.ParseInt(cost, 10, 64)
		if err != nil {
			return req, errors.New("the secret of X-Cost")
		}
		req.Cost = decision.Tokens(n)
	}
	return req, nil
}

// started is a handler that works and says so.
var started = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "started\n") })

// serve starts a server whose one handler is limited.
func serve(t *testing.T, d decision.Decider, cfg httplimit.Config, next http.Handler) *httptest.Server {
	t.Helper()
	if cfg.Request == nil {
		cfg.Request = identify
	}
	server := httptest.NewServer(httplimit.New(d, cfg)(next))
	t.Cleanup(server.Close)
	return server
}

// reply is a response that was read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) problem(t *testing.T) httpanswer.Problem {
	t.Helper()
	var p httpanswer.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return p
}

// get asks for an account; more are pairs of header fields and values.
func get(t *testing.T, server *httptest.Server, account string, more ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Account", account)
	for i := 0; i < len(more); i += 2 {
		req.Header.Add(more[i], more[i+1])
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

// fields are those that a limited response may carry.
func (r reply) fields() map[string]string {
	got := map[string]string{}
	for name, values := range r.header {
		switch name {
		case "Date", "Content-Length", "Content-Type", "X-Content-Type-Options":
		default:
			got[name] = strings.Join(values, " | ")
		}
	}
	return got
}

// TestCase39Remaining: the worked example over HTTP, until it is used up.
func TestCase39Remaining(t *testing.T) {
	b := newBudgets(40, 5)
	b.wait = 250 * time.Millisecond
	server := serve(t, b, httplimit.Config{}, started)
	for i := range 8 {
		r := get(t, server, "acme")
		want := map[string]string{
			httpanswer.FieldPolicy: `"default";q=40;w=2`, httpanswer.FieldRateLimit: `"default";r=` + strconv.Itoa(35-5*i), "Cache-Control": "no-store",
		}
		if diff := cmp.Diff(want, r.fields()); diff != "" || r.status != 200 || r.body != "started\n" {
			t.Fatalf("request %d: status %d, %q, fields (-want +got):\n%s", i, r.status, r.body, diff)
		}
	}
	r := get(t, server, "acme")
	want := map[string]string{
		httpanswer.FieldPolicy: `"default";q=40;w=2`, httpanswer.FieldRateLimit: `"default";r=0;t=1`, "Cache-Control": "no-store", "Retry-After": "1",
	}
	if diff := cmp.Diff(want, r.fields()); diff != "" || r.status != 429 || r.problem(t).Reason != "exhausted" {
		t.Errorf("the ninth: status %d, %q, fields (-want +got):\n%s", r.status, r.body, diff)
	}
}

func TestCase26AboveCapacity(t *testing.T) {
	b := newBudgets(5, 10)
	b.wait = time.Second
	r := get(t, serve(t, b, httplimit.Config{}, started), "acme")
	if r.status != 429 || r.header.Get("Retry-After") != "" || r.problem(t).Reason != "cost-above-capacity" {
		t.Errorf("cost 10 of 5: status %d, Retry-After %q, %s", r.status, r.header.Get("Retry-After"), r.body)
	}
}

func TestCase27And38WholeSeconds(t *testing.T) {
	for _, wait := range []time.Duration{1, 50 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		b := newBudgets(1, 1)
		b.wait = wait
		server := serve(t, b, httplimit.Config{}, started)
		get(t, server, "acme")
		if r := get(t, server, "acme"); r.status != 429 || r.header.Get("Retry-After") != "1" {
			t.Errorf("%v to wait: status %d, Retry-After %q, want 1", wait, r.status, r.header.Get("Retry-After"))
		}
	}
}

func TestCase3UsedUpForEver(t *testing.T) {
	server := serve(t, newBudgets(1, 1), httplimit.Config{}, started)
	get(t, server, "acme")
	if r := get(t, server, "acme"); r.status != 429 || r.header.Get("Retry-After") != "" {
		t.Errorf("status %d, Retry-After %q, want none", r.status, r.header.Get("Retry-After"))
	}
}

// TestTenantsSeeTheirOwn: nothing that one account does shows in what another is
// told, and no account is told a name.
func TestTenantsSeeTheirOwn(t *testing.T) {
	b := newBudgets(40, 7)
	b.wait = 3 * time.Second
	server := serve(t, b, httplimit.Config{Writer: httpanswer.Writer{Legacy: true, Details: true}}, started)
	alone := get(t, server, "acme")
	for range 10 {
		r := get(t, server, "umbrella") // spends all, and is denied
		if all := r.body + strings.Join(flat(r.header), " "); strings.Contains(all, "acme") || strings.Contains(all, "g1-0-1") {
			t.Errorf("umbrella is told %s", all)
		}
	}
	next := get(t, server, "acme")
	if next.status != 200 || next.header.Get(httpanswer.FieldRateLimit) != `"default";r=26` || alone.header.Get(httpanswer.FieldRateLimit) != `"default";r=33` {
		t.Errorf("acme is told %v, then %v", alone.fields(), next.fields())
	}
	// CASE 49: case makes another account.
	if r := get(t, server, "Acme"); r.header.Get(httpanswer.FieldRateLimit) != `"default";r=33` {
		t.Errorf("Acme is told %v", r.fields())
	}
}

func flat(h http.Header) []string {
	var all []string
	for name, values := range h {
		all = append(all, name, strings.Join(values, " "))
	}
	return all
}

// TestNobodyShares: whoever cannot be identified is refused, and the decider is not
// asked. Why is for the operator.
func TestNobodyShares(t *testing.T) {
	for _, test := range []struct {
		account, cost, detail string
	}{
		{"", "", "the request tells no budget: account: must have 1 to 256 bytes, has 0"},
		{strings.Repeat("a", 257), "", "the request tells no budget: account: must have 1 to 256 bytes, has 257"},
		{"a\xff", "", "the request tells no budget: account: must be UTF-8, is not at byte 1"},
		{"acme", "1.5", "the request tells no budget: the secret of X-Cost"},
	} {
		b := newBudgets(40, 5)
		var seen []decision.Answer
		server := serve(t, b, httplimit.Config{OnAnswer: func(_ *http.Request, req decision.Request, a decision.Answer) {
			if req.Key.Account != "" {
				t.Errorf("the hook is told of a budget: %+v", req)
			}
			seen = append(seen, a)
		}}, started)
		r := get(t, server, test.account, "X-Cost", test.cost)
		if r.status != 400 || r.problem(t).Detail != "The request is not valid." || len(b.requests) != 0 {
			t.Errorf("%.20q: status %d, %s, %d requests decided", test.account, r.status, r.body, len(b.requests))
		}
		if len(seen) != 1 || seen[0].Detail != test.detail {
			t.Errorf("%.20q: the operator sees %+v, want %q", test.account, seen, test.detail)
		}
	}
}

func TestCost(t *testing.T) {
	b := newBudgets(40, 5)
	server := serve(t, b, httplimit.Config{Cost: func(r *http.Request) (decision.Cost, error) {
		if r.Header.Get("X-Size") == "" {
			return decision.Cost{}, errors.New("no size")
		}
		return decision.Tokens(12), nil
	}}, started)
	if r := get(t, server, "acme", "X-Size", "big"); r.header.Get(httpanswer.FieldRateLimit) != `"default";r=28` {
		t.Errorf("12 of 40: %v", r.fields())
	}
	if r := get(t, server, "acme"); r.status != 400 || b.left("acme") != 28 {
		t.Errorf("no cost: status %d, %d left", r.status, b.left("acme"))
	}
}

// silent is a decider that answers by a function.
type silent func(context.Context) decision.Answer

func (s silent) Decide(ctx context.Context, _ decision.Request) decision.Answer { return s(ctx) }

func TestMissingAnswerIsNoPermission(t *testing.T) {
	for name, d := range map[string]silent{
		"nothing": func(context.Context) decision.Answer { return decision.Answer{} },
		"a panic": func(context.Context) decision.Answer { panic("a bug") },
		"allowed without a reason": func(context.Context) decision.Answer {
			return decision.Answer{Allowed: true}
		},
		"allowed, exhausted, and a contradiction": func(context.Context) decision.Answer {
			return decision.Answer{Allowed: true, Reason: pb.Reason_REASON_UNAVAILABLE}
		},
		"too late": func(ctx context.Context) decision.Answer {
			<-ctx.Done()
			return decision.Unavailable("the caller did not wait")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, d, httplimit.Config{Timeout: time.Millisecond, Writer: httpanswer.Writer{MaxJitter: -1}}, http.HandlerFunc(
				func(http.ResponseWriter, *http.Request) { t.Error("the handler was reached") }))
			r := get(t, server, "acme")
			if p := r.problem(t); r.status != 503 || p.Reason != "unavailable" || p.Type != httpanswer.TypeReducedCapacity || r.header.Get("Retry-After") != "1" {
				t.Errorf("status %d, %s, %v", r.status, r.body, r.fields())
			}
		})
	}
}

func TestCase43DecisionID(t *testing.T) {
	const field = "Idempotency-Key"
	tests := []struct {
		name   string
		header []string
		id     string
		detail string
	}{
		{"none", nil, "", ""},
		{"empty", []string{field, ""}, "", ""},
		{"one", []string{field, "8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324", ""},
		{"the longest", []string{field, strings.Repeat("i", 128)}, strings.Repeat("i", 128), ""},
		{"too long", []string{field, strings.Repeat("i", 129)}, "", "Idempotency-Key must have at most 128 bytes, has 129"},
		{"with a space", []string{field, "a b"}, "", "Idempotency-Key must be printable ASCII without spaces, is not at byte 1"},
		{"beyond ASCII", []string{field, "aé"}, "", "Idempotency-Key must be printable ASCII without spaces, is not at byte 1"},
		{"two", []string{field, "a", field, "a"}, "", "Idempotency-Key must be sent once"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBudgets(40, 5)
			r := get(t, serve(t, b, httplimit.Config{IDHeader: field}, started), "acme", test.header...)
			if test.detail != "" {
				if r.status != 400 || r.problem(t).Detail != test.detail || len(b.requests) != 0 {
					t.Errorf("status %d, %s, %d decided", r.status, r.body, len(b.requests))
				}
				return
			}
			if r.status != 200 || len(b.requests) != 1 || b.requests[0].ID != test.id {
				t.Errorf("status %d, decided %+v, want the ID %q", r.status, b.requests, test.id)
			}
		})
	}
	b := newBudgets(40, 5)
	get(t, serve(t, b, httplimit.Config{}, started), "acme", field, "a")
	if b.requests[0].ID != "" {
		t.Errorf("an ID that nobody configured: %q", b.requests[0].ID)
	}
}

func TestShadowAndFallbackAreVisible(t *testing.T) {
	b := newBudgets(1, 2)
	b.change = func(a *decision.Answer) { a.Allowed, a.Shadow = true, true }
	r := get(t, serve(t, b, httplimit.Config{}, started), "acme")
	if r.status != 200 || r.header.Get(httpanswer.FieldShadow) != "cost-above-capacity" || r.header.Get("Retry-After") != "" {
		t.Errorf("shadow: status %d, %v", r.status, r.fields())
	}
	b.change = func(a *decision.Answer) { *a = decision.Answer{Allowed: true, Reason: pb.Reason_REASON_FALLBACK} }
	r = get(t, serve(t, b, httplimit.Config{}, started), "acme")
	if r.status != 200 || r.header.Get(httpanswer.FieldFallback) != "?1" {
		t.Errorf("fallback: status %d, %v", r.status, r.fields())
	}
}

func TestHandlerSeesItsAnswer(t *testing.T) {
	server := serve(t, newBudgets(40, 5), httplimit.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := admission.AnswerOf(r.Context())
		if !ok || a.Remaining != 35 {
			t.Errorf("the handler sees %+v, %v", a, ok)
		}
		if _, err := httplimit.Settle(r.Context(), 1); !errors.Is(err, admission.ErrNoReservation) {
			t.Errorf("settling what was spent: %v", err)
		}
		w.Header().Set("Cache-Control", "private")
	}))
	if r := get(t, server, "acme"); r.header.Get("Cache-Control") != "private" {
		t.Errorf("the handler's own field: %v", r.fields())
	}
}

// TestWriterIsNotWrapped: what the server's ResponseWriter can do, it can do behind
// the limit.
func TestWriterIsNotWrapped(t *testing.T) {
	flushed := make(chan struct{})
	server := serve(t, newBudgets(40, 5), httplimit.Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("the writer has lost ReadFrom")
		}
		control := http.NewResponseController(w)
		io.WriteString(w, "first")
		if err := control.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		<-flushed
		conn, _, err := control.Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		conn.Close()
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Account", "acme")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(bufio.NewReader(resp.Body), first); err != nil || string(first) != "first" {
		t.Errorf("before the handler ended: %q, %v", first, err)
	}
	close(flushed)
}

func TestValidate(t *testing.T) {
	only := silent(func(context.Context) decision.Answer { return decision.Answer{} })
	tests := []struct {
		decider decision.Decider
		cfg     httplimit.Config
		want    string
	}{
		{nil, httplimit.Config{Request: identify}, "httplimit: no decider: give a limiter, or a client of one"},
		{only, httplimit.Config{}, "httplimit: no Request: without it nobody knows who asks"},
		{only, httplimit.Config{Request: identify, Mode: 3}, "httplimit: mode 3 is not known\nslots and late costs need a decision.Reserver, and httplimit_test.silent is none"},
		{only, httplimit.Config{Request: identify, ModeOf: func(*http.Request) admission.Mode { return admission.Spend }}, "httplimit: slots and late costs need a decision.Reserver, and httplimit_test.silent is none"},
		{only, httplimit.Config{Request: identify, Timeout: -1}, "httplimit: the timeout -1ns is negative"},
		{only, httplimit.Config{Request: identify, Writer: httpanswer.Writer{PolicyName: "\n"}}, "httplimit: the policy name is not printable ASCII, which is all that a structured field can carry"},
	}
	for _, test := range tests {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil || err.Error() != test.want {
					t.Errorf("New panics with %v, want %q", err, test.want)
				}
			}()
			httplimit.New(test.decider, test.cfg)
		}()
	}
}
