package etcdstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
)

// Defaults of Config.
const (
	DefaultDialTimeout    = 5 * time.Second
	DefaultRequestTimeout = 10 * time.Second
)

// Config says how to reach an etcd cluster.
type Config struct {
	// Endpoints are the client URLs of the members, such as
	// "https://etcd-1:2379". All use https or all use http; without a scheme,
	// TLS decides. At least one is required.
	Endpoints []string
	// TLS secures the connections; nil for clear text, or for the system's roots
	// if the endpoints use https.
	TLS *tls.Config
	// CurrentTLS, if not nil, is asked instead of TLS before each new connection, so
	// that certificates and authorities can be renewed. It never returns nil.
	CurrentTLS func() *tls.Config
	// Username and Password are for etcd's own authentication; both or none.
	// They are never logged.
	Username string
	Password string
	// DialTimeout bounds Open. 0: DefaultDialTimeout.
	DialTimeout time.Duration
	// RequestTimeout bounds each call, connecting again included, if its context
	// does not end earlier. 0: DefaultRequestTimeout.
	RequestTimeout time.Duration
	// MaxTxnOps must not be above the members' --max-txn-ops.
	// 0: store.DefaultMaxTxnOps, which is etcd's default.
	MaxTxnOps int
	// Logger receives the client's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Validate checks the fields together and reports all faults.
func (c Config) Validate() error {
	var faults []error
	report := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Endpoints) == 0 {
		report("no endpoints: name at least one, such as https://etcd-1:2379")
	}
	schemes := make(map[string]bool)
	for _, endpoint := range c.Endpoints {
		scheme, address := splitEndpoint(endpoint)
		schemes[scheme] = true
		switch {
		case address == "":
			report("endpoint %q has no address: write it as https://host:2379", endpoint)
		case scheme != "" && scheme != "http" && scheme != "https":
			report("endpoint %q: scheme %q is not http or https", endpoint, scheme)
		case scheme == "http" && c.secured():
			report("endpoint %q would be used without TLS although TLS is configured: use https", endpoint)
		}
	}
	if len(schemes) > 1 {
		report("endpoints mix different schemes: use https for all, or http for all")
	}
	if (c.Username == "") != (c.Password == "") {
		report("a user name without password, or a password without user name: give both or none")
	}
	if c.DialTimeout < 0 || c.RequestTimeout < 0 || c.MaxTxnOps < 0 {
		report("dial timeout %v, request timeout %v and transaction operations %d must not be negative",
			c.DialTimeout, c.RequestTimeout, c.MaxTxnOps)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("etcdstore: invalid configuration: %w", err)
	}
	return nil
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.Endpoints = slices.Clone(c.Endpoints)
	if c.CurrentTLS != nil {
		c.TLS = c.CurrentTLS()
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = store.DefaultMaxTxnOps
	}
	return c
}

// usesTLS reports whether the endpoint is reached over TLS.
func (c Config) usesTLS(endpoint string) bool {
	scheme, _ := splitEndpoint(endpoint)
	return scheme == "https" || scheme == "" && c.secured()
}

// secured says that the connections have a TLS configuration.
func (c Config) secured() bool { return c.TLS != nil || c.CurrentTLS != nil }

// splitEndpoint cuts "scheme://address"; the scheme may be missing.
func splitEndpoint(endpoint string) (scheme, address string) {
	if scheme, address, found := strings.Cut(endpoint, "://"); found {
		return scheme, address
	}
	return "", endpoint
}

// String shows the configuration without its secrets.
func (c Config) String() string {
	return fmt.Sprintf("etcd %s (TLS %v, authenticated %v)", strings.Join(c.Endpoints, ","), c.secured(), c.Username != "")
}

// GoString is String, so that no format verb shows a secret.
func (c Config) GoString() string { return c.String() }

// LogValue is String, for package slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
