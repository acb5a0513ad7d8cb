package identity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

// certificateOf has these URIs, and nothing else.
func certificateOf(t testing.TB, uris ...string) *x509.Certificate {
	t.Helper()
	cert := &x509.Certificate{}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cert.URIs = append(cert.URIs, u)
	}
	return cert
}

func TestNamesGiveRolesByThemselves(t *testing.T) {
	tests := []struct {
		uri     string
		roles   Roles
		holders []lease.Holder
	}{
		{"spiffe://example.org/tokenlease/holder/eu/limiter-0", Holder, []lease.Holder{{Region: "eu", Instance: "limiter-0"}}},
		{"spiffe://example.org/tokenlease/gateway/edge", Gateway, nil},
		{"spiffe://example.org/tokenlease/viewer/grafana", Viewer, nil},
		{"spiffe://example.org/tokenlease/operator/Anna_B", Operator, nil},
		{"spiffe://a-b.c_d/tokenlease/broker/0", Broker, nil},
		{"SPIFFE://example.org/tokenlease/viewer/v", Viewer, nil}, // the reader of URIs lowers the scheme

		{uri: "spiffe://example.org/tokenlease/holder/eu"},
		{uri: "spiffe://example.org/tokenlease/holder/eu/limiter-0/more"},
		{uri: "spiffe://example.org/tokenlease/holder/eu/*"}, // only a mapping may say so
		{uri: "spiffe://example.org/tokenlease/holder//limiter-0"},
		{uri: "spiffe://example.org/tokenlease/holder/eu/.."},
		{uri: "spiffe://example.org/tokenlease/holder/eu/limiter%2D0"},
		{uri: "spiffe://example.org/tokenlease/holder/eu/b%C3%BCcher"},
		{uri: "spiffe://example.org/tokenlease/operator"},
		{uri: "spiffe://example.org/tokenlease/operator/"},
		{uri: "spiffe://example.org/tokenlease/operator/a/b"},
		{uri: "spiffe://example.org/tokenlease/operator/a?b"},
		{uri: "spiffe://example.org/tokenlease/operator/a#b"},
		{uri: "spiffe://example.org/tokenlease/Operator/a"},
		{uri: "spiffe://example.org/tokenlease/admin/a"},
		{uri: "spiffe://example.org/TOKENLEASE/operator/a"},
		{uri: "spiffe://example.org//tokenlease/operator/a"},
		{uri: "spiffe://example.org/other/tokenlease/operator/a"},
		{uri: "spiffe://example.org/tokenlease/"},
		{uri: "spiffe://Example.org/tokenlease/operator/a"},
		{uri: "spiffe://example.org:443/tokenlease/operator/a"},
		{uri: "spiffe://anna@example.org/tokenlease/operator/a"},
		{uri: "spiffe:///tokenlease/operator/a"},
		{uri: "spiffe:/tokenlease/operator/a"},
		{uri: "https://example.org/tokenlease/operator/a"},
		{uri: "spiffe://example.org/tokenlease/operator/" + strings.Repeat("a", 65)},
	}
	for _, test := range tests {
		peer := Identify(certificateOf(t, test.uri), nil)
		if peer.Roles != test.roles || !slices.Equal(peer.Holders, test.holders) {
			t.Errorf("%s gives %v and %v, want %v and %v", test.uri, peer.Roles, peer.Holders, test.roles, test.holders)
		}
	}
}

func TestIdentifyJoinsAllNames(t *testing.T) {
	cert := certificateOf(t, "https://example.org/", "spiffe://example.org/tokenlease/gateway/edge", "spiffe://example.org/tokenlease/holder/eu/a", "spiffe://example.org/tokenlease/holder/us/b")
	cert.DNSNames = []string{"Edge.example.org"}
	cert.EmailAddresses = []string{"Anna@example.org"}
	cert.Subject = pkix.Name{CommonName: "edge"}
	peer := Identify(cert, nil)
	if want := Gateway | Holder; peer.Roles != want {
		t.Errorf("roles %v, want %v", peer.Roles, want)
	}
	if want := "spiffe://example.org/tokenlease/gateway/edge"; peer.Name != want {
		t.Errorf("recorded as %q, want the first name that gives a role, %q", peer.Name, want)
	}
	want := []string{
		"https://example.org/", "spiffe://example.org/tokenlease/gateway/edge", "spiffe://example.org/tokenlease/holder/eu/a",
		"spiffe://example.org/tokenlease/holder/us/b", "dns:edge.example.org", "email:Anna@example.org", "cn:edge",
	}
	if !slices.Equal(peer.Names, want) {
		t.Errorf("names\n%q, want\n%q", peer.Names, want)
	}
	for _, may := range []struct {
		region, instance string
		want             bool
	}{{"eu", "a", true}, {"us", "b", true}, {"eu", "b", false}, {"us", "a", false}, {"", "", false}, {"eu", "*", false}} {
		if got := peer.MayBe(may.region, may.instance); got != may.want {
			t.Errorf("may be %s/%s: %v, want %v", may.region, may.instance, got, may.want)
		}
	}
}

func TestIdentifyWithoutARole(t *testing.T) {
	nameless := Identify(&x509.Certificate{}, nil)
	if nameless.Name != "a certificate without a name" || nameless.Roles != 0 {
		t.Errorf("of nothing: %+v", nameless)
	}
	// Names that would be read as others, or break a log or a terminal, are none.
	cert := certificateOf(t, "cn:root", "EMAIL:anna@example.org")
	cert.DNSNames = []string{"a\x1b[2Jb", strings.Repeat("a", MaxNameBytes)}
	cert.Subject.CommonName = "b\xff"
	if peer := Identify(cert, nil); len(peer.Names) != 0 {
		t.Errorf("names that are none: %q", peer.Names)
	}
}

func TestURI(t *testing.T) {
	if got := URI("example.org", Holder, "eu", "limiter-0"); got != "spiffe://example.org/tokenlease/holder/eu/limiter-0" {
		t.Errorf("of a holder: %q", got)
	}
	for _, wrong := range []string{URI("example.org", Holder, "eu"), URI("", Viewer, "v"), URI("example.org", Viewer, "a/b"), URI("example.org", Viewer|Gateway, "a")} {
		if wrong != "" {
			t.Errorf("%q was made, which gives no role", wrong)
		}
	}
}

func TestRoles(t *testing.T) {
	for i, word := range RoleNames() {
		role, ok := ParseRole(word)
		if !ok || role != 1<<i || role.String() != word {
			t.Errorf("%q reads as %v, %v", word, role, ok)
		}
	}
	if _, ok := ParseRole("Operator"); ok {
		t.Error("Operator is a role, in upper case")
	}
	if got := (Viewer | Operator).String(); got != "viewer or operator" {
		t.Errorf("two roles are %q", got)
	}
	if got := Roles(0).String(); got != "none" {
		t.Errorf("no role is %q", got)
	}
}

// Whatever stands in a certificate, a holder that comes out of it is one that could
// be in a request, and a role comes only with a name of its own form.
func FuzzIdentify(f *testing.F) {
	f.Add("spiffe://example.org/tokenlease/holder/eu/limiter-0")
	f.Add("spiffe://example.org/tokenlease/operator/anna?x")
	f.Add("spiffe://a@b/tokenlease/broker/%2e%2e")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		peer := Identify(&x509.Certificate{URIs: []*url.URL{u}}, nil)
		if peer.Roles == 0 {
			if len(peer.Holders) > 0 {
				t.Fatalf("holders %v without a role", peer.Holders)
			}
			return
		}
		domain, path, _ := strings.Cut(strings.TrimPrefix(peer.Name, "spiffe://"), "/")
		parts := strings.Split(path, "/")
		if again := URI(domain, peer.Roles, parts[2:]...); again != peer.Name || parts[0] != "tokenlease" || parts[1] != peer.Roles.String() {
			t.Fatalf("%q gives %v, which is written %q", peer.Name, peer.Roles, again)
		}
		if len(peer.Name) > MaxNameBytes || (peer.Roles == Holder) != (len(peer.Holders) == 1) {
			t.Fatalf("%q gives %v and %v", peer.Name, peer.Roles, peer.Holders)
		}
	})
}
