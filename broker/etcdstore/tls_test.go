package etcdstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tokenlease/tokenlease/broker/store"
)

// authority signs certificates for this machine's loopback.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.sign(t, "ca", template, nil)
	return a
}

// sign writes NAME.pem and NAME-key.pem.
func (a *authority) sign(t *testing.T, name string, template, parent *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+"-key.pem", "EC PRIVATE KEY", private)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// leaf is a certificate for servers and clients on loopback.
func (a *authority) leaf(t *testing.T, name string) {
	t.Helper()
	a.sign(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}, a.cert)
}

func (a *authority) clientTLS(t *testing.T, name string) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	cfg := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+"-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// secured runs an etcd which wants certificates of clients, and a password.
func secured(t *testing.T, a *authority) (endpoint string) {
	t.Helper()
	a.leaf(t, "server")
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = t.TempDir(), "panic", true
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = a.file("server.pem"), a.file("server-key.pem")
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = a.file("ca.pem"), true
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	return "https://" + etcd.Clients[0].Addr().String()
}

func TestOpenWithTLSAndPassword(t *testing.T) {
	ours := newAuthority(t, "ours")
	endpoint := secured(t, ours)
	ours.leaf(t, "broker")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: ours.clientTLS(t, "broker"), DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	steps := []func() error{
		func() error { _, err := admin.UserAdd(ctx, "root", "secret-of-root"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.UserAdd(ctx, "broker", "secret-of-broker"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "tokenlease"); return err },
		func() error {
			key, end := "/tokenlease/", store.PrefixEnd("/tokenlease/")
			_, err := admin.RoleGrantPermission(ctx, "tokenlease", key, end, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserGrantRole(ctx, "broker", "tokenlease"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}

	good := Config{Endpoints: []string{endpoint}, TLS: ours.clientTLS(t, "broker"), Username: "broker", Password: "secret-of-broker", DialTimeout: 10 * time.Second}
	s, err := Open(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustTxn(t, s, store.Txn{Then: []store.Op{put("/tokenlease/k", "v")}})
	res, err := s.Txn(ctx, store.Txn{
		If:   []store.Compare{{Key: "/tokenlease/k", Target: store.CreateRevision, Revision: 1}},
		Then: []store.Op{put("/tokenlease/k", "w")},
	})
	if err != nil || res.Succeeded {
		t.Errorf("a guard that does not hold: %+v, %v", res, err)
	}
	// A guarded read is forced through etcd's log, under the same permission.
	if _, err := s.Txn(ctx, store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: "/tokenlease/k"}}}); err != nil {
		t.Errorf("a guarded read: %v", err)
	}
	session, err := s.NewSession(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := s.Txn(ctx, store.Txn{Then: []store.Op{put("/elsewhere", "v")}}); err == nil {
		t.Error("a key outside the role was written")
	}

	theirs := newAuthority(t, "theirs")
	theirs.leaf(t, "broker")
	for name, bad := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"wrong password":    {func(c *Config) { c.Password = "guess" }, `user "broker"`},
		"no certificate":    {func(c *Config) { c.TLS = ours.clientTLS(t, "") }, endpoint},
		"unknown authority": {func(c *Config) { c.TLS = theirs.clientTLS(t, "broker") }, endpoint},
	} {
		t.Run(name, func(t *testing.T) {
			says := bad.says
			bad, change := good, bad.change
			bad.DialTimeout = 2 * time.Second
			change(&bad)
			s, err := Open(ctx, bad)
			if err == nil {
				_ = s.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "guess") || !strings.Contains(err.Error(), says) {
				t.Errorf("the error says what to check, and no secret: %v", err)
			}
			t.Log(err)
		})
	}
}

// cuttable passes connections on to an endpoint until they are cut.
type cuttable struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// before is the endpoint with a cuttable in front of it.
func (c *cuttable) before(t *testing.T, endpoint string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "https://"))
			if err != nil {
				_ = from.Close()
				continue
			}
			c.keep(from)
			c.keep(to)
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() {
					_, _ = io.Copy(way[1], way[0])
					_ = way[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.cut()
		all.Wait()
	})
	return "https://" + listener.Addr().String()
}

// What is renewed counts for the next connection: an authority that was taken out is
// not trusted, and one that has come is, though the client began without it.
func TestTLSIsRenewedWhileTheClientRuns(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	way := &cuttable{}
	endpoint := way.before(t, secured(t, ours))
	ours.leaf(t, "broker")
	theirs.leaf(t, "broker")
	var current atomic.Pointer[tls.Config]
	current.Store(ours.clientTLS(t, "broker"))
	s, err := Open(t.Context(), Config{Endpoints: []string{endpoint}, CurrentTLS: current.Load, DialTimeout: 10 * time.Second, RequestTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func() error {
		_, err := s.Txn(t.Context(), store.Txn{Then: []store.Op{put("/tokenlease/k", "v")}})
		return err
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	current.Store(theirs.clientTLS(t, "broker"))
	way.cut()
	if err := write(); err == nil {
		t.Error("an authority that was taken out is trusted on a new connection")
	}
	ours.leaf(t, "renewed")
	current.Store(ours.clientTLS(t, "renewed"))
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := write(); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("what was renewed is not taken: %v", err)
		}
	}
}
