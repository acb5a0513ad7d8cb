package main

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"log/slog"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
)

// plaintextFlag allows clear text beyond loopback.
const plaintextFlag = "allow-plaintext"

// tlsSettings say how a server proves who it is, and how it knows its callers.
type tlsSettings struct {
	cert           string
	key            string
	clientCA       string
	roles          string
	maxAge         time.Duration
	allowPlaintext bool
}

// register adds the settings to flags.
func (s *tlsSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.cert, "tls-cert", "", "`file` of the certificate to show; with it everything is served over TLS")
	flags.StringVar(&s.key, "tls-key", "", "`file` of its key")
	flags.StringVar(&s.clientCA, "tls-client-ca", "", "`file` of the authorities that callers are checked by")
	flags.StringVar(&s.roles, "roles", "", "YAML `file` of the roles of names that are not of tokenlease's own form")
	flags.DurationVar(&s.maxAge, "connection-max-age", identity.DefaultConnectionMaxAge, "when a connection is closed, give or take a fifth")
	registerPlaintext(flags, &s.allowPlaintext)
}

func registerPlaintext(flags *pflag.FlagSet, allow *bool) {
	flags.BoolVar(allow, plaintextFlag, false, "allow clear text on other addresses than loopback: whoever is on the way reads and changes everything")
}

// on says that there is a certificate.
func (s *tlsSettings) on() bool { return s.cert != "" }

// validate checks the settings together. Listeners are the addresses to serve on
// by the names of their flags.
func (s *tlsSettings) validate(listeners ...[2]string) error {
	given := 0
	for _, file := range []string{s.cert, s.key, s.clientCA} {
		if file != "" {
			given++
		}
	}
	switch {
	case given != 0 && given != 3:
		return usageErrorf("--tls-cert, --tls-key and --tls-client-ca need each other: the first two say who this is, the third by whom callers are vouched for")
	case s.roles != "" && !s.on():
		return usageErrorf("--roles needs --tls-cert, --tls-key and --tls-client-ca: without certificates nobody has a name")
	case s.maxAge < time.Second || s.maxAge > 24*time.Hour:
		return usageErrorf("--connection-max-age %v must be 1s to 24h", s.maxAge)
	}
	if s.on() {
		return nil
	}
	for _, l := range listeners {
		if err := checkPlaintext(l[0], l[1], s.allowPlaintext); err != nil {
			return err
		}
	}
	return nil
}

// checkPlaintext refuses to serve clear text beyond loopback.
func checkPlaintext(flag, address string, allowed bool) error {
	if allowed || address == "" || isLoopback(address) {
		return nil
	}
	return usageErrorf("--%s %s is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --%s", flag, address, plaintextFlag)
}

// encrypts says whether a listener beside the main one is served over TLS: not on
// loopback, where a gateway or a scraper of the same machine asks.
func (s *tlsSettings) encrypts(address string) bool {
	return s.on() && !s.allowPlaintext && !isLoopback(address)
}

// open reads the files. nil: there are none, everything is clear text.
func (s *tlsSettings) open(reg prometheus.Registerer, log *slog.Logger, paths []identity.Path) (*security, error) {
	if !s.on() {
		return nil, nil //nolint:nilnil // clear text is no error
	}
	files, err := tlsfiles.Open(tlsfiles.Config{
		Use: "server", CertFile: s.cert, KeyFile: s.key, CAFile: s.clientCA, RolesFile: s.roles, Registerer: reg, Logger: log,
	})
	if err != nil {
		return nil, usageError{err}
	}
	guard := identity.NewGuard(identity.Config{
		Trust: files.Trust, ConnectionMaxAge: s.maxAge, Paths: paths, Registerer: reg, Logger: log,
	})
	return &security{files: files, guard: guard, maxAge: s.maxAge, log: log}, nil
}

// isLoopback says that only this machine reaches an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopbackHost(host)
}

func isLoopbackHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// isClear says that a URL leads over a network in clear text.
func isClear(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !isLoopbackHost(u.Hostname())
}
