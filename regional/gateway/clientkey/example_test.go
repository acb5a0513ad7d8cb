package clientkey_test

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

// A proxy in 10.0.0.0/8 appends the address that it sees. What a client writes
// itself stands left of that, and changes nothing.
func Example() {
	keys, err := clientkey.New(clientkey.Config{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Header:  clientkey.XForwardedFor,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	header := http.Header{"X-Forwarded-For": {"198.51.100.7, 2001:db8:0:1::5"}}
	fmt.Println(keys.AccountFor("10.0.0.1:4711", header))
	fmt.Println(keys.AccountFor("203.0.113.9:4711", header)) // not a proxy of ours
	fmt.Println(clientkey.CheckVerified("anonymous/shared") == nil)
	// Output:
	// anonymous/2001:db8:0:1::/64
	// anonymous/203.0.113.9/32
	// false
}
