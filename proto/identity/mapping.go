package identity

import (
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// MaxPeers is the most names in a mapping.
const MaxPeers = 10_000

// Mapping gives names that are not of tokenlease's own form their roles. A nil
// Mapping gives none, and trusts every trust domain.
type Mapping struct {
	domains []string // whose names give roles by themselves; nil: all
	peers   map[string]entry
}

// ParseMapping reads a mapping. Its name is used in messages only.
//
//	# Names of these give a role by themselves. Left out: those of any.
//	trust-domains: [prod.example.org]
//	peers:
//	  - name: spiffe://prod.example.org/ns/limits/sa/gateway
//	    roles: [gateway]
//	  - name: dns:limiter-0.eu.example.org
//	    roles: [holder, gateway]
//	    holders: [eu/limiter-0]     # which it is; eu/* is any of region eu
//	  - name: email:anna@example.org
//	    roles: [operator]
//	    as: anna                    # recorded as; left out: the name
//
// A name is a URI as it stands in the certificate, or begins with "dns:",
// "email:" or "cn:". Of region/* each can end what the others hold, so that is
// for authorities that name a region at most.
//
// The error is a [strictyaml.Faults] with every line that is wrong; nothing of
// such a file counts.
func ParseMapping(file string, data []byte) (*Mapping, error) {
	p := strictyaml.New(file)
	m := &Mapping{peers: map[string]entry{}}
	if top := p.Document(data, "the fields peers and trust-domains"); top != nil {
		p.Mapping(top, "", []strictyaml.Field{
			{Name: "trust-domains", Read: func(v *strictyaml.Node, at string) {
				p.List(v, at, "trust domain", "trust domains", func(item *strictyaml.Node, at string) {
					m.domains = append(m.domains, readDomain(p, item, at))
				})
			}},
			{Name: "peers", Read: func(v *strictyaml.Node, at string) {
				p.List(v, at, "peer", "peers", func(item *strictyaml.Node, at string) { m.readPeer(p, item, at) })
			}},
		})
		if len(m.peers) > MaxPeers {
			p.Faultf(top.Line, "peers", "has %d names: at most %d are read", len(m.peers), MaxPeers)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func readDomain(p *strictyaml.Parser, node *strictyaml.Node, at string) string {
	name := p.Name(node, at, MaxNameBytes, "prod.example.org")
	if name != "" && !isTrustDomain(name) {
		p.Faultf(node.Line, at, "%s is no trust domain: want lower case letters, digits, '.', '-' and '_'", strictyaml.Quote(name))
	}
	return name
}

func (m *Mapping) readPeer(p *strictyaml.Parser, node *strictyaml.Node, at string) {
	var name string
	var e entry
	troubles := p.Troubles()
	if !p.Mapping(node, at, []strictyaml.Field{
		{Name: "name", Required: true, Read: func(v *strictyaml.Node, at string) { name = readName(p, v, at) }},
		{Name: "roles", Required: true, Read: func(v *strictyaml.Node, at string) {
			p.List(v, at, "role", "roles", func(item *strictyaml.Node, at string) {
				role, _ := ParseRole(p.Choice(item, at, RoleNames()...))
				e.roles |= role
			})
		}},
		{Name: "holders", Read: func(v *strictyaml.Node, at string) {
			p.List(v, at, "holder", "holders", func(item *strictyaml.Node, at string) {
				e.holders = append(e.holders, readHolder(p, item, at))
			})
		}},
		{Name: "as", Read: func(v *strictyaml.Node, at string) { e.as = p.Name(v, at, MaxNameBytes, "anna") }},
	}) || p.Troubles() > troubles {
		return
	}
	_, known := m.peers[name]
	switch {
	case known:
		p.Faultf(node.Line, at, "%s stands twice: give it all its roles in one place", strictyaml.Quote(name))
	case e.roles.Has(Holder) && len(e.holders) == 0:
		p.Faultf(node.Line, at, "has the role holder: say which, as in holders: [eu/limiter-0]")
	case !e.roles.Has(Holder) && len(e.holders) > 0:
		p.Faultf(strictyaml.LineOf(node, "holders"), at, "has holders without the role holder: add it to roles, or remove them")
	}
	m.peers[name] = e
}

// readName reads a name of a certificate.
func readName(p *strictyaml.Parser, node *strictyaml.Node, at string) string {
	name := p.Name(node, at, MaxNameBytes, "dns:limiter-0.example.org")
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case name == "": // told already
	case !isKind(kind) && !strings.HasPrefix(rest, "//"):
		p.Faultf(node.Line, at, "%s is no name of a certificate: want a URI such as spiffe://example.org/gateway, or dns:, email: or cn: in front", strictyaml.Quote(name))
	case rest == "" || rest == "//":
		p.Faultf(node.Line, at, "%s has nothing behind the colon", strictyaml.Quote(name))
	case kind+":" == kindDNS && rest != strings.ToLower(rest), isKind(kind) && kind != strings.ToLower(kind):
		p.Faultf(node.Line, at, "%s must be in lower case", strictyaml.Quote(name))
	}
	return name
}

func readHolder(p *strictyaml.Parser, node *strictyaml.Node, at string) lease.Holder {
	text := p.Name(node, at, MaxNameBytes, "eu/limiter-0")
	region, instance, ok := strings.Cut(text, "/")
	h := lease.Holder{Region: region, Instance: instance}
	valid := pb.Holder{Region: region, Instance: instance}
	if instance == AnyInstance {
		valid.Instance = "any"
	}
	if text == "" { // told already
		return h
	}
	if err := valid.Validate(); !ok || err != nil {
		p.Faultf(node.Line, at, "%s is no holder: want REGION/INSTANCE such as eu/limiter-0, or eu/* for any of region eu", strictyaml.Quote(text))
	}
	return h
}

// of is what a name is given.
func (m *Mapping) of(name string) entry {
	if m == nil {
		return entry{}
	}
	return m.peers[name]
}

// trusts says that a name may give a role by itself.
func (m *Mapping) trusts(name string) bool {
	if m == nil || m.domains == nil {
		return true
	}
	domain, _, _ := strings.Cut(strings.TrimPrefix(name, "spiffe://"), "/")
	return slices.Contains(m.domains, domain)
}
