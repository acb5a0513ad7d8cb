package clientkey_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ff::/48"), netip.MustParsePrefix("fe80::/10"),
}

// clock is a monotonic clock that tests set.
type clock struct{ now time.Duration }

func (c *clock) mono() time.Duration { return c.now }

func newKeys(t testing.TB, cfg clientkey.Config) *clientkey.Keys {
	t.Helper()
	if cfg.Mono == nil {
		cfg.Mono = (&clock{}).mono
	}
	k, err := clientkey.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func behindProxies(header clientkey.Header) clientkey.Config {
	return clientkey.Config{Trusted: proxies, Header: header}
}

func TestPeers(t *testing.T) {
	k := newKeys(t, clientkey.Config{})
	for _, tc := range []struct{ peer, want string }{
		{"192.0.2.1:1234", "anonymous/192.0.2.1/32"},
		{"192.0.2.1", "anonymous/192.0.2.1/32"},
		{"[2001:db8:0:1:2:3:4:5]:443", "anonymous/2001:db8:0:1::/64"},
		{"2001:db8:0:1::1", "anonymous/2001:db8:0:1::/64"},
		{"[2001:DB8:0:1::2]:443", "anonymous/2001:db8:0:1::/64"},
		{"[::ffff:192.0.2.1]:80", "anonymous/192.0.2.1/32"},
		{"[fe80::1%eth0]:80", "anonymous/fe80::/64"},
		{"[fe80::2%eth1]:80", "anonymous/fe80::/64"},
		{"[::ffff:192.0.2.1%eth0]:80", "anonymous/192.0.2.1/32"},
		{"", "anonymous/shared"},
		{"@", "anonymous/shared"},
		{"/run/limiter.sock", "anonymous/shared"},
		{"localhost:80", "anonymous/shared"},
	} {
		if got := k.AccountFor(tc.peer, http.Header{"X-Forwarded-For": {"203.0.113.9"}}); got != tc.want {
			t.Errorf("peer %q pays by %q, want %q", tc.peer, got, tc.want)
		}
	}
}

func TestPrefixLengths(t *testing.T) {
	k := newKeys(t, clientkey.Config{IPv4Bits: 24, IPv6Bits: 48})
	for _, tc := range []struct{ peer, want string }{
		{"192.0.2.1:1", "anonymous/192.0.2.0/24"},
		{"[2001:db8:1:2::1]:1", "anonymous/2001:db8:1::/48"},
		{"[::ffff:192.0.2.1]:1", "anonymous/192.0.2.0/24"},
	} {
		if got := k.AccountFor(tc.peer, nil); got != tc.want {
			t.Errorf("peer %q pays by %q, want %q", tc.peer, got, tc.want)
		}
	}
	longest := newKeys(t, clientkey.Config{IPv6Bits: 128}).AccountFor("ffff:fff0:ffff:ffff:ffff:ffff:ffff:ffff", nil)
	if len(longest) != clientkey.MaxAccountBytes {
		t.Errorf("%q has %d bytes, and the longest is said to have %d", longest, len(longest), clientkey.MaxAccountBytes)
	}
}

func TestForwardedFor(t *testing.T) {
	const proxy, long = "anonymous/10.0.0.1/32", "anonymous/203.0.113.9/32"
	padding := strings.Repeat("1.1.1.1, ", 5000)
	for _, tc := range []struct {
		name string
		in   []string
		want string
	}{
		{"no header", nil, proxy},
		{"an empty header", []string{""}, proxy},
		{"one client", []string{"203.0.113.9"}, long},
		{"what the client wrote is left alone", []string{"1.1.1.1, 203.0.113.9"}, long},
		{"garbage that the client wrote as well", []string{`<script>,,"unknown, 203.0.113.9`}, long},
		{"megabytes of it as well", []string{padding + "203.0.113.9"}, long},
		{"one long entry of it as well", []string{strings.Repeat("x", 100_000) + ",203.0.113.9"}, long},
		{"trusted hops are passed", []string{"1.1.1.1, 203.0.113.9, 10.9.9.9, 2001:db8:ff::7"}, long},
		{"lines are one list", []string{"1.1.1.1", "203.0.113.9, 10.9.9.9", "", "10.9.9.8"}, long},
		{"all are trusted", []string{"10.1.1.1, 10.1.1.2"}, "anonymous/10.1.1.1/32"},
		{"a port", []string{"203.0.113.9:4711"}, long},
		{"IPv6", []string{"2001:db8::1"}, "anonymous/2001:db8::/64"},
		{"IPv6 in brackets", []string{"[2001:db8::1]"}, "anonymous/2001:db8::/64"},
		{"IPv6 and a port", []string{"[2001:db8::1]:4711"}, "anonymous/2001:db8::/64"},
		{"mapped IPv4", []string{"::ffff:203.0.113.9"}, long},
		{"a mapped hop is trusted as what it is", []string{"203.0.113.9, ::ffff:10.1.1.1"}, long},
		{"a zone", []string{"2001:db8::1%eth0"}, "anonymous/2001:db8::/64"},
		{"a hop with a zone is trusted", []string{"203.0.113.9, fe80::1%eth0"}, long},
		{"blanks and tabs", []string{" \t203.0.113.9\t "}, long},
		{"unknown", []string{"203.0.113.9, unknown"}, proxy},
		{"nothing behind the last comma", []string{"203.0.113.9,"}, proxy},
		{"nothing between hops", []string{"203.0.113.9, , 10.1.1.1"}, proxy},
		{"leading zeros", []string{"203.0.113.009"}, proxy},
		{"a name", []string{"client.example"}, proxy},
		{"a prefix", []string{"203.0.113.9/32"}, proxy},
		{"a port without digits", []string{"203.0.113.9:"}, proxy},
		{"a long port", []string{"203.0.113.9:123456"}, proxy},
		{"IPv4 in brackets", []string{"[203.0.113.9]:80"}, proxy},
		{"an open bracket", []string{"[2001:db8::1"}, proxy},
		{"behind a bracket", []string{"[2001:db8::1]80"}, proxy},
		{"bytes that are no UTF-8", []string{"203.0.113.9\xff"}, proxy},
		{"unreadable behind a trusted hop", []string{"203.0.113.9, garbage, 10.1.1.1"}, proxy},
		{"one long entry", []string{strings.Repeat("1", 100_000)}, proxy},
		{"a long entry in the middle", []string{"203.0.113.9, " + strings.Repeat(" ", 500) + ", 10.1.1.1"}, proxy},
		{"32 hops", []string{strings.Repeat("10.1.1.1, ", 31) + "10.1.1.2"}, "anonymous/10.1.1.1/32"},
		{"32 hops and a client", []string{"203.0.113.9, " + strings.Repeat("10.1.1.1, ", 31) + "10.1.1.2"}, proxy},
		{"a client behind 31 hops", []string{"203.0.113.9, " + strings.Repeat("10.1.1.1, ", 30) + "10.1.1.2"}, long},
	} {
		header := http.Header{"X-Forwarded-For": tc.in, "Forwarded": {"for=1.2.3.4"}, "X-Real-Ip": {"1.2.3.4"}}
		k := newKeys(t, behindProxies(clientkey.XForwardedFor))
		if got := k.AccountFor("10.0.0.1:80", header); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if got := k.AccountFor("198.51.100.7:80", header); got != "anonymous/198.51.100.7/32" {
			t.Errorf("%s: a peer that is not trusted pays by %q", tc.name, got)
		}
	}
}

func TestForwardedByRFC7239(t *testing.T) {
	const proxy, client = "anonymous/10.0.0.1/32", "anonymous/203.0.113.9/32"
	for _, tc := range []struct {
		name string
		in   []string
		want string
	}{
		{"no header", nil, proxy},
		{"one client", []string{"for=203.0.113.9"}, client},
		{"all parameters", []string{`for="203.0.113.9:47";by="[2001:db8::9]";host=example.com;proto=https`}, client},
		{"names in other letters", []string{"proto=http;FOR=203.0.113.9"}, client},
		{"IPv6", []string{`for="[2001:db8:cafe::17]:4711"`}, "anonymous/2001:db8:cafe::/64"},
		{"IPv6 without quotes", []string{`for=[2001:db8:cafe::17]:4711`}, "anonymous/2001:db8:cafe::/64"},
		{"an obfuscated port", []string{`for="203.0.113.9:_x1"`}, client},
		{"escapes in quotes", []string{`for="203\.0.113.9"`}, client},
		{"trusted hops", []string{`for=1.1.1.1, for=203.0.113.9, for=10.1.1.1 ; by=x, for="[2001:db8:ff::1]"`}, client},
		{"lines are one list", []string{"for=1.1.1.1", "for=203.0.113.9", "for=10.1.1.1"}, client},
		{"a broken line that the client wrote", []string{`for="`, "for=203.0.113.9"}, client},
		{"a comma in quotes", []string{`for=203.0.113.9;host="a, for=1.1.1.1"`}, client},
		{"a quote in quotes", []string{`for=203.0.113.9;host="a\", for=1.1.1.1"`}, client},
		{"unknown", []string{"for=unknown"}, proxy},
		{"obfuscated", []string{"for=_hidden"}, proxy},
		{"no for", []string{"for=203.0.113.9, by=10.0.0.1"}, proxy},
		{"for twice", []string{"for=203.0.113.9;for=1.1.1.1"}, proxy},
		{"for twice in other letters", []string{"for=203.0.113.9;For=1.1.1.1"}, proxy},
		{"an open quote that the client wrote", []string{`for="x, for=203.0.113.9`}, proxy},
		{"behind a quote", []string{`for="203.0.113.9"x`}, proxy},
		{"an escape at the end", []string{`for="203.0.113.9\`}, proxy},
		{"no value", []string{"for="}, proxy},
		{"no name", []string{"=203.0.113.9"}, proxy},
		{"no equals sign", []string{"203.0.113.9"}, proxy},
		{"an empty element", []string{"for=203.0.113.9,"}, proxy},
		{"an empty pair", []string{"for=203.0.113.9;"}, proxy},
		{"nine parameters", []string{"a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;for=203.0.113.9"}, proxy},
		{"eight parameters", []string{"a=1;b=1;c=1;d=1;e=1;f=1;g=1;for=203.0.113.9"}, client},
		{"a line too long", []string{"for=203.0.113.9;host=" + strings.Repeat("h", 4096)}, proxy},
	} {
		header := http.Header{"Forwarded": tc.in, "X-Forwarded-For": {"1.2.3.4"}}
		k := newKeys(t, behindProxies(clientkey.Forwarded))
		if got := k.AccountFor("[::ffff:10.0.0.1]:80", header); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if got := k.AccountFor("198.51.100.7:80", header); got != "anonymous/198.51.100.7/32" {
			t.Errorf("%s: a peer that is not trusted pays by %q", tc.name, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	k := newKeys(t, behindProxies(clientkey.XForwardedFor))
	for _, tc := range []struct {
		peer, header string
		want         clientkey.Origin
	}{
		{"192.0.2.1:1", "203.0.113.9", clientkey.FromPeer},
		{"10.0.0.1:1", "", clientkey.FromPeer},
		{"10.0.0.1:1", "203.0.113.9", clientkey.FromHeader},
		{"10.0.0.1:1", "unknown", clientkey.Unreadable},
		{"@", "203.0.113.9", clientkey.NoAddress},
	} {
		_, got := k.Client(tc.peer, http.Header{"X-Forwarded-For": {tc.header}})
		if got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.peer, tc.header, got, tc.want)
		}
	}
}
