package clientkey_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

// FuzzClient holds, for any header: an account is short, valid and reserved; equal
// requests get equal accounts; the header of a peer that is not trusted is never
// read; and what stands left of a client's address changes nothing.
func FuzzClient(f *testing.F) {
	for _, seed := range []struct{ peer, first, second string }{
		{"10.0.0.1:80", "1.1.1.1, 203.0.113.9", "10.1.1.1"},
		{"[::ffff:10.0.0.1]:80", `for="[2001:db8::1]:80";by=x, for=10.1.1.1`, `for="a\"b"`},
		{"[fe80::1%eth0]:80", "fe80::2%eth0, [::1]:8", "unknown"},
		{"192.0.2.1:1", ",,,", `for="`},
		{"", "\xff", "for=_x;for=y"},
	} {
		f.Add(seed.peer, seed.first, seed.second)
	}
	xff, err1 := clientkey.New(behindProxies(clientkey.XForwardedFor))
	fwd, err2 := clientkey.New(behindProxies(clientkey.Forwarded))
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		header := http.Header{"X-Forwarded-For": {first, second}, "Forwarded": {first, second}}
		address, known := clientkey.Peer(peer)
		trusted := known && clientkey.Within(address, proxies)
		for _, k := range []*clientkey.Keys{xff, fwd} {
			client, origin := k.Client(peer, header)
			again, _ := k.Client(peer, header)
			if client != again {
				t.Errorf("one request is of %v and of %v", client, again)
			}
			bare, _ := k.Client(peer, nil)
			if !trusted && client != bare {
				t.Errorf("the header of %q, which is not trusted, makes it %v", peer, client)
			}
			if (origin == clientkey.Unreadable || origin == clientkey.FromPeer) && client != bare {
				t.Errorf("an unreadable header makes %v of %v", client, bare)
			}
			if known != (origin != clientkey.NoAddress) || known != client.IsValid() {
				t.Errorf("peer %q: known %v, origin %s, client %v", peer, known, origin, client)
			}
			checkAccount(t, k.AccountFor(peer, header))
		}
		appended := http.Header{"X-Forwarded-For": {first, second + ",203.0.113.9, 10.1.1.1"}}
		if client, _ := xff.Client("10.0.0.1:80", appended); client != netip.MustParsePrefix("203.0.113.9/32") {
			t.Errorf("what the client wrote makes it %v", client)
		}
	})
}

func checkAccount(t *testing.T, account string) {
	t.Helper()
	if len(account) > clientkey.MaxAccountBytes || !utf8.ValidString(account) || !strings.HasPrefix(account, clientkey.AnonymousPrefix) {
		t.Errorf("account %q", account)
	}
	if clientkey.CheckVerified(account) == nil {
		t.Errorf("%q could be a verified identity", account)
	}
	if text, ok := strings.CutPrefix(account, clientkey.AnonymousPrefix); ok && text != "shared" {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() || prefix.Addr().Zone() != "" || prefix.Addr().Is4In6() {
			t.Errorf("account %q names the prefix %v, %v", account, prefix, err)
		}
	}
}
