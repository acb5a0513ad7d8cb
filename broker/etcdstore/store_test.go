package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/broker/store/storetest"
)

func compact(ctx context.Context, s store.Store, rev int64) error {
	return s.(*Store).Compact(ctx, rev)
}

func TestSuiteInProcess(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return shared.Store() },
		storetest.Options{Prefix: "suite/process/", Compact: compact})
}

func TestSuiteOverNetwork(t *testing.T) {
	s := openShared(t)
	storetest.Run(t, func(*testing.T) store.Store { return s },
		storetest.Options{Prefix: "suite/network/", Compact: compact})
}

func openShared(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Endpoints: shared.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(key, value string) store.Op {
	return store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}
}

// mustTxn runs a transaction that must not fail.
func mustTxn(t testing.TB, s *Store, txn store.Txn) store.TxnResult {
	t.Helper()
	res, err := s.Txn(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A transaction that changes nothing takes its place in the log all the same,
// whichever way its compares go, and leaves nothing behind.
func TestReadsGoThroughTheLog(t *testing.T) {
	s := shared.Store()
	rev := mustTxn(t, s, store.Txn{Then: []store.Op{put("log/owner", "me")}}).Revision
	holds := store.Compare{Key: "log/owner", Target: store.ModRevision, Revision: rev}
	fails := store.Compare{Key: "log/owner", Target: store.ModRevision, Revision: rev + 1}
	get := store.Op{Kind: store.OpGet, Key: "log/owner"}
	for name, txn := range map[string]store.Txn{
		"only a guard that holds": {If: []store.Compare{holds}},
		"only a guard that fails": {If: []store.Compare{fails}},
		"a guarded read":          {If: []store.Compare{holds}, Then: []store.Op{get}},
		"a refused read":          {If: []store.Compare{fails}, Then: []store.Op{get}},
		"a read":                  {Then: []store.Op{get}},
	} {
		before := shared.etcd.Server.CommittedIndex()
		res := mustTxn(t, s, txn)
		if after := shared.etcd.Server.CommittedIndex(); after == before {
			t.Errorf("%s: was answered without the log", name)
		}
		if res.Revision != rev {
			t.Errorf("%s: moved the revision from %d to %d", name, rev, res.Revision)
		}
	}
}

// brokenKV counts transactions and refuses them with the error after which the
// client, by its own settings, sends again.
type brokenKV struct {
	pb.UnimplementedKVServer
	txns chan struct{}
}

func (*brokenKV) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}}, nil
}

func (b *brokenKV) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	b.txns <- struct{}{}
	return nil, status.Error(codes.Unavailable, "there is no connection available")
}

func TestTxnIsSentOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kv := &brokenKV{txns: make(chan struct{}, 1000)}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, kv)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	defer server.Stop()
	s, err := Open(t.Context(), Config{Endpoints: []string{listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Op{put("k", "1")}}); err == nil {
		t.Error("no error from a server that refuses")
	}
	if n := len(kv.txns); n != 1 {
		t.Errorf("the transaction was sent %d times", n)
	}
}

// freeAddress is an address on which nobody listens, most likely.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestOpenUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	free := freeAddress(t)
	member := strings.TrimPrefix(shared.Endpoints()[0], "http://")
	const secret = "correct horse"
	cases := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nobody there", Config{Endpoints: []string{"http://" + free}}, []string{free, "connection refused", "check that etcd runs there"}},
		{"with user", Config{Endpoints: []string{"http://" + free}, Username: "u", Password: secret}, []string{free, "connection refused"}},
		{"not etcd", Config{Endpoints: []string{"http://" + silent.Addr().String()}}, []string{"does not answer"}},
		{"clear text at a TLS endpoint", Config{Endpoints: []string{"https://" + member}, TLS: &tls.Config{}}, []string{member, "TLS", "check the CA"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.DialTimeout = 300 * time.Millisecond
			_, err := Open(t.Context(), tc.cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{Endpoints: []string{"https://a:2379", "https://b:2379"}}
	if err := good.Validate(); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
	for want, cfg := range map[string]Config{
		"no endpoints":                  {},
		"no address":                    {Endpoints: []string{"https://"}},
		"not http or https":             {Endpoints: []string{"ftp://a"}},
		"mix different schemes":         {Endpoints: []string{"http://a", "https://b"}},
		"without TLS although":          {Endpoints: []string{"http://a"}, TLS: &tls.Config{}},
		"a user name without password":  {Endpoints: []string{"a:1"}, Username: "u"},
		"must not be negative":          {Endpoints: []string{"a:1"}, MaxTxnOps: -1},
		"dial timeout -1s, request tim": {Endpoints: []string{"a:1"}, DialTimeout: -time.Second},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func TestConfigHidesSecrets(t *testing.T) {
	cfg := Config{Endpoints: []string{"https://a:2379"}, Username: "u", Password: "correct horse"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, cfg); strings.Contains(shown, "horse") {
			t.Errorf("%s shows the password: %s", format, shown)
		}
	}
	if shown := cfg.LogValue().String(); strings.Contains(shown, "horse") {
		t.Errorf("the log shows the password: %s", shown)
	}
}

func TestClosedStore(t *testing.T) {
	s := openShared(t)
	session, err := s.NewSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	watch := s.Watch(t.Context(), "closed/", store.PrefixEnd("closed/"), 0)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if batch, open := <-watch; open {
		t.Errorf("the watch delivered %+v", batch)
	}
	<-session.Done()
	_, txnErr := s.Txn(t.Context(), store.Txn{Then: []store.Op{put("closed/k", "1")}})
	_, rangeErr := s.Range(t.Context(), store.RangeRequest{Key: "closed/k"})
	_, sessionErr := s.NewSession(t.Context(), time.Minute)
	_, open := <-s.Watch(t.Context(), "closed/k", "", 0)
	for _, err := range []error{txnErr, rangeErr, sessionErr, session.Close(t.Context())} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	}
	if open {
		t.Error("a watch on a closed store is open")
	}
}
