package envoy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

const (
	ok      = ratelimit.RateLimitResponse_OK
	over    = ratelimit.RateLimitResponse_OVER_LIMIT
	unknown = ratelimit.RateLimitResponse_UNKNOWN
)

const mapping = `
unmatched: deny
rules:
  - domain: api
    entries: [{key: operation, value: report.create}, {key: account}]
    account: {entry: account}
    operation: report.create
  - domain: api
    entries: [{key: account}]
    account: {entry: account}
    operation: api.any
    cost: 5
  - domain: api
    entries: [{key: by-policy}, {key: account}]
    account: {entry: account}
    operation: report.create
    cost: policy
  - domain: api
    entries: [{key: address}]
    account: {entry: address, prefix: "address:"}
    operation: api.any
  - domain: api
    entries: [{key: all}]
    account: {fixed: everybody}
    operation: {entry: all}
  - domain: llm
    entries: [{key: charge}, {key: account}]
    account: {entry: account}
    operation: llm.tokens
    late: true
  - domain: llm
    entries: [{key: ask}, {key: account}]
    account: {entry: account}
    operation: llm.tokens
`

// gateway is a served service and Envoy's generated client of it.
type gateway struct {
	t       *testing.T
	client  ratelimit.RateLimitServiceClient
	conn    *grpc.ClientConn
	metrics *prometheus.Registry
	log     *bytes.Buffer
	now     time.Time
}

// serve serves over a real listener until the test ends.
func serve(t *testing.T, decider decision.Decider, file string) *gateway {
	t.Helper()
	g := &gateway{t: t, metrics: prometheus.NewRegistry(), log: &bytes.Buffer{}, now: time.Unix(1000, 0)}
	m, err := envoy.ParseMapping("m.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	service := envoy.New(envoy.Config{
		Decider: decider, Mapping: m, Registerer: g.metrics,
		Writer: httpanswer.Writer{MaxJitter: -1},
		Logger: slog.New(slog.NewTextHandler(g.log, nil)), Now: func() time.Time { return g.now },
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- service.Serve(ctx, listener) }()
	g.conn, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	g.client = ratelimit.NewRateLimitServiceClient(g.conn)
	t.Cleanup(func() {
		g.conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// d is a descriptor of keys and values, in turn.
func d(pairs ...string) *ratelimitcommon.RateLimitDescriptor {
	out := &ratelimitcommon.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		out.Entries = append(out.Entries, &ratelimitcommon.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// hits is a descriptor with hits of its own.
func hits(n uint64, of *ratelimitcommon.RateLimitDescriptor) *ratelimitcommon.RateLimitDescriptor {
	of.HitsAddend = wrapperspb.UInt64(n)
	return of
}

func request(domain string, descriptors ...*ratelimitcommon.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: domain, Descriptors: descriptors}
}

// ask wants an answer with these codes: overall, and of each descriptor.
func (g *gateway) ask(req *ratelimit.RateLimitRequest, overall ratelimit.RateLimitResponse_Code, each ...ratelimit.RateLimitResponse_Code) *ratelimit.RateLimitResponse {
	g.t.Helper()
	resp, err := g.client.ShouldRateLimit(g.t.Context(), req)
	if err != nil {
		g.t.Fatal(err)
	}
	var got []ratelimit.RateLimitResponse_Code
	for _, st := range resp.GetStatuses() {
		got = append(got, st.GetCode())
	}
	if resp.GetOverallCode() != overall || !equal(got, each) {
		g.t.Fatalf("got %v %v, want %v %v", resp.GetOverallCode(), got, overall, each)
	}
	return resp
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// counts wants these counters of a metric: labels in braces and values, in order.
func (g *gateway) counts(name, want string) {
	g.t.Helper()
	families, err := g.metrics.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	var got strings.Builder
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != name {
				continue
			}
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+strconv.Quote(l.GetValue()))
			}
			fmt.Fprintf(&got, "%s{%s} %v\n", name, strings.Join(labels, ","), metric.GetCounter().GetValue())
		}
	}
	if got.String() != want {
		g.t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func report(account string) *ratelimitcommon.RateLimitDescriptor {
	return d("operation", "report.create", "account", account)
}

func TestCase27OneBudgetAndItsWait(t *testing.T) {
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 2, wait: 50 * time.Millisecond, window: time.Minute})
	g := serve(t, bank, mapping)
	resp := g.ask(request("api", report("acme")), ok, ok)
	st := resp.GetStatuses()[0]
	if st.GetLimitRemaining() != 1 || st.GetDurationUntilReset() != nil || st.GetCurrentLimit().GetRequestsPerUnit() != 40 ||
		st.GetCurrentLimit().GetUnit() != ratelimit.RateLimitResponse_RateLimit_MINUTE || st.GetCurrentLimit().GetName() != "report.create" {
		t.Errorf("status %v", st)
	}
	if resp.GetDynamicMetadata() != nil || resp.GetResponseHeadersToAdd() != nil {
		t.Errorf("a plain admission says more than it needs: %v", resp)
	}
	g.ask(request("api", report("acme")), ok, ok)
	resp = g.ask(request("api", report("acme")), over, over)
	if wait := resp.GetStatuses()[0].GetDurationUntilReset().AsDuration(); wait != time.Second {
		t.Errorf("the wait of 50 ms is told as %v", wait)
	}
	if got := resp.GetDynamicMetadata().GetFields()["reason"].GetStringValue(); got != "exhausted" {
		t.Errorf("reason %q", got)
	}
	g.counts("tokenlease_envoy_requests_total", `tokenlease_envoy_requests_total{domain="api",outcome="denied"} 1
tokenlease_envoy_requests_total{domain="api",outcome="ok"} 2
`)
}

func TestCase26PermanentDenialHasNoReset(t *testing.T) {
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 5, left: 5, wait: time.Second})
	g := serve(t, bank, mapping)
	resp := g.ask(request("api", hits(10, report("acme"))), over, over)
	if st := resp.GetStatuses()[0]; st.GetDurationUntilReset() != nil || st.GetLimitRemaining() != 5 {
		t.Errorf("status %v", st)
	}
	if resp.GetDynamicMetadata().GetFields()["reason"].GetStringValue() != "cost-above-capacity" {
		t.Errorf("metadata %v", resp.GetDynamicMetadata())
	}
	// The same holds if the decider says to wait.
	g = serve(t, fixed{Reason: pb.Reason_REASON_COST_ABOVE_CAPACITY, Limit: 5, HasRetry: true, RetryIn: time.Hour}, mapping)
	if st := g.ask(request("api", report("acme")), over, over).GetStatuses()[0]; st.GetDurationUntilReset() != nil {
		t.Errorf("status %v", st)
	}
}

func TestCase46DescriptorThatMatchesNothing(t *testing.T) {
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 40})
	g := serve(t, bank, mapping)
	g.ask(request("api", d("operation", "report.delete", "account", "acme-secret")), over, over)
	g.ask(request("api", report("acme"), d("operation", "report.delete")), over, unknown, over)
	g.ask(request("nowhere", report("acme")), over, over)
	for _, other := range []*ratelimitcommon.RateLimitDescriptor{
		d("operation", "report.create", "account", "acme", "plan", "free"), // one entry more
		d("account", "acme", "operation", "report.create"),                 // in another order
		d("operation", "Report.create", "account", "acme"),                 // another case
		d("operation", "report.create"),
	} {
		resp, err := g.client.ShouldRateLimit(t.Context(), request("elsewhere", other))
		if err != nil || resp.GetOverallCode() != over {
			t.Errorf("%v: %v, %v", other, resp, err)
		}
		resp, err = g.client.ShouldRateLimit(t.Context(), request("api", other))
		if err != nil || resp.GetDynamicMetadata().GetFields()["reason"].GetStringValue() != "unmatched" {
			t.Errorf("%v: %v, %v", other, resp, err)
		}
	}
	if left := bank.left("acme", "report.create"); left != 40 {
		t.Errorf("%d left: a denial spent something", left)
	}
	g.counts("tokenlease_envoy_unmatched_descriptors_total", `tokenlease_envoy_unmatched_descriptors_total{answer="deny",domain="api"} 6
tokenlease_envoy_unmatched_descriptors_total{answer="deny",domain="other"} 5
`)
	g.counts("tokenlease_envoy_requests_total", `tokenlease_envoy_requests_total{domain="api",outcome="unmatched"} 6
tokenlease_envoy_requests_total{domain="other",outcome="unmatched"} 5
`)
	// It is logged once in ten seconds, without the values.
	if n := strings.Count(g.log.String(), "matches no rule"); n != 1 || strings.Contains(g.log.String(), "acme-secret") {
		t.Errorf("log:\n%s", g.log)
	}
	g.now = g.now.Add(10 * time.Second)
	g.ask(request("api", d("x", "y")), over, over)
	if !strings.Contains(g.log.String(), "left_out=10") {
		t.Errorf("log:\n%s", g.log)
	}

	g = serve(t, bank, strings.Replace(mapping, "unmatched: deny", "unmatched: allow", 1))
	g.ask(request("api", d("operation", "report.delete")), ok, ok)
	g.ask(request("api", report("acme"), d("operation", "report.delete")), ok, ok, ok)
	g.ask(request("api", hits(41, report("acme")), d("operation", "report.delete")), over, over, ok)
	if left := bank.left("acme", "report.create"); left != 39 {
		t.Errorf("%d left, want 39", left)
	}
	g.counts("tokenlease_envoy_unmatched_descriptors_total", `tokenlease_envoy_unmatched_descriptors_total{answer="allow",domain="api"} 3
`)
	// What is refused is refused all the same.
	g.ask(request("api", d("a", "b", "a", "c")), over, over)
}

func TestHits(t *testing.T) {
	tests := []struct {
		name string
		req  *ratelimit.RateLimitRequest
		want int64 // spent
	}{
		{"unset", request("api", report("acme")), 1},
		{"of the request", &ratelimit.RateLimitRequest{Domain: "api", HitsAddend: 3, Descriptors: request("", report("acme")).GetDescriptors()}, 3},
		{"of the descriptor", &ratelimit.RateLimitRequest{Domain: "api", HitsAddend: 3, Descriptors: request("", hits(4, report("acme"))).GetDescriptors()}, 4},
		{"of the rule", request("api", d("account", "acme")), 0}, // of api.any: see below
		{"of the policy", request("api", d("by-policy", "1", "account", "acme")), 7},
		{"of both descriptors", request("api", report("acme"), hits(9, report("acme"))), 10},
		{"a query beside one that spends", request("api", hits(0, report("acme")), hits(9, report("acme"))), 9},
		{"a query behind one that spends", request("api", hits(9, report("acme")), hits(0, report("acme"))), 9},
	}
	for _, test := range tests {
		bank := newBank()
		bank.open("acme", "report.create", account{limit: 40, left: 40})
		bank.open("acme", "api.any", account{limit: 40, left: 40})
		g := serve(t, bank, mapping)
		want := make([]ratelimit.RateLimitResponse_Code, len(test.req.GetDescriptors()))
		for i := range want {
			want[i] = ok
		}
		g.ask(test.req, ok, want...)
		if spent := 40 - bank.left("acme", "report.create"); spent != test.want {
			t.Errorf("%s: spent %d, want %d", test.name, spent, test.want)
		}
		if spent := 40 - bank.left("acme", "api.any"); test.name == "of the rule" && spent != 5 {
			t.Errorf("%s: spent %d, want 5", test.name, spent)
		}
	}
}

func TestNegativeAndHugeHitsNeverMint(t *testing.T) {
	negative := hits(5, report("acme"))
	negative.IsNegativeHits = true
	negativeZero := hits(0, report("acme"))
	negativeZero.IsNegativeHits = true
	negativeUnset := report("acme")
	negativeUnset.IsNegativeHits = true
	minusOne := int64(-1)
	for _, descriptor := range []*ratelimitcommon.RateLimitDescriptor{
		negative, negativeZero, negativeUnset,
		hits(uint64(minusOne), report("acme")), hits(math.MaxInt64, report("acme")), hits(math.MaxInt64+1, report("acme")),
		hits(pb.MaxCapacityTokens+1, report("acme")),
	} {
		bank := newBank()
		bank.open("acme", "report.create", account{limit: 40, left: 30})
		g := serve(t, bank, mapping)
		g.ask(request("api", descriptor), over, over)
		g.ask(request("api", report("acme"), descriptor), over, unknown, over)
		if left := bank.left("acme", "report.create"); left != 30 || len(bank.asked) != 0 {
			t.Errorf("%v: %d left, asked %d times", descriptor, left, len(bank.asked))
		}
	}
	// Two that are possible alone, and not together.
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 30})
	g := serve(t, bank, mapping)
	g.ask(request("api", hits(pb.MaxCapacityTokens, report("acme")), hits(1, report("acme"))), over, unknown, over)
	g.ask(request("api", d("by-policy", "1", "account", "acme"), report("acme")), over, unknown, over)
	g.counts("tokenlease_envoy_refused_total", refusedCounts("hits", 2))
}

// refusedCounts are the counters of all problems, one of which is not 0.
func refusedCounts(why string, n int) string {
	var b strings.Builder
	for _, each := range []string{"ambiguous", "form", "hits", "mixed", "name", "negative", "override", "request"} {
		count := 0
		if each == why {
			count = n
		}
		b.WriteString("tokenlease_envoy_refused_total{why=\"" + each + "\"} " + string(rune('0'+count)) + "\n")
	}
	return b.String()
}

func TestAllOrNothing(t *testing.T) {
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 40})
	bank.open("acme", "api.any", account{limit: 40, left: 4, wait: 1500 * time.Millisecond})
	bank.open("everybody", "yes", account{limit: 100, left: 100})
	g := serve(t, bank, mapping)
	// In the order of the descriptors; each of them costs as its rule says.
	resp := g.ask(request("api", d("all", "yes"), d("account", "acme"), report("acme")), over, ok, over, ok)
	if wait := resp.GetStatuses()[1].GetDurationUntilReset().AsDuration(); wait != 2*time.Second {
		t.Errorf("wait %v", wait)
	}
	if resp.GetStatuses()[0].GetDurationUntilReset() != nil || resp.GetStatuses()[0].GetLimitRemaining() != 100 {
		t.Errorf("status %v", resp.GetStatuses()[0])
	}
	if bank.left("acme", "report.create") != 40 || bank.left("acme", "api.any") != 4 || bank.left("everybody", "yes") != 100 {
		t.Error("a denial spent something")
	}
	resp = g.ask(request("api", d("all", "yes"), hits(4, d("account", "acme")), report("acme")), ok, ok, ok, ok)
	if bank.left("acme", "report.create") != 39 || bank.left("acme", "api.any") != 0 || bank.left("everybody", "yes") != 99 {
		t.Error("not all was spent")
	}
	var remaining []uint32
	for _, st := range resp.GetStatuses() {
		remaining = append(remaining, st.GetLimitRemaining())
	}
	if !equal(remaining, []uint32{99, 0, 39}) {
		t.Errorf("remaining %v", remaining)
	}
	if n := len(bank.asked); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
}

func TestCase25Query(t *testing.T) {
	query := func() *ratelimit.RateLimitRequest { return request("api", hits(0, report("acme"))) }
	for _, noZero := range []bool{false, true} {
		bank := newBank()
		acc := bank.open("acme", "report.create", account{limit: 3, left: 2, noZero: noZero, hidden: 2, wait: time.Second})
		g := serve(t, bank, mapping)
		g.ask(query(), ok, ok) // although nothing of it is in the region
		acc.hidden = 0
		g.ask(query(), ok, ok)
		if bank.left("acme", "report.create") != 2 || bank.held != 0 {
			t.Errorf("no zero %v: %d left, %d held", noZero, acc.left, bank.held)
		}
		// A denied query denies the request, and nothing else of it is spent.
		bank.open("acme", "api.any", account{limit: 40, left: 40})
		acc.left = 0
		resp := g.ask(request("api", d("account", "acme"), hits(0, report("acme"))), over, unknown, over)
		if resp.GetStatuses()[1].GetDurationUntilReset().AsDuration() != time.Second {
			t.Errorf("no zero %v: status %v", noZero, resp.GetStatuses()[1])
		}
		if left := bank.left("acme", "api.any"); left != 40 {
			t.Errorf("no zero %v: %d left, want 40", noZero, left)
		}
	}
	// A decider that cannot reserve is not believed to have what it does not show.
	bank := newBank()
	acc := bank.open("acme", "report.create", account{limit: 3, left: 2})
	g := serve(t, plainDecider{bank}, mapping)
	g.ask(query(), ok, ok)
	acc.left = 0
	g.ask(query(), over, over)
	acc.left, acc.noZero = 2, true
	g.ask(query(), over, over)
}

func TestCase29HostileDescriptors(t *testing.T) {
	override := report("acme")
	override.Limit = &ratelimitcommon.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1_000_000, Unit: typepb.RateLimitUnit_SECOND}
	var many []string
	for i := range 33 {
		many = append(many, string(rune('a'+i)), "v")
	}
	tests := []struct {
		name       string
		descriptor *ratelimitcommon.RateLimitDescriptor
	}{
		{"no entries", d()},
		{"no key", d("operation", "report.create", "", "acme")},
		{"a repeated key", d("operation", "report.create", "account", "acme", "account", "evil")},
		{"many entries", d(many...)},
		{"an override", override},
		{"an empty account", report("")},
		{"a blank account", report(" ")},
		{"a blank behind", report("acme ")},
		{"a blank before", report("\u00a0acme")},
		{"a control character", report("ac\x00me")},
		{"a long account", report(strings.Repeat("a", 257))},
		{"an account of a longer prefix", d("account", "address:192.0.2.1")},
		{"the account of all", d("account", "everybody")},
		{"the account of an address", d("account", "anonymous/192.0.2.1/32")},
		{"the account of an API key", d("account", "key:x")},
		{"a long key", d(strings.Repeat("k", 257), "v")},
	}
	for _, file := range []string{mapping, strings.Replace(mapping, "unmatched: deny", "unmatched: allow", 1)} {
		bank := newBank()
		bank.open("acme", "report.create", account{limit: 40, left: 40})
		g := serve(t, bank, file)
		for _, test := range tests {
			resp, err := g.client.ShouldRateLimit(t.Context(), request("api", test.descriptor))
			if err != nil || resp.GetOverallCode() != over || resp.GetDynamicMetadata().GetFields()["reason"].GetStringValue() != "refused" {
				t.Errorf("%s: %v, %v", test.name, resp, err)
			}
		}
		if len(bank.asked) != 0 {
			t.Errorf("asked %v", bank.asked)
		}
	}
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 40})
	g := serve(t, bank, mapping)
	g.ask(request("", report("acme")), over)
	g.ask(request("api"), over)
	var crowd []*ratelimitcommon.RateLimitDescriptor
	for i := range 65 {
		crowd = append(crowd, report(string(rune('a'+i))))
	}
	g.ask(request("api", crowd...), over)
	resp, err := g.client.ShouldRateLimit(t.Context(), request("api", crowd[:17]...))
	if err != nil || resp.GetOverallCode() != over || len(resp.GetStatuses()) != 17 {
		t.Errorf("%v, %v", resp, err)
	}
	// What is not even read is an error, and no permission.
	if _, err := g.client.ShouldRateLimit(t.Context(), request("api", report(strings.Repeat("a", 10<<20)))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("10 MB: %v", err)
	}
	if _, err := g.client.ShouldRateLimit(t.Context(), request("api", report("\xff"))); err == nil {
		t.Error("invalid UTF-8 got an answer")
	}
	if len(bank.asked) != 0 {
		t.Errorf("asked %v", bank.asked)
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer decision.Answer
		want   ratelimit.RateLimitResponse_Code // UNKNOWN: an error
		reason string
		shadow bool
	}{
		{"zero", decision.Answer{}, unknown, "", false},
		{"unavailable", decision.Unavailable("x"), unknown, "", false},
		{"overloaded", decision.Answer{Reason: pb.Reason_REASON_OVERLOADED}, unknown, "", false},
		{"refresh", decision.Answer{Reason: pb.Reason_REASON_REFRESH}, unknown, "", false},
		{"of a later version", decision.Answer{Reason: 99}, unknown, "", false},
		{"contradicts itself", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED}, unknown, "", false},
		{"denies and allows", decision.Answer{Reason: pb.Reason_REASON_ALLOWED}, unknown, "", false},
		{"disabled", decision.Answer{Reason: pb.Reason_REASON_DISABLED}, over, "disabled", false},
		{"no policy", decision.Answer{Reason: pb.Reason_REASON_NO_POLICY}, over, "no-policy", false},
		{"invalid", decision.Invalid("x"), over, "invalid", false},
		{"fallback", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_FALLBACK}, ok, "fallback", false},
		{"shadow", decision.Answer{Allowed: true, Reason: pb.Reason_REASON_EXHAUSTED, Shadow: true}, ok, "exhausted", true},
	}
	for _, test := range tests {
		g := serve(t, fixed(test.answer), mapping)
		resp, err := g.client.ShouldRateLimit(t.Context(), request("api", report("acme")))
		if test.want == unknown {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v, %v", test.name, resp, err)
			}
			continue
		}
		fields := resp.GetDynamicMetadata().GetFields()
		if resp.GetOverallCode() != test.want || fields["reason"].GetStringValue() != test.reason || fields["shadow"].GetBoolValue() != test.shadow {
			t.Errorf("%s: %v, %v", test.name, resp, err)
		}
		if st := resp.GetStatuses(); len(st) != 1 || st[0].GetCode() != test.want {
			t.Errorf("%s: statuses %v", test.name, st)
		}
	}
	// Of several budgets, one that is not known settles it, whatever the others say.
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 40})
	bank.open("acme", "api.any", account{limit: 40, left: 40, dark: true})
	g := serve(t, bank, mapping)
	if _, err := g.client.ShouldRateLimit(t.Context(), request("api", report("acme"), d("account", "acme"))); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if left := bank.left("acme", "report.create"); left != 40 {
		t.Errorf("%d left", left)
	}
	// A denial that does not say of which budget is one of all.
	g = serve(t, fixed{Reason: pb.Reason_REASON_EXHAUSTED}, mapping)
	g.ask(request("api", report("acme"), d("account", "acme")), over, over, over)
	allowed := []decision.PartAnswer{{Reason: pb.Reason_REASON_ALLOWED}, {Reason: pb.Reason_REASON_ALLOWED}}
	g = serve(t, fixed{Reason: pb.Reason_REASON_EXHAUSTED, Parts: allowed}, mapping)
	g.ask(request("api", report("acme"), d("account", "acme")), over, over, over)
	// Nobody to ask.
	g = serve(t, nil, mapping)
	if _, err := g.client.ShouldRateLimit(t.Context(), request("api", report("acme"))); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

func TestLateCosts(t *testing.T) {
	charge := func(n uint64) *ratelimit.RateLimitRequest {
		return request("llm", hits(n, d("charge", "1", "account", "acme")))
	}
	tests := []struct {
		name           string
		acc            account
		plain          bool
		want           ratelimit.RateLimitResponse_Code
		left, debt     int64
		paid, owed, no string
	}{
		{"enough", account{limit: 100, left: 100}, false, ok, 70, 0, "30", "0", "0"},
		{"strict, too little", account{limit: 100, left: 20}, false, over, 0, 0, "20", "0", "10"},
		{"strict, nothing", account{limit: 100, left: 0}, false, over, 0, 0, "0", "0", "30"},
		{"strict, above the capacity", account{limit: 25, left: 25}, false, over, 0, 0, "25", "0", "5"},
		{"strict, some not shown", account{limit: 100, left: 20, hidden: 5}, false, over, 0, 0, "20", "0", "10"},
		{"strict, none of it shown", account{limit: 100, left: 29, hidden: 100}, false, over, 0, 0, "29", "0", "1"},
		{"strict, one token", account{limit: 100, left: 1, hidden: 100}, false, over, 0, 0, "1", "0", "29"},
		{"strict, in parts that the policy allows", account{limit: 100, left: 100, most: 4}, false, ok, 70, 0, "30", "0", "0"},
		{"the authority is lost after the denial", account{limit: 100, left: 20, hidden: 100, darkAfter: 2}, false, over, 4, 0, "16", "0", "14"},
		{"postpaid, too little", account{limit: 100, left: 20, postpaid: true}, false, ok, 0, 10, "20", "10", "0"},
		{"postpaid, nothing shown", account{limit: 100, left: 20, hidden: 20, postpaid: true}, false, ok, 19, 29, "1", "29", "0"},
		{"postpaid, nothing", account{limit: 100, left: 0, postpaid: true}, false, over, 0, 0, "0", "0", "30"},
		{"without reservations", account{limit: 100, left: 20}, true, over, 0, 0, "20", "0", "10"},
		{"without reservations, none of it shown", account{limit: 100, left: 20, hidden: 100}, true, over, 0, 0, "20", "0", "10"},
	}
	for _, test := range tests {
		bank := newBank()
		acc := bank.open("acme", "llm.tokens", test.acc)
		var decider decision.Decider = bank
		if test.plain {
			decider = plainDecider{bank}
		}
		g := serve(t, decider, mapping)
		resp := g.ask(charge(30), test.want, test.want)
		reason := resp.GetDynamicMetadata().GetFields()["reason"].GetStringValue()
		if short := test.want == over; short && reason != "exhausted" && reason != "cost-above-capacity" || short != strings.Contains(g.log.String(), "reason="+reason+" ") {
			t.Errorf("%s: reason %q, log:\n%s", test.name, reason, g.log)
		}
		if acc.left != test.left || acc.debt != test.debt || bank.held != 0 {
			t.Errorf("%s: %d left, %d debt, %d held, want %d, %d, 0", test.name, acc.left, acc.debt, bank.held, test.left, test.debt)
		}
		g.counts("tokenlease_envoy_late_tokens_total", `tokenlease_envoy_late_tokens_total{result="debt"} `+test.owed+`
tokenlease_envoy_late_tokens_total{result="lost"} `+test.no+`
tokenlease_envoy_late_tokens_total{result="paid"} `+test.paid+`
`)
	}
	bank := newBank()
	acc := bank.open("acme", "llm.tokens", account{limit: 100, left: 100, dark: true})
	g := serve(t, bank, mapping)
	if _, err := g.client.ShouldRateLimit(t.Context(), charge(1)); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	acc.dark = false
	before := len(bank.asked)
	g.ask(charge(0), ok, ok)
	if acc.left != 100 || len(bank.asked) != before {
		t.Errorf("%d left, asked %v: a charge of 0 is none", acc.left, bank.asked[before:])
	}
	// Together with others it would be no decision that all or nothing can be had of.
	g.ask(request("llm", d("charge", "1", "account", "acme"), d("ask", "1", "account", "acme")), over, over, over)
	if acc.left != 100 {
		t.Error("a refused request spent something")
	}
}

// TestLateCostsInParts: what is there is charged to the last token, whatever is
// there, with two decisions for each halving at most.
func TestLateCostsInParts(t *testing.T) {
	for _, cost := range []int64{1, 2, 3, 30, 64, 1000, 1<<32 - 1} {
		for _, left := range []int64{0, 1, 2, cost / 3, cost / 2, cost/2 + 1, cost - 2, cost - 1, cost} {
			if left < 0 || left > cost {
				continue
			}
			bank := newBank()
			acc := bank.open("acme", "llm.tokens", account{limit: 1 << 40, left: left, hidden: 1 << 40})
			g := serve(t, plainDecider{bank}, mapping)
			want := over
			if left == cost {
				want = ok
			}
			g.ask(request("llm", hits(uint64(cost), d("charge", "1", "account", "acme"))), want, want)
			if most := 1 + 2*(bits.Len64(uint64(cost))+1); acc.left != 0 || len(bank.asked) > most {
				t.Errorf("of %d, with %d there: %d left after %d decisions, want 0 after at most %d", cost, left, acc.left, len(bank.asked), most)
			}
		}
	}
}

// TestLateCostsHaveAnEnd: a policy that allows a token at a time is asked a bounded
// number of times, and one that denies for good once.
func TestLateCostsHaveAnEnd(t *testing.T) {
	bank := newBank()
	acc := bank.open("acme", "llm.tokens", account{limit: 1 << 40, left: 1 << 40, most: 1})
	g := serve(t, bank, mapping)
	g.ask(request("llm", hits(1<<20, d("charge", "1", "account", "acme"))), over, over)
	if n := len(bank.asked); n > 65 || acc.left == 1<<40 {
		t.Errorf("asked %d times, %d left", n, acc.left)
	}
	never := &counted{answer: decision.Answer{Reason: pb.Reason_REASON_DISABLED}}
	g = serve(t, never, mapping)
	g.ask(request("llm", hits(1<<20, d("charge", "1", "account", "acme"))), over, over)
	if n := never.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want twice", n)
	}
}

func TestCase49AccountsOfOtherCaseAreOthers(t *testing.T) {
	bank := newBank()
	bank.open("Acme", "report.create", account{limit: 1, left: 1})
	bank.open("acme", "report.create", account{limit: 1, left: 1})
	g := serve(t, bank, mapping)
	g.ask(request("api", report("Acme")), ok, ok)
	g.ask(request("api", report("acme")), ok, ok)
	g.ask(request("api", report("acme")), over, over)
	g.ask(request("api", report("Acme")), over, over)
}

func TestAddressesHaveTheAccountsOfOtherSurfaces(t *testing.T) {
	name := clientkey.AccountOf(netip.MustParsePrefix("192.0.2.0/24"))
	bank := newBank()
	bank.open(name, "read", account{limit: 1, left: 1})
	g := serve(t, bank, `rules:
  - domain: api
    entries: [{key: masked_remote_address}]
    account: {entry: masked_remote_address, prefix: anonymous/}
    operation: read
`)
	g.ask(request("api", d("masked_remote_address", "192.0.2.0/24")), ok, ok)
	g.ask(request("api", d("masked_remote_address", "192.0.2.0/24")), over, over)
}

// TestCase33TenantsSeeOnlyThemselves: neither an answer nor a metric tells one account
// anything of another, and the log has no account at all.
func TestCase33TenantsSeeOnlyThemselves(t *testing.T) {
	bank := newBank()
	bank.open("tenant-a", "report.create", account{limit: 111, left: 110})
	bank.open("tenant-b", "report.create", account{limit: 222, left: 0, wait: time.Second})
	g := serve(t, bank, strings.Replace(mapping, "unmatched: deny", "unmatched: deny\nresponse-headers: true", 1))
	for _, req := range []*ratelimit.RateLimitRequest{
		request("api", report("tenant-a")), request("api", report("tenant-b")),
		request("api", d("account", "tenant-a", "account", "tenant-b")), request("tenant-b", report("tenant-a")),
	} {
		resp, err := g.client.ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		text := resp.String()
		if strings.Contains(text, "tenant") || strings.Contains(text, "111") && strings.Contains(text, "222") {
			t.Errorf("%v: %s", req, text)
		}
	}
	families, err := g.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if text := metric.String(); strings.Contains(text, "tenant") || strings.Contains(text, "report") {
				t.Errorf("%s: %s", family.GetName(), text)
			}
		}
	}
	if strings.Contains(g.log.String(), "tenant-a") {
		t.Errorf("log:\n%s", g.log)
	}
}

func TestResponseHeaders(t *testing.T) {
	bank := newBank()
	bank.open("acme", "report.create", account{limit: 40, left: 1, wait: 1500 * time.Millisecond, window: 2 * time.Second})
	bank.open("everybody", "yes", account{limit: 100, left: 77})
	g := serve(t, bank, strings.Replace(mapping, "unmatched: deny", "unmatched: deny\nresponse-headers: true", 1))
	headers := func(resp *ratelimit.RateLimitResponse) string {
		var lines []string
		for _, h := range resp.GetResponseHeadersToAdd() {
			lines = append(lines, h.GetKey()+": "+h.GetValue())
		}
		return strings.Join(lines, "\n")
	}
	// The shared budget stands first, and its numbers are not told.
	got := headers(g.ask(request("api", d("all", "yes"), report("acme")), ok, ok, ok))
	if want := "cache-control: no-store\nratelimit: \"default\";r=0\nratelimit-policy: \"default\";q=40;w=2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = headers(g.ask(request("api", d("all", "yes"), report("acme")), over, ok, over))
	if want := "cache-control: no-store\nratelimit: \"default\";r=0;t=2\nratelimit-policy: \"default\";q=40;w=2\nretry-after: 2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = headers(g.ask(request("api", hits(101, d("all", "yes"))), over, over))
	if want := "cache-control: no-store"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNumbersBeyondEnvoys(t *testing.T) {
	g := serve(t, fixed{Allowed: true, Reason: pb.Reason_REASON_ALLOWED, Limit: 1 << 40, Remaining: 1 << 39, Window: 90 * time.Second}, mapping)
	st := g.ask(request("api", report("acme")), ok, ok).GetStatuses()[0]
	if st.GetLimitRemaining() != math.MaxUint32 || st.GetCurrentLimit().GetRequestsPerUnit() != math.MaxUint32 ||
		st.GetCurrentLimit().GetUnit() != ratelimit.RateLimitResponse_RateLimit_UNKNOWN {
		t.Errorf("status %v", st)
	}
}

func TestHealth(t *testing.T) {
	g := serve(t, newBank(), mapping)
	client := healthpb.NewHealthClient(g.conn)
	for _, name := range []string{"", "envoy.service.ratelimit.v3.RateLimitService"} {
		resp, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, resp, err)
		}
	}
}

func TestServeSaysWhyItFailed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := envoy.New(envoy.Config{}).Serve(t.Context(), listener); err == nil {
		t.Error("served on a closed listener")
	}
}
