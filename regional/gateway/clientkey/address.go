package clientkey

import (
	"net/http"
	"net/netip"
	"strings"
)

// Origin says where the address of a client comes from.
type Origin string

// The origins.
const (
	FromPeer   Origin = "peer"       // of the connection
	FromHeader Origin = "header"     // of a trusted proxy
	Unreadable Origin = "unreadable" // the proxy's own, because its header names no client
	NoAddress  Origin = "none"       // the peer has none, as on a Unix socket
)

// Peer is the address of a peer as net/http tells it, address and port or an
// address alone, unmapped and without its zone; false if there is none.
func Peer(remoteAddr string) (netip.Addr, bool) {
	if peer, err := netip.ParseAddrPort(remoteAddr); err == nil {
		return plain(peer.Addr()), true
	}
	peer, err := netip.ParseAddr(remoteAddr)
	return plain(peer), err == nil
}

// Within says whether the address is one of the proxies. The address must be
// plain, as Peer returns it.
func Within(address netip.Addr, proxies []netip.Prefix) bool {
	for _, p := range proxies {
		if p.Contains(address) {
			return true
		}
	}
	return false
}

// plain is the address without a zone, and as IPv4 where it is one in IPv6.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Client is the prefix of the client that sent a request. Its prefix is not valid
// where the origin is NoAddress.
func (k *Keys) Client(remoteAddr string, header http.Header) (netip.Prefix, Origin) {
	peer, ok := Peer(remoteAddr)
	if !ok {
		return netip.Prefix{}, NoAddress
	}
	client, origin := peer, FromPeer
	if k.cfg.Header != NoHeader && Within(peer, k.cfg.Trusted) {
		client, origin = k.behind(peer, header)
	}
	bits := k.cfg.IPv6Bits
	if client.Is4() {
		bits = k.cfg.IPv4Bits
	}
	prefix, err := client.Prefix(bits)
	if err != nil { // not reached: the lengths are valid for their families
		return netip.Prefix{}, NoAddress
	}
	return prefix, origin
}

// behind is the client behind a trusted proxy.
func (k *Keys) behind(proxy netip.Addr, header http.Header) (netip.Addr, Origin) {
	hops := hopsOf(k.cfg.Header, header[string(k.cfg.Header)])
	client, origin := proxy, FromPeer
	for range k.cfg.MaxHops {
		entry, more := hops()
		if !more {
			return client, origin // all are trusted, or there is no header
		}
		hop, ok := parseNode(entry)
		if !ok {
			return proxy, Unreadable
		}
		client, origin = hop, FromHeader
		if !Within(hop, k.cfg.Trusted) {
			return client, origin
		}
	}
	if _, more := hops(); more {
		return proxy, Unreadable
	}
	return client, origin
}

// maxNodeBytes is the longest entry that can name an address: IPv6 in its longest
// form, with a zone, brackets and a port.
const maxNodeBytes = 96

// parseNode reads an address, with or without a port, as the entries of both
// headers have it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80. The port may be a name, as RFC 7239 allows, and tells nothing.
func parseNode(node string) (netip.Addr, bool) {
	if node == "" || len(node) > maxNodeBytes {
		return netip.Addr{}, false
	}
	host, port, ok := splitPort(node)
	if !ok || port != "" && !validPort(port[1:]) {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(host)
	return plain(address), err == nil
}

// splitPort takes a node apart. The port keeps its colon; it is empty if there is
// none. Brackets hold IPv6 only.
func splitPort(node string) (host, port string, ok bool) {
	rest, bracketed := strings.CutPrefix(node, "[")
	switch {
	case bracketed:
		host, port, ok = strings.Cut(rest, "]")
		return host, port, ok && strings.Contains(host, ":") && (port == "" || port[0] == ':')
	case strings.Count(node, ":") == 1:
		colon := strings.IndexByte(node, ':')
		return node[:colon], node[colon:], true
	}
	return node, "", true
}

// validPort says whether a text is a port: up to five digits, or an obfuscated
// one.
func validPort(port string) bool {
	digits := port
	const all = "0123456789"
	if name, obfuscated := strings.CutPrefix(port, "_"); obfuscated {
		return name != "" && strings.Trim(name, all+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == ""
	}
	return digits != "" && len(digits) <= 5 && strings.Trim(digits, all) == ""
}
