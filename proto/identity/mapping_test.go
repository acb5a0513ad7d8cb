package identity

import (
	"strings"
	"testing"
)

const someMapping = `trust-domains: [prod.example.org]
peers:
  - name: spiffe://elsewhere/ns/limits/sa/gateway
    roles: [gateway]
  - name: dns:limiter-0.eu.example.org
    roles: [holder, gateway]
    holders: [eu/limiter-0, us/*]
  - name: email:anna@example.org
    roles: [operator]
    as: anna
  - name: "cn:Bob B."
    roles: [viewer]
`

func TestMappingGivesOtherNamesTheirRoles(t *testing.T) {
	m, err := ParseMapping("roles.yaml", []byte(someMapping))
	if err != nil {
		t.Fatal(err)
	}
	gateway := Identify(certificateOf(t, "spiffe://elsewhere/ns/limits/sa/gateway"), m)
	if gateway.Roles != Gateway || gateway.Name != "spiffe://elsewhere/ns/limits/sa/gateway" {
		t.Errorf("the gateway is %+v", gateway)
	}
	cert := certificateOf(t)
	cert.DNSNames = []string{"LIMITER-0.eu.example.org"}
	limiter := Identify(cert, m)
	if limiter.Roles != Holder|Gateway || !limiter.MayBe("eu", "limiter-0") || limiter.MayBe("eu", "limiter-1") || !limiter.MayBe("us", "any") || limiter.MayBe("ap", "any") {
		t.Errorf("the limiter is %+v", limiter)
	}
	cert = certificateOf(t)
	cert.EmailAddresses = []string{"anna@example.org"}
	cert.Subject.CommonName = "Bob B."
	anna := Identify(cert, m)
	if anna.Roles != Operator|Viewer || anna.Name != "anna" {
		t.Errorf("anna is %+v", anna)
	}
	// A text that looks like another kind of name is not one.
	cert = certificateOf(t)
	cert.Subject.CommonName = "email:anna@example.org"
	if peer := Identify(cert, m); peer.Roles != 0 {
		t.Errorf("a common name passes for an address: %+v", peer)
	}
}

func TestMappingBoundsTrustDomains(t *testing.T) {
	m, err := ParseMapping("roles.yaml", []byte(someMapping))
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]Roles{
		"spiffe://prod.example.org/tokenlease/operator/anna":         Operator,
		"spiffe://staging.example.org/tokenlease/operator/anna":      0,
		"spiffe://prod.example.org.evil.org/tokenlease/operator/eve": 0,
	} {
		if got := Identify(certificateOf(t, uri), m).Roles; got != want {
			t.Errorf("%s gives %v, want %v", uri, got, want)
		}
	}
}

func TestMappingFaults(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "roles.yaml:1: the file is empty: want the fields peers and trust-domains"},
		{"peer: []", "roles.yaml:1: peer: is unknown: did you mean peers?"},
		{"peers: []", "roles.yaml:1: peers: is an empty list: want at least one peer"},
		{"trust-domains: [Example.org]", `roles.yaml:1: trust-domains[0]: "Example.org" is no trust domain: want lower case letters, digits, '.', '-' and '_'`},
		{"peers:\n  - name: dns:a\n    roles: [admin]", "roles.yaml:3: peers[0].roles[0]: is \"admin\": want one of holder, gateway, viewer, operator, broker"},
		{"peers:\n  - name: dns:a\n    roles: [operater]", "roles.yaml:3: peers[0].roles[0]: is \"operater\": did you mean operator?"},
		{"peers:\n  - name: dns:a\n    roles: []", "roles.yaml:3: peers[0].roles: is an empty list: want at least one role"},
		{"peers:\n  - roles: [viewer]", "roles.yaml:2: peers[0].name: is missing"},
		{"peers:\n  - name: dns:a", "roles.yaml:2: peers[0].roles: is missing"},
		{"peers:\n  - name: a.example.org\n    roles: [viewer]", `roles.yaml:2: peers[0].name: "a.example.org" is no name of a certificate: want a URI such as spiffe://example.org/gateway, or dns:, email: or cn: in front`},
		{"peers:\n  - name: 'dns:'\n    roles: [viewer]", `roles.yaml:2: peers[0].name: "dns:" has nothing behind the colon`},
		{"peers:\n  - name: dns:A.example.org\n    roles: [viewer]", `roles.yaml:2: peers[0].name: "dns:A.example.org" must be in lower case`},
		{"peers:\n  - name: DNS:a.example.org\n    roles: [viewer]", `roles.yaml:2: peers[0].name: "DNS:a.example.org" must be in lower case`},
		{"peers:\n  - name: dns:a\n    roles: [holder]", "roles.yaml:2: peers[0]: has the role holder: say which, as in holders: [eu/limiter-0]"},
		{"peers:\n  - name: dns:a\n    roles: [viewer]\n    holders: [eu/a]", "roles.yaml:4: peers[0]: has holders without the role holder: add it to roles, or remove them"},
		{"peers:\n  - name: dns:a\n    roles: [holder]\n    holders: [eu]", `roles.yaml:4: peers[0].holders[0]: "eu" is no holder: want REGION/INSTANCE such as eu/limiter-0, or eu/* for any of region eu`},
		{"peers:\n  - name: dns:a\n    roles: [holder]\n    holders: ['*/a']", `roles.yaml:4: peers[0].holders[0]: "*/a" is no holder: want REGION/INSTANCE such as eu/limiter-0, or eu/* for any of region eu`},
		{"peers:\n  - name: dns:a\n    roles: [viewer]\n  - name: dns:a\n    roles: [operator]", `roles.yaml:4: peers[1]: "dns:a" stands twice: give it all its roles in one place`},
		{"peers:\n  - name: dns:a\n    roles: [viewer]\n    as: ''", "roles.yaml:4: peers[0].as: has 0 bytes: want 1 to 256"},
		{"peers:\n  - name: dns:a\n    role: viewer", "roles.yaml:3: peers[0].role: is unknown: did you mean roles?"},
	}
	for _, test := range tests {
		_, err := ParseMapping("roles.yaml", []byte(test.text))
		if err == nil {
			t.Errorf("%q is taken", test.text)
		} else if got := err.Error(); !strings.Contains(got, test.want) {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

// A mapping that is taken gives every name at least one role, and a holder only to
// those that have the role.
func FuzzParseMapping(f *testing.F) {
	f.Add([]byte(someMapping))
	f.Add([]byte("peers:\n  - name: dns:a\n    roles: [holder]\n    holders: [eu/*]\n"))
	f.Add([]byte("peers: [{name: 'cn:', roles: [viewer]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMapping("roles.yaml", data)
		if err != nil {
			if m != nil {
				t.Fatal("a file with faults counts")
			}
			return
		}
		for name, e := range m.peers {
			if name == "" || e.roles == 0 || e.roles.Has(Holder) != (len(e.holders) > 0) {
				t.Fatalf("%q gets %+v", name, e)
			}
		}
	})
}
