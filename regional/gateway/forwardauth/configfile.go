package forwardauth

import (
	"math"
	"net/netip"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
)

// maxIdle is the longest anonymous.idle-after.
const maxIdle = 366 * 24 * time.Hour

// maxHeaderBytes is the longest name of a header.
const maxHeaderBytes = 128

// ReadConfig reads a configuration file. The name is used in messages only. The
// error is a [strictyaml.Faults], or what Config.Validate finds once the file as
// such is right. The result wants a Decider.
//
//	proxies: [10.0.0.0/8, "fd00::/8"]
//	account-header: X-Account
//	anonymous:                     # optional, for requests without an account
//	  header: X-Forwarded-For      # or Forwarded
//	  ipv4-prefix: 32
//	  ipv6-prefix: 64
//	  max-hops: 32
//	  max-keys: 10000
//	  idle-after: 10m
//	rules:                         # or operation: NAME, or operation-header: NAME
//	  - path: /api/reports
//	    method: POST
//	    operation: report.create
//	    cost: 5
//	  - path: /
//	    operation: api
//	unmatched: deny                # or allow
//	method-header: X-Forwarded-Method
//	uri-header: X-Forwarded-Uri
//	ignore-case: false
//	cost-header: X-Cost
//	deny-as-403: false
func ReadConfig(name string, data []byte) (Config, error) {
	r := reader{Parser: strictyaml.New(name)}
	if top := r.Document(data, "the proxies, an account header, and rules"); top != nil {
		r.Mapping(top, "", r.fields())
	}
	if err := r.Err(); err != nil {
		return Config{}, err
	}
	check := r.cfg
	check.Decider = anyDecider{}
	if err := check.Validate(); err != nil {
		return Config{}, &fileError{name, err}
	}
	return r.cfg, nil
}

// fileError is what is wrong with a file as a whole.
type fileError struct {
	file string
	err  error
}

// Error names the file.
func (e *fileError) Error() string { return e.file + ": " + e.err.Error() }

// Unwrap is what Validate found.
func (e *fileError) Unwrap() error { return e.err }

// anyDecider stands for the one that the reader of the file will name.
type anyDecider struct{ decision.Decider }

// reader reads a file into a configuration.
type reader struct {
	*strictyaml.Parser

	cfg Config
}

func (r *reader) fields() []strictyaml.Field {
	c := &r.cfg
	return []strictyaml.Field{
		{Name: "proxies", Required: true, Read: func(v *strictyaml.Node, at string) { c.Proxies = r.prefixes(v, at) }},
		r.header("account-header", &c.AccountHeader),
		{Name: "anonymous", Read: r.anonymous},
		r.operation("operation", &c.Operation),
		r.header("operation-header", &c.OperationHeader),
		{Name: "rules", Read: func(v *strictyaml.Node, at string) { r.List(v, at, "rule", "rules", r.rule) }},
		{Name: "unmatched", Read: func(v *strictyaml.Node, at string) {
			c.Unmatched = Unmatched(r.Choice(v, at, string(UnmatchedDeny), string(UnmatchedAllow)))
		}},
		r.header("method-header", &c.MethodHeader),
		r.header("uri-header", &c.URIHeader),
		r.flag("ignore-case", &c.FoldCase),
		r.header("cost-header", &c.CostHeader),
		r.flag("deny-as-403", &c.DenyAs403),
	}
}

func (r *reader) header(name string, to *string) strictyaml.Field {
	return strictyaml.Field{Name: name, Read: func(v *strictyaml.Node, at string) { *to = r.Name(v, at, maxHeaderBytes, "X-Account") }}
}

func (r *reader) flag(name string, to *bool) strictyaml.Field {
	return strictyaml.Field{Name: name, Read: func(v *strictyaml.Node, at string) { *to = r.Boolean(v, at) }}
}

func (r *reader) operation(name string, to *string) strictyaml.Field {
	return strictyaml.Field{Name: name, Read: func(v *strictyaml.Node, at string) { *to = r.Name(v, at, pb.MaxOperationBytes, "report.create") }}
}

func (r *reader) rule(node *strictyaml.Node, path string) {
	var rule Rule
	required := r.operation("operation", &rule.Operation)
	required.Required = true
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "path", Required: true, Read: func(v *strictyaml.Node, at string) { rule.Path = r.rulePath(v, at) }},
		{Name: "method", Read: func(v *strictyaml.Node, at string) { rule.Method = r.method(v, at) }},
		required,
		{Name: "cost", Read: func(v *strictyaml.Node, at string) {
			rule.Cost = decision.Tokens(r.Count(v, at, "tokens", 0, math.MaxInt64))
		}},
	})
	r.cfg.Rules = append(r.cfg.Rules, rule)
}

func (r *reader) rulePath(node *strictyaml.Node, path string) string {
	before := r.Troubles()
	text := r.Name(node, path, maxURIBytes, "/api/reports")
	if r.Troubles() == before {
		if _, problem := rulePath(text); problem != "" {
			r.Faultf(node.Line, path, "%s", problem)
		}
	}
	return text
}

func (r *reader) method(node *strictyaml.Node, path string) string {
	before := r.Troubles()
	text := r.Name(node, path, maxHeaderBytes, "POST")
	if r.Troubles() == before && !validMethod(text) {
		r.Faultf(node.Line, path, "%s is not in upper-case letters: want a method such as POST", strictyaml.Quote(text))
	}
	return text
}

// prefixes reads a list of addresses and prefixes.
func (r *reader) prefixes(node *strictyaml.Node, path string) []netip.Prefix {
	var all []netip.Prefix
	r.List(node, path, "proxy", "proxies", func(item *strictyaml.Node, at string) {
		before := r.Troubles()
		text := r.Name(item, at, 64, "10.0.0.0/8")
		if r.Troubles() > before {
			return
		}
		prefix, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil {
			prefix, err = address.Prefix(address.BitLen())
		}
		if err == nil {
			err = clientkey.CheckProxies([]netip.Prefix{prefix})
		} else {
			r.Faultf(item.Line, at, "%s is neither an address nor a prefix: want one such as 10.0.0.0/8", strictyaml.Quote(text))
			return
		}
		if err != nil {
			r.Faultf(item.Line, at, "%v", err)
		}
		all = append(all, prefix)
	})
	return all
}

func (r *reader) anonymous(node *strictyaml.Node, path string) {
	a := &clientkey.Config{}
	number := func(name string, to *int, least, most int64) strictyaml.Field {
		return strictyaml.Field{Name: name, Read: func(v *strictyaml.Node, at string) { *to = int(r.Count(v, at, "", least, most)) }}
	}
	r.Mapping(node, path, []strictyaml.Field{
		{Name: "header", Required: true, Read: func(v *strictyaml.Node, at string) {
			a.Header = clientkey.Header(r.Choice(v, at, string(clientkey.XForwardedFor), string(clientkey.Forwarded)))
		}},
		number("ipv4-prefix", &a.IPv4Bits, 8, 32),
		number("ipv6-prefix", &a.IPv6Bits, 16, 128),
		number("max-hops", &a.MaxHops, 1, 1000),
		number("max-keys", &a.MaxKeys, 1, clientkey.MaxMaxKeys),
		{Name: "idle-after", Read: func(v *strictyaml.Node, at string) { a.IdleAfter = r.Duration(v, at, time.Second, maxIdle) }},
	})
	r.cfg.Anonymous = a
}
