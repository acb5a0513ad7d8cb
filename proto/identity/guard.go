package identity

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

const (
	// DefaultConnectionMaxAge is how old a connection becomes, with a fifth of
	// jitter both ways.
	DefaultConnectionMaxAge = 10 * time.Minute
	// ageGrace is how much longer requests that are under way may take. It is more
	// than the longest that a Sync hangs.
	ageGrace = 90 * time.Second
	// logsPerSecond and logBurst bound what refusals write to the log.
	logsPerSecond, logBurst = 1, 10
)

// Path opens a path that is no method, with all that is below it if Prefix ends in
// a slash.
type Path struct {
	// Prefix is the path. Of several that fit the longest counts.
	Prefix string
	// Read are the roles that may GET it.
	Read Roles
	// Write are the roles that may use every other HTTP method.
	Write Roles
	// Open is for everybody, also without a certificate, and with any HTTP method.
	Open bool
}

// Config of a guard.
type Config struct {
	// Trust is what is in force now. Required; called for every request.
	Trust func() *Trust
	// ConnectionMaxAge is when a connection is closed in order, give or take a fifth;
	// what is still under way a minute and a half later is cut. Default
	// DefaultConnectionMaxAge.
	ConnectionMaxAge time.Duration
	// Paths that are open, besides the methods.
	Paths []Path

	Registerer prometheus.Registerer // nil: metrics go nowhere
	Logger     *slog.Logger          // nil discards
}

// Guard decides which requests are let in.
type Guard struct {
	cfg     Config
	refused *prometheus.CounterVec // code, method
	aged    prometheus.Counter
	logs    *rate.Limiter
	writer  *connect.ErrorWriter
	dryRuns chan struct{} // has an element for each that is under way: see untilRead
}

// NewGuard makes a guard. It panics without Trust, or if the registerer has one
// already.
func NewGuard(cfg Config) *Guard {
	if cfg.Trust == nil {
		panic("identity: a guard without Trust would let nobody in")
	}
	if cfg.ConnectionMaxAge <= 0 {
		cfg.ConnectionMaxAge = DefaultConnectionMaxAge
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{
		cfg: cfg, logs: rate.NewLimiter(logsPerSecond, logBurst), writer: connect.NewErrorWriter(),
		dryRuns: make(chan struct{}, maxDryRuns),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tokenlease", Subsystem: "identity", Name: "refused_total",
			Help: "Requests refused for who asked, by code and method: unauthenticated, permission_denied.",
		}, []string{"code", "method"}),
		aged: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "tokenlease", Subsystem: "identity", Name: "connections_cut_total",
			Help: "Connections that were cut because requests on them outlasted the connection's age.",
		}),
	}
	cfg.Registerer.MustRegister(g.refused, g.aged)
	return g
}

// refusal is why a request is not let in.
type refusal struct {
	code   connect.Code
	method string // as metrics call it
	peer   string // name of the caller; empty: it has none that is valid
	err    error
}

// enter lets the caller of a procedure or path in, or tells why not: one that has a
// role for which it is open, or one of also. The peer is nil where everybody may come in.
func (g *Guard) enter(c *connection, httpMethod, path string, also Roles) (*Peer, *refusal) {
	roles, open := g.rule(httpMethod, path)
	if open {
		return nil, nil
	}
	v := c.verdict(g)
	if v.peer == nil {
		return nil, &refusal{code: connect.CodeUnauthenticated, method: methodName(path), err: v.err}
	}
	if roles == anybody || (roles | also).Has(v.peer.Roles) {
		return v.peer, nil
	}
	return nil, &refusal{
		code: connect.CodePermissionDenied, method: methodName(path), peer: v.peer.Name,
		err: needs(path, roles, v.peer),
	}
}

// rule is which roles may ask for a path, and whether it is open to everybody.
func (g *Guard) rule(httpMethod, path string) (roles Roles, open bool) {
	if roles, known := methods[path]; known {
		return roles, false
	}
	var best Path
	for _, p := range g.cfg.Paths {
		fits := path == p.Prefix || strings.HasSuffix(p.Prefix, "/") && strings.HasPrefix(path, p.Prefix)
		if fits && len(p.Prefix) > len(best.Prefix) {
			best = p
		}
	}
	if httpMethod == http.MethodGet || httpMethod == http.MethodHead {
		return best.Read, best.Open
	}
	return best.Write, best.Open
}

// needs says which role a caller would need.
func needs(path string, roles Roles, peer *Peer) error {
	what := path
	if name := methodName(path); name != "other" {
		what = name
	}
	if len(what) > MaxNameBytes {
		what = what[:MaxNameBytes]
	}
	if roles == nobody {
		return fmt.Errorf("%q is open to no role; the caller is %q", what, peer.Name)
	}
	if people := roles &^ Broker; people != 0 {
		roles = people // nobody is told to get the certificate of a broker
	}
	if peer.Roles == 0 {
		return fmt.Errorf("%q needs the role %v, and nothing gives %q a role: see `tokenlease certs show` for the names in the certificate, and --roles of the server", what, roles, peer.Name)
	}
	return fmt.Errorf("%q needs the role %v, and %q has %s", what, roles, peer.Name, strings.Join(peer.Roles.Names(), ", "))
}

// note counts a refusal, and logs it unless many are.
func (g *Guard) note(r *refusal, remote string) error {
	g.refused.WithLabelValues(r.code.String(), r.method).Inc()
	if g.logs.Allow() {
		g.cfg.Logger.Warn("a request was refused", "code", r.code.String(), "method", r.method, "caller", r.peer, "remote", remote, "error", r.err.Error())
	}
	return connect.NewError(r.code, r.err)
}

// errUnguarded is for a method that is reached around the guard's handler.
var errUnguarded = errors.New("nobody has looked at the certificate of the caller: the server is not set up to")
