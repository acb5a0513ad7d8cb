package identity

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// MaxNameBytes is the longest name that gives a role. Longer ones, and those
	// with control characters, are no names.
	MaxNameBytes = 256
	// AnyInstance is the instance of a holder that may be any of its region. Only a
	// Mapping gives it.
	AnyInstance = "*"

	// pathRoot begins the path of a URI that gives a role by itself.
	pathRoot = "/tokenlease/"
)

// Peer is a caller as its certificate names it.
type Peer struct {
	// Name under which it is recorded: the first of Names that gives a role, or that
	// which the mapping has for it; without a role the first name of all.
	Name string
	// Names are all names in the certificate: "spiffe://..." and other URIs as they
	// are, others as "dns:NAME", "email:ADDRESS" and "cn:COMMON NAME".
	Names []string
	// Roles of all names together.
	Roles Roles
	// Holders are those that it may act as. Instance may be AnyInstance.
	Holders []lease.Holder
	// Expires is when the certificate does.
	Expires time.Time
}

// MayBe says that the peer may act as the holder.
func (p *Peer) MayBe(region, instance string) bool {
	return slices.ContainsFunc(p.Holders, func(h lease.Holder) bool {
		return h.Region == region && (h.Instance == instance || h.Instance == AnyInstance)
	})
}

// Identify reads the names in a certificate and the roles that they give. It does
// not verify the certificate. mapping may be nil.
func Identify(cert *x509.Certificate, mapping *Mapping) Peer {
	peer := Peer{Expires: cert.NotAfter, Names: namesIn(cert)}
	for _, name := range peer.Names {
		peer.take(name, mapping.of(name)) // first: it may have another name to record
		if mapping.trusts(name) {
			peer.take(name, byItself(name))
		}
	}
	switch {
	case peer.Name != "":
	case len(peer.Names) > 0:
		peer.Name = peer.Names[0]
	default:
		peer.Name = "a certificate without a name"
	}
	return peer
}

// entry is what one name gives.
type entry struct {
	roles   Roles
	holders []lease.Holder
	as      string // name to record; empty: the name itself
}

// take adds what a name gives.
func (p *Peer) take(name string, e entry) {
	if e.roles == 0 {
		return
	}
	p.Roles |= e.roles
	for _, h := range e.holders {
		if !slices.Contains(p.Holders, h) {
			p.Holders = append(p.Holders, h)
		}
	}
	if p.Name == "" {
		p.Name = name
		if e.as != "" {
			p.Name = e.as
		}
	}
}

// namesIn are the names in a certificate, in the order in which they count.
func namesIn(cert *x509.Certificate) []string {
	var names []string
	add := func(name string) {
		if len(name) <= MaxNameBytes && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, u := range cert.URIs {
		if u.Scheme != "" && !isKind(u.Scheme) {
			add(u.String())
		}
	}
	for _, name := range cert.DNSNames {
		add(kindDNS + strings.ToLower(name))
	}
	for _, address := range cert.EmailAddresses {
		add(kindEmail + address)
	}
	if cert.Subject.CommonName != "" {
		add(kindCN + cert.Subject.CommonName)
	}
	return names
}

// What names of other kinds than URIs begin with.
const (
	kindDNS   = "dns:"
	kindEmail = "email:"
	kindCN    = "cn:"
)

// isKind says that a scheme would pass for a name of another kind than a URI.
func isKind(scheme string) bool {
	return slices.Contains([]string{kindDNS, kindEmail, kindCN}, strings.ToLower(scheme)+":")
}

// URI is the name that gives a role by itself. The parts are a region and an
// instance for a holder, and one name for every other role. It is empty if they
// are not, or if the trust domain or a part has characters that it may not have.
func URI(trustDomain string, role Roles, parts ...string) string {
	uri := "spiffe://" + trustDomain + pathRoot + role.String() + "/" + strings.Join(parts, "/")
	if byItself(uri).roles != role {
		return ""
	}
	return uri
}

// byItself is what a name gives without a mapping: nothing, unless it is exactly
// of the form in the package documentation.
func byItself(name string) entry {
	rest, ok := strings.CutPrefix(name, "spiffe://")
	if !ok {
		return entry{}
	}
	domain, path, ok := strings.Cut(rest, "/")
	if !ok || !isTrustDomain(domain) {
		return entry{}
	}
	if path, ok = strings.CutPrefix("/"+path, pathRoot); !ok {
		return entry{}
	}
	segments := strings.Split(path, "/")
	role, ok := ParseRole(segments[0])
	if !ok || slices.ContainsFunc(segments[1:], func(s string) bool { return !isSegment(s) }) {
		return entry{}
	}
	if role == Holder {
		if len(segments) != 3 {
			return entry{}
		}
		return entry{roles: role, holders: []lease.Holder{{Region: segments[1], Instance: segments[2]}}}
	}
	if len(segments) != 2 {
		return entry{}
	}
	return entry{roles: role}
}

// isSegment says that a segment of a path is a name such as holders have. Such a
// name needs no escape, so that two different ones never mean the same.
func isSegment(s string) bool {
	return (&pb.Holder{Region: s, Instance: s}).Validate() == nil
}

// isTrustDomain says that a text is one as SPIFFE has them: lower case letters,
// digits, '.', '-' and '_', without a port or a user.
func isTrustDomain(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789.-_"
	return s != "" && len(s) < MaxNameBytes && strings.Trim(s, allowed) == ""
}
