package tlsfiles_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
)

// disk is a directory with the files of a server.
type disk struct {
	t   *testing.T
	dir string
}

func (d disk) path(name string) string { return filepath.Join(d.dir, name) }

func (d disk) write(name string, data ...[]byte) {
	d.t.Helper()
	var all []byte
	for _, part := range data {
		all = append(all, part...)
	}
	if err := os.WriteFile(d.path(name), all, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// writePair writes a certificate and its key.
func (d disk) writePair(pair *localca.Pair) {
	d.write("own.pem", pair.CertificatePEM)
	d.write("own-key.pem", pair.KeyPEM)
}

func (d disk) config() tlsfiles.Config {
	return tlsfiles.Config{Use: "server", CertFile: d.path("own.pem"), KeyFile: d.path("own-key.pem"), CAFile: d.path("ca.pem")}
}

func newAuthority(t *testing.T, name string) *localca.Authority {
	t.Helper()
	ca, err := localca.New(name, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *localca.Authority, req localca.Request) *localca.Pair {
	t.Helper()
	pair, err := ca.Issue(req)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// newDisk has files that are right.
func newDisk(t *testing.T) (disk, *localca.Authority) {
	t.Helper()
	d, ca := disk{t, t.TempDir()}, newAuthority(t, "first")
	d.write("ca.pem", ca.CertificatePEM)
	d.writePair(issue(t, ca, localca.Request{CommonName: "first", Hosts: []string{"server"}}))
	return d, ca
}

// gauges are the values of the metrics without labels but the use.
func gauges(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[strings.TrimPrefix(f.GetName(), "tokenlease_tls_")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

// settle has the files looked at twice, as a change needs it.
func settle(files *tlsfiles.Files) error {
	_ = files.Reload()
	return files.Reload()
}

// A change that is not right is not taken, whatever is wrong with it; it is counted
// once, and the files come into force when they are.
func TestWrongFilesAreNotTaken(t *testing.T) {
	d, ca := newDisk(t)
	reg := prometheus.NewRegistry()
	cfg := d.config()
	cfg.RolesFile, cfg.Registerer = d.path("roles.yaml"), reg
	d.write("roles.yaml", []byte("peers:\n  - {name: 'cn:anna', roles: [operator]}\n"))
	files, err := tlsfiles.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	expires, trust := files.Expires(), files.Trust()
	next := issue(t, ca, localca.Request{CommonName: "next", Hosts: []string{"server"}, Life: time.Hour})
	expired := issue(t, ca, localca.Request{CommonName: "expired", Life: -time.Hour})
	first := map[string][]byte{}
	for _, name := range []string{"own.pem", "own-key.pem", "ca.pem", "roles.yaml"} {
		if first[name], err = os.ReadFile(d.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	failures := 0.0
	for _, test := range []struct {
		what, name, want string
		data             []byte // nil: the file is gone
	}{
		{"the new certificate is there before its key", "own.pem", "tls: private key does not match public key", next.CertificatePEM},
		{"half of the certificate is there", "own.pem", "tls: failed to find any PEM data in certificate input", next.CertificatePEM[:100]},
		{"the certificate is gone", "own.pem", "no such file or directory", nil},
		{"the authorities are empty", "ca.pem", "ca.pem: has no certificate in PEM form", []byte("# none\n")},
		{"the second authority is half there", "ca.pem", "ca.pem: what follows certificate 1 is broken: is the file complete?", append(append([]byte{}, ca.CertificatePEM...), next.CertificatePEM[:200]...)},
		{"an authority in the middle is broken", "ca.pem", "ca.pem: what follows certificate 1 is broken: is the file complete?", slices.Concat(ca.CertificatePEM, bytes.Replace(next.CertificatePEM, []byte("M"), []byte("*"), 1), ca.CertificatePEM)},
		{"a key is among the authorities", "ca.pem", `ca.pem: has a "PRIVATE KEY", where only the certificates of authorities belong`, append(append([]byte{}, ca.CertificatePEM...), ca.KeyPEM...)},
		{"a certificate is among the authorities", "ca.pem", `ca.pem: certificate 2, of "CN=next", is not that of an authority`, append(append([]byte{}, ca.CertificatePEM...), next.CertificatePEM...)},
		{"a role is mistyped", "roles.yaml", `roles.yaml:2: peers[0].roles[0]: is "operater": did you mean operator?`, []byte("peers:\n  - {name: 'cn:anna', roles: [operater]}\n")},
	} {
		if test.data == nil {
			if err := os.Remove(d.path(test.name)); err != nil {
				t.Fatal(err)
			}
		} else {
			d.write(test.name, test.data)
		}
		failures++
		for range 3 { // it is looked at again and again, and counted once
			if err := settle(files); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", test.what, err, test.want)
			}
		}
		if files.Expires() != expires || files.Trust() != trust {
			t.Fatalf("%s: it is in force", test.what)
		}
		if got := gauges(t, reg); got["reload_failures_total"] != failures || got["reload_ok"] != 0 || got["certificate_expires_timestamp_seconds"] != float64(expires.Unix()) {
			t.Errorf("%s: %v, want %v failures", test.what, got, failures)
		}
		d.write(test.name, first[test.name])
		if err := settle(files); err != nil {
			t.Errorf("%s, and it is undone: %v", test.what, err)
		}
		expires, trust = files.Expires(), files.Trust()
		if got := gauges(t, reg); got["reload_ok"] != 1 {
			t.Errorf("%s, and it is undone: %v", test.what, got)
		}
	}
	d.writePair(expired)
	if err := settle(files); err == nil || !strings.Contains(err.Error(), "own.pem: the certificate has expired at "+expired.Certificate.NotAfter.UTC().Format(time.RFC3339)+": renew it") {
		t.Errorf("an expired certificate: %v", err)
	}
	if err := files.Retry(); err == nil {
		t.Error("an operator who asks again is not told")
	}
	if got := gauges(t, reg)["reload_failures_total"]; got != failures+2 {
		t.Errorf("%v failures, want %v: each time that an operator asks counts", got, failures+2)
	}
	d.writePair(next)
	if err := settle(files); err != nil || !files.Expires().Equal(next.Certificate.NotAfter) {
		t.Errorf("the renewal is whole: %v, expires %v", err, files.Expires())
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	d, ca := newDisk(t)
	expired := issue(t, ca, localca.Request{Life: -time.Hour})
	d.write("expired.pem", expired.CertificatePEM)
	d.write("expired-key.pem", expired.KeyPEM)
	for _, test := range []struct {
		change func(*tlsfiles.Config)
		want   string
	}{
		{func(c *tlsfiles.Config) { c.KeyFile = "" }, "tlsfiles: a certificate and its key need each other"},
		{func(c *tlsfiles.Config) { c.CAFile = d.path("none") }, "open " + d.path("none") + ": no such file or directory"},
		{func(c *tlsfiles.Config) { c.KeyFile = d.path("own.pem") }, d.path("own.pem") + " and " + d.path("own.pem") + ": tls: found a certificate rather than a key in the PEM for the private key"},
		{func(c *tlsfiles.Config) { c.CertFile, c.KeyFile = d.path("expired.pem"), d.path("expired-key.pem") }, d.path("expired.pem") + ": the certificate has expired at " + expired.Certificate.NotAfter.UTC().Format(time.RFC3339) + ": renew it"},
	} {
		cfg := d.config()
		test.change(&cfg)
		if _, err := tlsfiles.Open(cfg); err == nil || err.Error() != test.want {
			t.Errorf("got %v\nwant %s", err, test.want)
		}
	}
	// A client may do without a certificate, and without authorities of its own.
	files, err := tlsfiles.Open(tlsfiles.Config{Use: "client"})
	if err != nil || !files.Expires().IsZero() || files.Trust().Authorities != nil {
		t.Errorf("a client without files: %v", err)
	}
}

// While the own certificate on disk is not right, an authority that was taken out is
// not trusted any more, and while the authorities are not right a renewal is taken.
func TestCase55RevocationNeedsNoCertificate(t *testing.T) {
	d, ca := newDisk(t)
	stolen := newAuthority(t, "stolen")
	d.write("ca.pem", ca.CertificatePEM, stolen.CertificatePEM)
	reg := prometheus.NewRegistry()
	cfg := d.config()
	cfg.Registerer = reg
	files, err := tlsfiles.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	expires := files.Expires()
	d.writePair(issue(t, ca, localca.Request{Hosts: []string{"server"}, Life: -time.Hour}))
	if err := settle(files); err == nil {
		t.Fatal("an expired certificate was taken")
	}
	for _, broken := range []func(){func() {}, func() {
		if err := os.Remove(d.path("own.pem")); err != nil {
			t.Fatal(err)
		}
		d.write("ca.pem", ca.CertificatePEM, stolen.CertificatePEM)
		_ = settle(files)
	}} {
		broken()
		d.write("ca.pem", ca.CertificatePEM)
		if err := settle(files); err == nil || !files.Trust().Authorities.Equal(ca.Pool()) || files.Expires() != expires {
			t.Errorf("the stolen authority is still trusted, %v", err)
		}
	}
	if got := gauges(t, reg); got["reload_failures_total"] != 2 || got["reload_ok"] != 0 {
		t.Errorf("%v, want a failure for each certificate", got)
	}
	trust := files.Trust()
	d.write("ca.pem", []byte("none"))
	renewed := issue(t, ca, localca.Request{Hosts: []string{"server"}, Life: time.Hour})
	d.writePair(renewed)
	if err := settle(files); err == nil || !files.Expires().Equal(renewed.Certificate.NotAfter) || files.Trust() != trust {
		t.Errorf("the renewal is not in force: %v", err)
	}
}

// A file of roles that is seen before its last line was written trusts no more than
// the whole one, for no moment.
func TestHalfWrittenRolesAreNotTaken(t *testing.T) {
	d, ca := newDisk(t)
	peers, domains := []byte("peers:\n  - {name: 'cn:anna', roles: [operator]}\n"), []byte("trust-domains: [prod.example.org]\n")
	d.write("roles.yaml", peers, domains)
	cfg := d.config()
	cfg.RolesFile = d.path("roles.yaml")
	files, err := tlsfiles.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mallory := issue(t, ca, localca.Request{URIs: []string{"spiffe://test.example.org/tokenlease/operator/mallory"}})
	roles := func() identity.Roles { return identity.Identify(mallory.Certificate, files.Trust().Mapping).Roles }
	for range 3 { // each write is seen once before it ends
		d.write("roles.yaml", peers)
		_ = files.Reload()
		if got := roles(); got != 0 {
			t.Errorf("half a file gives another trust domain the role %v", got)
		}
		d.write("roles.yaml", peers, domains)
		_ = files.Reload()
	}
	d.write("roles.yaml", peers)
	if err := settle(files); err != nil || roles() != identity.Operator {
		t.Errorf("a file that stays so is not taken: %v, %v", err, roles())
	}
}
