package broker

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/edge"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// patience bounds every wait of these tests; none of them waits for time to pass.
const patience = 30 * time.Second

// member is the etcd that the tests of this package share, each under a prefix
// of its own. It is started by the first that needs it.
var member struct {
	once sync.Once
	dir  string
	etcd *etcdstore.Embedded
	err  error
}

func etcd(t testing.TB) *etcdstore.Embedded {
	t.Helper()
	member.once.Do(func() {
		if member.dir, member.err = os.MkdirTemp("", "broker"); member.err == nil {
			member.etcd, member.err = etcdstore.StartEmbedded(context.Background(), etcdstore.EmbeddedConfig{Dir: member.dir, UnsafeNoFsync: true})
		}
	})
	if member.err != nil {
		t.Fatal(member.err)
	}
	return member.etcd
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if member.etcd != nil {
		if err := member.etcd.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(member.dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// onEachStore runs a test on embedded etcd and on the store in memory.
func onEachStore(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Helper()
	t.Run("etcd", func(t *testing.T) { test(t, etcd(t).Store()) })
	t.Run("memory", func(t *testing.T) { test(t, store.NewMemory()) })
}

// inProcess is a network without connections, for tests on simulated time: a
// request is a call of the handler. It carries no streams.
type inProcess struct{ handlers sync.Map }

func (p *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	handler, ok := p.handlers.Load(req.URL.Host)
	if !ok {
		return nil, fmt.Errorf("dial %s: connection refused", req.URL.Host)
	}
	answer := httptest.NewRecorder()
	handler.(http.Handler).ServeHTTP(answer, req)
	return answer.Result(), nil
}

// site is one cluster under test.
type site struct {
	t      testing.TB
	ctx    context.Context //nolint:containedctx // bounds every wait of the test
	store  store.Store
	layout record.Layout
	shards uint32
	client *http.Client
	local  *inProcess // nil: loopback
}

// newSite is a cluster whose brokers are servers on loopback.
func newSite(t testing.TB, st store.Store, shards uint32) *site {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &site{t: t, ctx: ctx, store: st, layout: layoutOf(t), shards: shards, client: &http.Client{Transport: transport}}
}

// newLocalSite is a cluster for a bubble of package synctest, where time passes
// when everybody waits.
func newLocalSite(t testing.TB, st store.Store, shards uint32) *site {
	local := &inProcess{}
	return &site{
		t: t, ctx: t.Context(), store: st, layout: layoutOf(t), shards: shards,
		client: &http.Client{Transport: local}, local: local,
	}
}

func layoutOf(t testing.TB) record.Layout {
	return record.NewLayout("/" + strings.ReplaceAll(t.Name(), "/", ".") + "-" + randomID())
}

// node is one broker with its server and clients of it.
type node struct {
	*Broker
	site   *site
	url    string
	broker tokenleasev1connect.BrokerClient
	admin  tokenleasev1connect.AdminClient

	runs    sync.WaitGroup
	running bool
	cancel  context.CancelFunc
	halted  sync.Once
	close   func()
}

// serve makes a broker that answers requests but owns nothing yet.
func (s *site) serve(id string, change ...func(*Config)) *node {
	s.t.Helper()
	n := &node{site: s, url: "http://" + id, cancel: func() {}, close: func() {}}
	mux := http.NewServeMux()
	if s.local != nil {
		s.local.handlers.Store(id, mux)
	} else {
		n.listen(mux)
	}
	cfg := Config{
		Store: s.store, Prefix: s.layout.Prefix(), Shards: s.shards, ID: id, AdvertiseURL: n.url, HTTPClient: s.client,
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if n.Broker, err = New(s.ctx, cfg); err != nil {
		s.t.Fatal(err)
	}
	n.Mount(mux, edge.Options())
	n.broker = tokenleasev1connect.NewBrokerClient(s.client, n.url)
	n.admin = tokenleasev1connect.NewAdminClient(s.client, n.url)
	s.t.Cleanup(n.stop)
	return n
}

// listen serves on a port of loopback.
func (n *node) listen(handler http.Handler) {
	n.site.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.site.t.Fatal(err)
	}
	n.url = "http://" + listener.Addr().String()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: patience}
	n.runs.Go(func() { _ = server.Serve(listener) })
	n.close = func() { _ = server.Close() }
}

// start makes a broker and runs it.
func (s *site) start(id string, change ...func(*Config)) *node {
	s.t.Helper()
	n := s.serve(id, change...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	n.cancel, n.running = cancel, true
	n.runs.Go(func() { _ = n.Run(ctx) })
	return n
}

// ready waits until every shard has an owner.
func (n *node) ready() *node {
	n.site.t.Helper()
	ctx, cancel := context.WithTimeout(n.site.ctx, patience)
	defer cancel()
	if err := n.WaitReady(ctx); err != nil {
		n.site.t.Fatalf("not every shard has an owner: %v", err)
	}
	return n
}

// stop ends the broker in order and then its server.
func (n *node) stop() {
	n.halted.Do(func() {
		n.cancel()
		if n.running {
			<-n.ownership.ended // requests are answered until then
		}
		n.close()
		n.runs.Wait()
	})
}

// own takes every shard without a loop that would notice anything: a broker
// whose session goroutine is stuck.
func (n *node) own() {
	n.site.t.Helper()
	session, err := n.cfg.Store.NewSession(n.site.ctx, DefaultSessionTTL)
	if err != nil {
		n.site.t.Fatal(err)
	}
	n.ownership.session = session
	owners := map[uint32]owned{}
	for id := range n.Shards() {
		if err := n.ownership.acquire(n.site.ctx, id, owners); err != nil {
			n.site.t.Fatal(err)
		}
	}
	n.ownership.publish(owners)
	n.cancel = func() {
		n.ownership.giveUpAll()
		close(n.ownership.ended)
	}
}

// expire ends the node's session in the store, which the node does not notice.
func (n *node) expire() {
	n.site.t.Helper()
	if err := n.ownership.session.Close(n.site.ctx); err != nil {
		n.site.t.Fatal(err)
	}
}

const operation = "report.create"

// bucket is a policy of the operation; perSecond 0 never refills.
func bucket(capacity, perSecond int64) *pb.Policy {
	rule := &pb.TokenBucket{CapacityTokens: capacity, RefillTokens: perSecond}
	if perSecond > 0 {
		rule.RefillIntervalNs = int64(time.Second)
	}
	return &pb.Policy{Operation: operation, Rule: &pb.Policy_TokenBucket{TokenBucket: rule}, DefaultCostTokens: 1}
}

// apply puts policies in force in the store. Shards hear of it later.
func (n *node) apply(policies ...*pb.Policy) *pb.ApplyPoliciesResponse {
	n.site.t.Helper()
	resp, err := n.admin.ApplyPolicies(n.site.ctx, connect.NewRequest(&pb.ApplyPoliciesRequest{
		Policies: policies, AppliedBy: "ann", Because: "test",
	}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg
}

// holder is a limiter as far as the broker knows one.
type holder struct {
	node     *node
	name     *pb.Holder
	epoch    uint64
	sequence uint64
	heads    map[uint32]int64
}

// join registers the first epoch of a holder, or the next after epoch.
func (n *node) join(region, instance string, replaces ...uint64) *holder {
	n.site.t.Helper()
	h := &holder{node: n, name: &pb.Holder{Region: region, Instance: instance}, heads: map[uint32]int64{}}
	req := &pb.RegisterRequest{Holder: h.name, StartNonce: randomID()}
	if len(replaces) > 0 {
		req.ReplacesEpoch = replaces[0]
	}
	resp, err := n.broker.Register(n.site.ctx, connect.NewRequest(req))
	if err != nil || !resp.Msg.GetRegistered() {
		n.site.t.Fatalf("register %v: %v, %v", h.name, resp, err)
	}
	h.epoch = resp.Msg.GetCurrentEpoch()
	return h
}

// at is the same holder, talking to another broker.
func (h *holder) at(n *node) *holder {
	other := *h
	other.node = n
	return &other
}

func key(account string) *pb.BudgetKey { return &pb.BudgetKey{Account: account, Operation: operation} }

func (h *holder) shardOf(account string) uint32 {
	return lease.ShardOf(lease.Key{Account: account, Operation: operation}, h.node.Shards())
}

// accountIn is an account whose budget is in the shard.
func accountIn(shard, shards uint32) string {
	for i := 0; ; i++ {
		account := fmt.Sprintf("account-%d", i)
		if lease.ShardOf(lease.Key{Account: account, Operation: operation}, shards) == shard {
			return account
		}
	}
}

// request is an empty Sync for the account's shard.
func (h *holder) request(account string) *pb.SyncRequest {
	shard := h.shardOf(account)
	return &pb.SyncRequest{ClusterId: h.node.ClusterID(), Holder: h.name, Epoch: h.epoch, Shard: shard, HighestHead: h.heads[shard]}
}

// asking is a Sync that wants a level of credit, and needs the same.
func (h *holder) asking(account string, tokens int64, grantID ...string) *pb.SyncRequest {
	h.sequence++
	req := h.request(account)
	report := &pb.BudgetReport{Key: key(account), Sequence: h.sequence, WantTokens: tokens, NeedTokens: tokens}
	if len(grantID) > 0 {
		report.GrantId = grantID[0]
	}
	req.Budgets = []*pb.BudgetReport{report}
	return req
}

// closing is a Sync that ends a grant.
func (h *holder) closing(account, grantID string, spent, returned int64) *pb.SyncRequest {
	req := h.request(account)
	req.Closes = []*pb.GrantAccount{{GrantId: grantID, SpentTokens: spent, ReturnedTokens: returned, Key: key(account)}}
	return req
}

// send is one attempt.
func (h *holder) send(req *pb.SyncRequest) (*pb.SyncResponse, error) {
	ctx, cancel := context.WithTimeout(h.node.site.ctx, patience)
	defer cancel()
	resp, err := h.node.broker.Sync(ctx, connect.NewRequest(proto.CloneOf(req)))
	if err != nil {
		return nil, err
	}
	h.heads[req.GetShard()] = max(h.heads[req.GetShard()], resp.Msg.GetHead())
	return resp.Msg, nil
}

// sync is send, where an error fails the test.
func (h *holder) sync(req *pb.SyncRequest) *pb.SyncResponse {
	h.node.site.t.Helper()
	resp, err := h.send(req)
	if err != nil {
		h.node.site.t.Fatalf("sync: %v", err)
	}
	return resp
}

// insist is sync that asks again while the broker is unavailable.
func (h *holder) insist(req *pb.SyncRequest) *pb.SyncResponse {
	h.node.site.t.Helper()
	for {
		resp, err := h.send(req)
		if err == nil {
			return resp
		}
		if code := connect.CodeOf(err); code != connect.CodeUnavailable {
			h.node.site.t.Fatalf("sync: %v", err)
		}
		if h.node.site.ctx.Err() != nil {
			h.node.site.t.Fatal("waited in vain")
		}
	}
}

// ask wants and needs a level of credit of one budget.
func (h *holder) ask(account string, tokens int64, grantID ...string) *pb.BudgetAnswer {
	h.node.site.t.Helper()
	return h.sync(h.asking(account, tokens, grantID...)).GetBudgets()[0]
}

// hears asks for nothing until the account's shard has the version of the policy.
func (h *holder) hears(account string, version int64) *holder {
	h.node.site.t.Helper()
	for {
		answer := h.insist(h.asking(account, 0)).GetBudgets()[0]
		if answer.GetPolicy().GetVersion() >= version {
			return h
		}
	}
}

// ledger is a budget as it is stored, checked, or nil without a record.
func (s *site) ledger(account string) *lease.Ledger {
	s.t.Helper()
	k := lease.Key{Account: account, Operation: operation}
	shard := lease.ShardOf(k, s.shards)
	at := s.layout.Budget(shard, k)
	kvs := s.keys(at, at+"\x00")
	if len(kvs) == 0 {
		return nil
	}
	budget, err := record.Decode[record.Budget](kvs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	var grants []record.Grant
	from, end := record.All(s.layout.Grants(shard))
	for _, kv := range s.keys(from, end) {
		if slices.Contains(budget.Grants, strings.TrimPrefix(kv.Key, s.layout.Grants(shard))) {
			g, err := record.Decode[record.Grant](kv)
			if err != nil {
				s.t.Fatal(err)
			}
			grants = append(grants, g)
		}
	}
	l, err := budget.Ledger(grants)
	if err != nil {
		s.t.Fatal(err)
	}
	return &l
}

// keys reads the store.
func (s *site) keys(from, end string) []store.KeyValue {
	s.t.Helper()
	res, err := s.store.Range(s.ctx, store.RangeRequest{Key: from, End: end})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.KVs
}

// requireBalance checks what is available and reserved in the store.
func (s *site) requireBalance(account string, available, reserved int64) {
	s.t.Helper()
	l := s.ledger(account)
	if l == nil {
		s.t.Fatalf("no record of %s", account)
	}
	if l.Available != available || l.Reserved() != reserved {
		s.t.Errorf("%v, want available %d, reserved %d", l, available, reserved)
	}
}

func requireCode(t testing.TB, err error, want connect.Code) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != want {
		t.Errorf("error %v, want code %v", err, want)
	}
}

// policiesChanged makes a shard read the policies again, where no watch does.
func policiesChanged(s *shard.Shard, _ shard.Moment) { s.PoliciesChanged() }

func newBrokerClient(n *node, opts ...connect.ClientOption) tokenleasev1connect.BrokerClient {
	return tokenleasev1connect.NewBrokerClient(n.site.client, n.url, opts...)
}

// passedOn is how many requests the node has forwarded.
func (n *node) passedOn() float64 {
	var m dto.Metric
	if err := n.obs.forwarded.Write(&m); err != nil {
		n.site.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
