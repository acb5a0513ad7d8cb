package forwardauth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Defaults of Config.
const (
	DefaultMethodHeader = "X-Forwarded-Method"
	DefaultURIHeader    = "X-Forwarded-Uri"
)

// MaxRules is the most rules of a Config.
const MaxRules = 1000

// Unmatched says what is answered where no rule covers a request, or where the
// header that should name its operation is missing.
type Unmatched string

// The answers.
const (
	// UnmatchedDeny answers 403. The default.
	UnmatchedDeny Unmatched = "deny"
	// UnmatchedAllow answers 200, whoever asks. It is counted.
	UnmatchedAllow Unmatched = "allow"
)

// Rule gives requests of a method and a path their operation.
type Rule struct {
	// Method in upper case; empty: any.
	Method string
	// Path that the rule covers, with all that is below it: "/" or segments without
	// escapes, such as /api/reports, without a slash at the end.
	Path string
	// Operation of the budget.
	Operation string
	// Cost of a request. Not given: the policy's default.
	Cost decision.Cost
}

// Config of a handler.
type Config struct {
	// Decider decides. Required.
	Decider decision.Decider
	// Proxies may ask. Required.
	Proxies []netip.Prefix

	// AccountHeader has the verified account. Required unless anonymous requests are
	// allowed.
	AccountHeader string
	// Anonymous allows requests without an account: they are budgeted to the client's
	// address. Its Trusted are Proxies if there are none, and its metrics go to
	// Registerer. nil: an account is required, which is safer, since a client that got
	// its proxy to drop the header would be anonymous.
	Anonymous *clientkey.Config
	// Keys replace Anonymous, for a table that is shared with other handlers.
	Keys *clientkey.Keys

	// Operation of all requests, or
	Operation string
	// OperationHeader has the operation, or
	OperationHeader string
	// Rules find it by method and path. Exactly one of the three is set.
	Rules []Rule
	// Unmatched is the answer to what has no operation. Default UnmatchedDeny.
	Unmatched Unmatched

	// MethodHeader has the method of the original request, for rules that have one.
	// Default X-Forwarded-Method.
	MethodHeader string
	// URIHeader has its path and query, as the client sent them. Default
	// X-Forwarded-Uri; X-Original-URI is usual with NGINX.
	URIHeader string
	// FoldCase is for services that take no notice of the case of a path.
	FoldCase bool
	// CostHeader has the cost in tokens, and goes before a rule's. Empty: none is read.
	// The proxy must see to it that no client sets it.
	CostHeader string

	// DenyAs403 answers every denial with 403, for NGINX, and puts its own status into
	// FieldStatus. What could not be decided stays 5xx.
	DenyAs403 bool
	// Answers writes them.
	Answers httpanswer.Writer
	// Registerer takes the metrics; nil: they go nowhere. It takes those of one
	// handler.
	Registerer prometheus.Registerer
}

// Validate checks the fields together. It joins all that is wrong.
func (c Config) Validate() error {
	faults := []error{c.validateIdentity(), c.validateOperation(), c.validateHeaders(), c.Answers.Validate()}
	if c.Decider == nil {
		faults = append(faults, errors.New("there is no decider"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("forwardauth: %w", err)
	}
	return nil
}

func (c Config) validateIdentity() error {
	var faults []error
	if len(c.Proxies) == 0 {
		faults = append(faults, errors.New("no proxy is trusted: name the addresses of those that may ask"))
	}
	if err := clientkey.CheckProxies(c.Proxies); err != nil {
		faults = append(faults, err)
	}
	if c.AccountHeader == "" && c.Anonymous == nil && c.Keys == nil {
		faults = append(faults, errors.New("no account header: name the one that the proxy puts the verified account into, or allow anonymous requests"))
	}
	switch {
	case c.Anonymous != nil && c.Keys != nil:
		faults = append(faults, errors.New("anonymous requests have both a configuration and a table of keys: want one of them"))
	case c.Anonymous != nil:
		faults = append(faults, c.anonymous().Validate())
		if c.Anonymous.Header == clientkey.NoHeader {
			faults = append(faults, errors.New("anonymous requests need the header in which the proxy names the client: X-Forwarded-For or Forwarded"))
		}
	}
	return errors.Join(faults...)
}

// anonymous is its configuration with this handler's defaults.
func (c Config) anonymous() clientkey.Config {
	a := *c.Anonymous
	if len(a.Trusted) == 0 && a.Header != clientkey.NoHeader {
		a.Trusted = c.Proxies
	}
	a.Registerer = c.Registerer
	return a
}

func (c Config) validateOperation() error {
	var faults []error
	ways := 0
	for _, set := range []bool{c.Operation != "", c.OperationHeader != "", len(c.Rules) > 0} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		faults = append(faults, errors.New("want exactly one of an operation, an operation header and rules"))
	}
	if c.Operation != "" {
		faults = append(faults, checkOperation(c.Operation))
	}
	switch c.Unmatched {
	case "", UnmatchedDeny, UnmatchedAllow:
	default:
		faults = append(faults, fmt.Errorf("unmatched is %.40q: want deny or allow", string(c.Unmatched)))
	}
	if c.Operation != "" && c.Unmatched == UnmatchedAllow {
		faults = append(faults, errors.New("unmatched is allow, but a fixed operation matches everything: leave it out"))
	}
	_, err := compile(c.Rules, c.FoldCase)
	return errors.Join(append(faults, err)...)
}

// checkOperation says what is wrong with the name of an operation.
func checkOperation(operation string) error {
	if err := (&pb.BudgetKey{Account: "any", Operation: operation}).Validate(); err != nil {
		return err
	}
	return nil
}

// validateHeaders checks the names of headers, and that no two are the same.
func (c Config) validateHeaders() error {
	var faults []error
	used := map[string]string{}
	for _, h := range []struct{ field, name string }{
		{"account header", c.AccountHeader},
		{"operation header", c.OperationHeader},
		{"method header", orDefault(c.MethodHeader, DefaultMethodHeader)},
		{"URI header", orDefault(c.URIHeader, DefaultURIHeader)},
		{"cost header", c.CostHeader},
	} {
		if h.name == "" {
			continue
		}
		canonical := textproto.CanonicalMIMEHeaderKey(h.name)
		if !isToken(h.name) || canonical == "Host" {
			faults = append(faults, fmt.Errorf("%s %.40q is no name of a header that can be read: want one such as X-Account", h.field, h.name))
		} else if other := used[canonical]; other != "" {
			faults = append(faults, fmt.Errorf("%s and %s are both %s: want two headers", other, h.field, canonical))
		}
		used[canonical] = h.field
	}
	return errors.Join(faults...)
}

// isToken says whether a text is a name of a header.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
