package clientkey

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Header is the one header that is read of trusted proxies.
type Header string

// The headers that can be read.
const (
	NoHeader      Header = "" // the peer is the client, always
	XForwardedFor Header = "X-Forwarded-For"
	Forwarded     Header = "Forwarded" // RFC 7239
)

// Defaults of Config.
const (
	DefaultIPv4Bits  = 32
	DefaultIPv6Bits  = 64
	DefaultMaxHops   = 32
	DefaultMaxKeys   = 10_000
	DefaultIdleAfter = 10 * time.Minute
)

// MaxMaxKeys is the largest Config.MaxKeys.
const MaxMaxKeys = 10_000_000

// Config says how clients are found and how many have an account of their own.
// The zero value takes the peer of the connection as the client.
type Config struct {
	// Trusted are the proxies whose Header is read. IPv4 prefixes are written as
	// such, not as mapped ones.
	Trusted []netip.Prefix
	// Header that is read of them. All others are ignored.
	Header Header
	// IPv4Bits and IPv6Bits are how much of an address tells clients apart: 8 to 32
	// and 16 to 128. Defaults 32 and 64.
	IPv4Bits, IPv6Bits int
	// MaxHops is how many entries of the header are followed, 1 to 1,000. Default 32.
	MaxHops int
	// MaxKeys is how many clients have an account of their own at a time, 1 to
	// 10,000,000. Each takes about 200 bytes. Default 10,000.
	MaxKeys int
	// IdleAfter is how long a client keeps its account without a request. Default
	// 10 minutes.
	IdleAfter time.Duration

	// Mono is a monotonic clock, from any origin. Default: that of this machine.
	Mono func() time.Duration
	// Registerer takes the metrics; nil: they go nowhere. Their labels name no
	// client. It takes those of one table: share the table in a process, whose bound
	// it is.
	Registerer prometheus.Registerer
}

// Validate checks the fields. It joins all that is wrong.
func (c Config) Validate() error {
	var faults []error
	between := func(name string, value, least, most int) {
		if value != 0 && (value < least || value > most) {
			faults = append(faults, fmt.Errorf("%s is %d: want %d to %d, or 0 for the default", name, value, least, most))
		}
	}
	between("IPv4 prefix length", c.IPv4Bits, 8, 32)
	between("IPv6 prefix length", c.IPv6Bits, 16, 128)
	between("number of hops", c.MaxHops, 1, 1000)
	between("number of keys", c.MaxKeys, 1, MaxMaxKeys)
	if c.IdleAfter < 0 {
		faults = append(faults, fmt.Errorf("the idle time is %v: want more than 0, or 0 for the default", c.IdleAfter))
	}
	if err := CheckProxies(c.Trusted); err != nil {
		faults = append(faults, err)
	}
	switch c.Header {
	case NoHeader:
		if len(c.Trusted) > 0 {
			faults = append(faults, errors.New("proxies are trusted, but no header of them is read: name X-Forwarded-For or Forwarded, whichever they set"))
		}
	case XForwardedFor, Forwarded:
		if len(c.Trusted) == 0 {
			faults = append(faults, fmt.Errorf("%s is to be read, but no proxy is trusted: name the addresses of the proxies", c.Header))
		}
	default:
		faults = append(faults, fmt.Errorf("header %.40q is not known: want X-Forwarded-For or Forwarded", string(c.Header)))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("clientkey: %w", err)
	}
	return nil
}

// CheckProxies says what is wrong with a list of trusted proxies.
func CheckProxies(proxies []netip.Prefix) error {
	var faults []error
	for _, p := range proxies {
		switch {
		case !p.IsValid():
			faults = append(faults, errors.New("a trusted proxy has no valid prefix: want one such as 10.0.0.0/8"))
		case p.Addr().Is4In6():
			faults = append(faults, fmt.Errorf("trusted proxy %v is an IPv4 address in IPv6: write it as IPv4", p))
		case p.Bits() == 0:
			faults = append(faults, fmt.Errorf("trusted proxy %v is everyone, who could then claim to be anyone: name the addresses of the proxies", p))
		case p != p.Masked():
			faults = append(faults, fmt.Errorf("trusted proxy %v has bits beyond its length: want %v", p, p.Masked()))
		}
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults(since func() time.Duration) Config {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&c.IPv4Bits, DefaultIPv4Bits)
	set(&c.IPv6Bits, DefaultIPv6Bits)
	set(&c.MaxHops, DefaultMaxHops)
	set(&c.MaxKeys, DefaultMaxKeys)
	if c.IdleAfter == 0 {
		c.IdleAfter = DefaultIdleAfter
	}
	if c.Mono == nil {
		c.Mono = since
	}
	c.Trusted = slices.Clone(c.Trusted)
	return c
}
