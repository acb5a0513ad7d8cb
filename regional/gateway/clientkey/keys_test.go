package clientkey_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

// An attacker with many addresses gets the shared account past the bound, those
// who were there keep theirs, and who is idle makes room.
func TestAttackerWithManyAddresses(t *testing.T) {
	c := &clock{}
	k := newKeys(t, clientkey.Config{MaxKeys: 3, IdleAfter: time.Minute, Mono: c.mono})
	at := func(second int, peer, want string) {
		t.Helper()
		c.now = time.Duration(second) * time.Second
		if got := k.AccountFor(peer, nil); got != want {
			t.Errorf("at %d s %s pays by %q, want %q", second, peer, got, want)
		}
	}
	at(0, "192.0.2.1", "anonymous/192.0.2.1/32")
	at(1, "192.0.2.2", "anonymous/192.0.2.2/32")
	at(2, "192.0.2.3", "anonymous/192.0.2.3/32")
	for i := range 200 {
		at(3, fmt.Sprintf("198.51.100.%d", i), clientkey.SharedAccount)
	}
	if k.Len() != 3 {
		t.Errorf("%d keys, want 3", k.Len())
	}
	at(50, "192.0.2.1", "anonymous/192.0.2.1/32")
	at(60, "198.51.100.1", clientkey.SharedAccount) // the second left is due a second later
	at(61, "198.51.100.1", "anonymous/198.51.100.1/32")
	at(61, "192.0.2.2", clientkey.SharedAccount) // it was away, and its place is taken
	at(62, "192.0.2.2", "anonymous/192.0.2.2/32")
	if k.Len() != 3 {
		t.Errorf("%d keys, want the one that was used at 50 s and the two since", k.Len())
	}
	at(109, "192.0.2.1", "anonymous/192.0.2.1/32")
	c.now = 168 * time.Second
	if k.Len() != 1 {
		t.Errorf("%d keys, want the one that was used within a minute", k.Len())
	}
	c.now = 170 * time.Second
	if k.Len() != 0 {
		t.Errorf("%d keys when all are idle", k.Len())
	}
}

// TestCase05ClockStepsBack: nobody leaves early, and nobody stays for ever.
func TestCase05ClockStepsBack(t *testing.T) {
	c := &clock{now: time.Hour}
	k := newKeys(t, clientkey.Config{MaxKeys: 1, IdleAfter: time.Minute, Mono: c.mono})
	k.AccountFor("192.0.2.1", nil)
	c.now = 0
	if got := k.AccountFor("192.0.2.1", nil); got != "anonymous/192.0.2.1/32" {
		t.Errorf("after a step back the client pays by %q", got)
	}
	c.now = time.Hour + time.Minute - 1
	if got := k.AccountFor("192.0.2.2", nil); got != clientkey.SharedAccount {
		t.Errorf("another client pays by %q before the first is idle", got)
	}
	c.now = time.Hour + time.Minute
	if got := k.AccountFor("192.0.2.2", nil); got != "anonymous/192.0.2.2/32" {
		t.Errorf("another client pays by %q when the first is idle", got)
	}
}

func TestDefaultBound(t *testing.T) {
	k := newKeys(t, clientkey.Config{})
	own := 0
	for i := range 10_050 {
		if account := k.AccountFor(fmt.Sprintf("10.1.%d.%d", i/250, i%250), nil); account != clientkey.SharedAccount {
			own++
		}
	}
	if own != 10_000 || k.Len() != 10_000 {
		t.Errorf("%d clients got an account of their own, %d keys: want 10,000", own, k.Len())
	}
}

func TestConcurrentUse(t *testing.T) {
	k := newKeys(t, clientkey.Config{MaxKeys: 50})
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 500 {
				peer := fmt.Sprintf("192.0.2.%d", (i*7+worker)%100)
				if got := k.AccountFor(peer, nil); got != "anonymous/"+peer+"/32" && got != clientkey.SharedAccount {
					t.Errorf("%s pays by %q", peer, got)
				}
			}
		})
	}
	group.Wait()
	if k.Len() != 50 {
		t.Errorf("%d keys, want the bound of 50", k.Len())
	}
}

// TestCase33SeriesAreBounded: metrics count by origin, and never name a client.
func TestCase33SeriesAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := behindProxies(clientkey.XForwardedFor)
	cfg.MaxKeys, cfg.Registerer = 10, reg
	k := newKeys(t, cfg)
	for i := range 100 {
		k.AccountFor(fmt.Sprintf("192.0.2.%d:1", i), nil)
	}
	k.AccountFor("10.0.0.1:1", http.Header{"X-Forwarded-For": {"unknown"}})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if strings.Contains(name, "192.0.2") {
				t.Errorf("a label names a client: %s", name)
			}
		}
	}
	if values["tokenlease_anonymous_requests_total,own,peer"] != 10 || values["tokenlease_anonymous_requests_total,shared,peer"] != 90 ||
		values["tokenlease_anonymous_requests_total,shared,unreadable"] != 1 || values["tokenlease_anonymous_keys"] != 10 || len(values) != 9 {
		t.Errorf("metrics are %v", values)
	}
}

func TestAccountOfARequest(t *testing.T) {
	k := newKeys(t, behindProxies(clientkey.XForwardedFor))
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = "10.0.0.1:1"
	req.Header.Add("X-Forwarded-For", "203.0.113.9")
	if got := k.Account(req); got != "anonymous/203.0.113.9/32" {
		t.Errorf("the request is paid by %q", got)
	}
}

func TestVerifiedIdentitiesAreDisjoint(t *testing.T) {
	for account, want := range map[string]string{
		"acme":                 "",
		"":                     "",
		"anonymous":            "",
		"Anonymous/x":          "",
		"acme/anonymous/":      "",
		"keys":                 "",
		"anonymous/":           `begins with "anonymous/", which is reserved for accounts that are not verified identities: give the identity another name`,
		"anonymous/shared":     `begins with "anonymous/", which is reserved for accounts that are not verified identities: give the identity another name`,
		"anonymous/10.0.0.1/8": `begins with "anonymous/", which is reserved for accounts that are not verified identities: give the identity another name`,
		"key:1":                `begins with "key:", which is reserved for accounts that are not verified identities: give the identity another name`,
	} {
		got := ""
		if err := clientkey.CheckVerified(account); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", account, got, want)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	prefix := netip.MustParsePrefix
	trusted := []netip.Prefix{prefix("10.0.0.0/8")}
	for _, tc := range []struct {
		name string
		cfg  clientkey.Config
		want string
	}{
		{"zero", clientkey.Config{}, ""},
		{"bounds", clientkey.Config{IPv4Bits: 8, IPv6Bits: 128, MaxHops: 1000, MaxKeys: 10_000_000, Trusted: trusted, Header: clientkey.Forwarded}, ""},
		{"IPv4 length", clientkey.Config{IPv4Bits: 33}, "clientkey: IPv4 prefix length is 33: want 8 to 32, or 0 for the default"},
		{"IPv6 length", clientkey.Config{IPv6Bits: 15}, "clientkey: IPv6 prefix length is 15: want 16 to 128, or 0 for the default"},
		{"hops", clientkey.Config{MaxHops: -1}, "clientkey: number of hops is -1: want 1 to 1000, or 0 for the default"},
		{"keys", clientkey.Config{MaxKeys: 10_000_001}, "clientkey: number of keys is 10000001: want 1 to 10000000, or 0 for the default"},
		{"idle", clientkey.Config{IdleAfter: -1}, "clientkey: the idle time is -1ns: want more than 0, or 0 for the default"},
		{"header without proxies", clientkey.Config{Header: clientkey.XForwardedFor}, "clientkey: X-Forwarded-For is to be read, but no proxy is trusted: name the addresses of the proxies"},
		{"proxies without header", clientkey.Config{Trusted: trusted}, "clientkey: proxies are trusted, but no header of them is read: name X-Forwarded-For or Forwarded, whichever they set"},
		{"unknown header", clientkey.Config{Trusted: trusted, Header: "X-Real-IP"}, `clientkey: header "X-Real-IP" is not known: want X-Forwarded-For or Forwarded`},
		{"everyone", clientkey.Config{Trusted: []netip.Prefix{prefix("::/0")}, Header: clientkey.Forwarded},
			"clientkey: trusted proxy ::/0 is everyone, who could then claim to be anyone: name the addresses of the proxies"},
		{"host bits", clientkey.Config{Trusted: []netip.Prefix{prefix("10.0.0.1/8")}, Header: clientkey.Forwarded},
			"clientkey: trusted proxy 10.0.0.1/8 has bits beyond its length: want 10.0.0.0/8"},
		{"mapped", clientkey.Config{Trusted: []netip.Prefix{prefix("::ffff:10.0.0.0/104")}, Header: clientkey.Forwarded},
			"clientkey: trusted proxy ::ffff:10.0.0.0/104 is an IPv4 address in IPv6: write it as IPv4"},
		{"no prefix", clientkey.Config{Trusted: []netip.Prefix{{}}, Header: clientkey.Forwarded},
			"clientkey: a trusted proxy has no valid prefix: want one such as 10.0.0.0/8"},
		{"several", clientkey.Config{IPv4Bits: 1, MaxHops: -1}, "clientkey: IPv4 prefix length is 1: want 8 to 32, or 0 for the default\nnumber of hops is -1: want 1 to 1000, or 0 for the default"},
	} {
		_, err := clientkey.New(tc.cfg)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func BenchmarkAccount(b *testing.B) {
	k := newKeys(b, behindProxies(clientkey.XForwardedFor))
	header := http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9, 10.1.1.1"}}
	b.ReportAllocs()
	for b.Loop() {
		k.AccountFor("10.0.0.1:80", header)
	}
}
