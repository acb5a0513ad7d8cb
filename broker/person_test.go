package broker

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/proto/edge"
	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// guarded serves a node over mutual TLS as well, and makes clients with names.
func (n *node) guarded() (as func(uri string) tokenleasev1connect.AdminClient) {
	t := n.site.t
	t.Helper()
	ca, err := localca.New("test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(req localca.Request) tls.Certificate {
		pair, err := ca.Issue(req)
		if err != nil {
			t.Fatal(err)
		}
		return pair.TLS()
	}
	trust := &identity.Trust{Authorities: ca.Pool()}
	guard := identity.NewGuard(identity.Config{Trust: func() *identity.Trust { return trust }})
	mux := http.NewServeMux()
	n.Mount(mux, connect.WithInterceptors(guard.Interceptor()), edge.Options())
	server := httptest.NewUnstartedServer(guard.Handler(mux))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{issue(localca.Request{Hosts: []string{"127.0.0.1"}})}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return func(uri string) tokenleasev1connect.AdminClient {
		transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool(), Certificates: []tls.Certificate{issue(localca.Request{URIs: []string{uri}, Life: time.Hour})}}}
		t.Cleanup(transport.CloseIdleConnections)
		return tokenleasev1connect.NewAdminClient(&http.Client{Transport: transport}, server.URL)
	}
}

const operatorURI = "spiffe://example.org/tokenlease/operator/anna"

func TestWhoAmI(t *testing.T) {
	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	n := newSite(t, store.NewMemory(), 1).serve("a", func(cfg *Config) { cfg.CertificateExpires = func() time.Time { return ends } })
	ask := func(client tokenleasev1connect.AdminClient) *pb.WhoAmIResponse {
		t.Helper()
		resp, err := client.WhoAmI(t.Context(), connect.NewRequest(&pb.WhoAmIRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	anybody := ask(n.admin)
	if anybody.GetName() != "" || anybody.GetVerified() || len(anybody.GetRoles()) > 0 || anybody.GetCertificateExpiresUnixMs() != 0 || !slices.Contains(anybody.GetMethods(), "ApplyPolicies") {
		t.Errorf("without certificates: %v", anybody)
	}
	if got := anybody.GetServerCertificateExpiresUnixMs(); got != ends.UnixMilli() {
		t.Errorf("the server's certificate ends at %d, want %d", got, ends.UnixMilli())
	}
	as := n.guarded()
	viewer := ask(as("spiffe://example.org/tokenlease/viewer/v"))
	if viewer.GetName() != "spiffe://example.org/tokenlease/viewer/v" || !viewer.GetVerified() || !slices.Equal(viewer.GetRoles(), []string{"viewer"}) ||
		slices.Contains(viewer.GetMethods(), "ApplyPolicies") || !slices.Contains(viewer.GetMethods(), "ListGrants") {
		t.Errorf("a viewer: %v", viewer)
	}
	if left := time.Until(time.UnixMilli(viewer.GetCertificateExpiresUnixMs())); left <= 0 || left > time.Hour {
		t.Errorf("the viewer's certificate is told to end in %v", left)
	}
	stranger := ask(as("spiffe://example.org/ns/a/sa/b"))
	if stranger.GetName() != "spiffe://example.org/ns/a/sa/b" || len(stranger.GetRoles()) > 0 || !slices.Equal(stranger.GetMethods(), []string{"WhoAmI"}) {
		t.Errorf("a certificate without a role: %v", stranger)
	}
}

// What an operator does is recorded under the name in the certificate, whatever the
// request says; without certificates it is the caller's word, and marked as such.
func TestChangesAreRecordedUnderTheVerifiedName(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	as := n.guarded()
	for i, test := range []struct {
		client   tokenleasev1connect.AdminClient
		by       string
		verified bool
	}{{as(operatorURI), operatorURI, true}, {n.admin, "bob", false}} {
		declared, err := test.client.DeclareRestore(t.Context(), connect.NewRequest(&pb.DeclareRestoreRequest{
			ReplacedGeneration: s.generation(), Nonce: "0123456789abcde" + string(rune('a'+i)), DeclaredBy: "bob", Because: "test",
		}))
		if err != nil {
			t.Fatal(err)
		}
		attested, err := test.client.AttestRestore(t.Context(), connect.NewRequest(&pb.AttestRestoreRequest{
			Generation: declared.Msg.GetRestore().GetGeneration(), AttestedBy: "bob", Because: "test",
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := attested.Msg.GetRestore(); got.GetDeclaredBy() != test.by || got.GetAttestedBy() != test.by {
			t.Errorf("declared by %q and attested by %q, want %q", got.GetDeclaredBy(), got.GetAttestedBy(), test.by)
		}
		recorded := 0
		from, end := record.All(s.layout.Audits())
		for _, kv := range s.keys(from, end) {
			entry, err := record.Decode[record.Audit](kv)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Subject != fmt.Sprintf("generation %d", declared.Msg.GetRestore().GetGeneration()) {
				continue
			}
			recorded++
			if entry.By != test.by || entry.Verified != test.verified {
				t.Errorf("%s by %q, verified %v, want %q, %v", entry.Action, entry.By, entry.Verified, test.by, test.verified)
			}
		}
		if recorded != 2 {
			t.Errorf("%d entries are recorded, want a declaration and an attestation", recorded)
		}
	}
}

// generation is the one in force.
func (s *site) generation() uint32 {
	s.t.Helper()
	resp, err := ShowRestores(s.ctx, s.store.Txn, s.layout)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetGeneration()
}
