// Package clientkey names the accounts that unauthenticated traffic is budgeted
// to, from the addresses of clients.
//
// # Which address
//
// The peer of the connection is the client, unless it is a trusted proxy. Of a
// trusted proxy one configured header is read, X-Forwarded-For or Forwarded
// (RFC 7239), from its end: each entry was written by the hop whose address is the
// next entry, and the last by the peer. The client is the first entry from the
// right that is no trusted proxy. What stands left of it was written by the client
// itself and is never looked at. If every entry is a trusted proxy, the client is
// the first entry.
//
// All other headers are ignored, and of a peer that is not trusted every header
// is. So trust only proxies that append the address that they see, or set the
// header anew.
//
// An entry that names no address ("unknown", an obfuscated name, garbage, nothing)
// tells nothing, and what is left of it may be forged. Then, as when there are
// more hops than are followed, the proxy that is the peer pays itself: all that it
// sends unreadably shares the one budget of its own address. So garbage never gets
// a budget of its own, whatever its value.
//
// A Forwarded header is read as a whole, because quotes may hide commas, so that a
// client can make it unreadable: it gains the proxy's budget, which it shares with
// all who do so. X-Forwarded-For leaves it nothing.
//
// # Which account
//
// An address is unmapped (::ffff:192.0.2.1 is 192.0.2.1), its zone is dropped, and
// it is cut to a prefix, since one subscriber has all of an IPv6 /64 at the least:
//
//	anonymous/192.0.2.1/32
//	anonymous/2001:db8:0:1::/64
//	anonymous/shared
//
// The prefixes "anonymous/" and "key:" are reserved: [CheckVerified] refuses a
// verified identity that begins with one, so that nobody can sign up for the
// budget of others.
//
// # How many
//
// At most MaxKeys prefixes have an account of their own at a time, in one process.
// Past that, a prefix that is not among them is budgeted to anonymous/shared, one
// coarse budget for all of them: an attacker with many addresses creates no
// further budgets. Prefixes that are among them keep their own for as long as they
// are used; one leaves when it has not been used for IdleAfter. It gets the same
// account when it returns, so leaving is no way to a fresh budget.
//
// Each process counts for itself. A client may therefore have its own budget in
// one and share in another; each budget is strict all the same. Let IdleAfter be at
// least as long as an anonymous budget takes to fill: then it is full again when its
// client leaves, and no more than MaxKeys budgets and the shared one are ever in
// use for one process.
//
// Everything here may be used by any number of goroutines.
package clientkey
