package clientkey

import (
	"fmt"
	"net/netip"
	"strings"
)

const (
	// AnonymousPrefix begins every account of this package.
	AnonymousPrefix = "anonymous/"
	// APIKeyPrefix begins accounts that are made of API keys, see package plainjson.
	APIKeyPrefix = "key:"
	// SharedAccount pays for all clients that have no account of their own.
	SharedAccount = AnonymousPrefix + "shared"
	// MaxAccountBytes is the longest account of this package.
	MaxAccountBytes = len(AnonymousPrefix) + len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")
)

// AccountOf is the account of the prefix, such as anonymous/192.0.2.1/32.
func AccountOf(client netip.Prefix) string { return AnonymousPrefix + client.String() }

// CheckVerified refuses an account that names no verified identity: one of a
// reserved prefix. Identities are compared byte by byte, so "Anonymous/" is
// another account, and allowed. Whether an account is well-formed is another
// question, which the request's own check answers.
func CheckVerified(account string) error {
	for _, reserved := range []string{AnonymousPrefix, APIKeyPrefix} {
		if strings.HasPrefix(account, reserved) {
			return fmt.Errorf("begins with %q, which is reserved for accounts that are not verified identities: give the identity another name", reserved)
		}
	}
	return nil
}
