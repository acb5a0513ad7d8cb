package remote

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// Defaults of Config.
const (
	// DefaultTimeout leaves time for a limiter to fetch a first grant, and for one
	// more attempt. Usual answers take a few milliseconds.
	DefaultTimeout = 900 * time.Millisecond
	// DefaultHintFor is the time in which policies reach limiters.
	DefaultHintFor = 30 * time.Second
	// DefaultMaxHints bounds the memory of hints to a few megabytes.
	DefaultMaxHints = 10_000
)

// Config of a client.
type Config struct {
	// URLs of limiters of this region, such as http://limiter:8080. Required.
	URLs []string
	// HTTPClient makes the requests. nil: HTTPClient(nil).
	HTTPClient connect.HTTPClient
	// Options of the Connect clients, such as interceptors.
	Options []connect.ClientOption
	// Timeout bounds a decision, both attempts together, beyond the MaxWait of its
	// request; and a settlement. 0: DefaultTimeout.
	Timeout time.Duration
	// NoRetry makes one attempt alone, and leaves requests without an ID as they are.
	NoRetry bool
	// HintFor bounds how long a deny hint is used. 0: DefaultHintFor. Negative: there
	// are none.
	HintFor time.Duration
	// MaxHints bounds the keys with hints; the oldest go first. 0: DefaultMaxHints.
	MaxHints int
	// Now reads the clock, monotonic as time.Now is. nil: time.Now. A test's clock
	// moves the hints alone: timeouts are real.
	Now func() time.Time
	// NewID makes a decision ID that nobody else makes, of 1 to 128 printable ASCII
	// characters without spaces. nil: 130 random bits.
	NewID func() string
}

// Validate checks the fields together.
func (c Config) Validate() error {
	var faults []error
	if len(c.URLs) == 0 {
		faults = append(faults, errors.New("no limiter URL"))
	}
	for _, raw := range c.URLs {
		if u, err := url.Parse(raw); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("limiter URL %.200q is not of the form http://host:port", raw))
		}
	}
	if c.Timeout < 0 || c.MaxHints < 0 {
		faults = append(faults, errors.New("the timeout and the number of hints must not be negative"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.HTTPClient == nil {
		c.HTTPClient = HTTPClient(nil)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.HintFor == 0 {
		c.HintFor = DefaultHintFor
	}
	if c.MaxHints == 0 {
		c.MaxHints = DefaultMaxHints
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	return c
}

// New makes a client. It connects when it is asked first.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, hints: newHints(cfg.HintFor, cfg.MaxHints)}
	for _, address := range cfg.URLs {
		c.limiters = append(c.limiters, &limiter{rpc: tokenleasev1connect.NewLimiterClient(cfg.HTTPClient, address, cfg.Options...)})
	}
	return c, nil
}

// Connections of HTTPClient.
const (
	dialTimeout = 2 * time.Second
	pingAfter   = 2 * time.Second
	pingTimeout = 2 * time.Second
	idleTimeout = 2 * time.Minute
)

// HTTPClient makes a client that speaks HTTP/2, in clear text to http URLs and with
// settings to https URLs; nil takes the system's roots. It pings connections on
// which nothing has come for two seconds, and closes those that do not answer
// within two more, so a silent cut costs few decisions and no grant.
func HTTPClient(settings *tls.Config) *http.Client {
	return httpClient(settings, (&net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * pingAfter}).DialContext)
}

func httpClient(settings *tls.Config, dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{
		Protocols: &protocols, DialContext: dial, TLSClientConfig: settings, ForceAttemptHTTP2: true, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: dialTimeout,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}}
}
