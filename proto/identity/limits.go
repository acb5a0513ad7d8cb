package identity

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Defaults of LimitsConfig.
const (
	DefaultCallsPerSecond = 50
	DefaultCallBurst      = 100
	DefaultMaxCallers     = 10_000
)

// sweepEvery is how often a full table is looked through at most.
const sweepEvery = time.Second

// LimitsConfig bounds what one caller may ask of one service.
type LimitsConfig struct {
	// Service whose methods are counted, such as tokenleasev1connect.AdminName.
	Service string
	// PerSecond and Burst of each caller. Defaults DefaultCallsPerSecond and
	// DefaultCallBurst.
	PerSecond, Burst int
	// MaxCallers that are told apart at one time; those beyond share one allowance.
	// Default DefaultMaxCallers.
	MaxCallers int

	Registerer prometheus.Registerer // nil: metrics go nowhere
}

// Limits holds each caller to its allowance: the name of its certificate, or its
// address where it has none. What another broker has let in is not counted again. A
// refusal has code resource_exhausted, and says in its Retry-After when to come
// again.
//
// What it returns belongs around the handler of the service, behind
// [Guard.Handler]: a call is counted before its body is read, so that what is
// refused costs the server next to nothing.
func Limits(cfg LimitsConfig) func(next http.Handler) http.Handler {
	if cfg.PerSecond <= 0 {
		cfg.PerSecond = DefaultCallsPerSecond
	}
	if cfg.Burst <= 0 {
		cfg.Burst = DefaultCallBurst
	}
	if cfg.MaxCallers <= 0 {
		cfg.MaxCallers = DefaultMaxCallers
	}
	l := &limits{cfg: cfg, callers: map[string]*rate.Limiter{}, others: newAllowance(cfg)}
	l.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "tokenlease", Subsystem: "identity", Name: "calls_shed_total",
		Help: "Requests of operators refused because one caller sent too many.",
	})
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(l.refused)
	}
	prefix, writer := "/"+cfg.Service+"/", connect.NewErrorWriter()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			counted := strings.HasPrefix(r.URL.Path, prefix) && !fromBroker(r.Context())
			if counted && !l.allow(callerOf(r.Context(), r.RemoteAddr), time.Now()) {
				_ = writer.Write(w, r, l.refusal()) // the caller is gone
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// limits are the allowances of the callers of late.
type limits struct {
	cfg     LimitsConfig
	refused prometheus.Counter

	mu      sync.Mutex
	callers map[string]*rate.Limiter
	swept   time.Time
	others  *rate.Limiter // of callers that have no place in the table
}

func newAllowance(cfg LimitsConfig) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.Burst)
}

// allow takes one call out of the caller's allowance.
func (l *limits) allow(caller string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	allowance, known := l.callers[caller]
	if !known {
		l.makeRoom(now)
		if allowance = l.others; len(l.callers) < l.cfg.MaxCallers {
			allowance = newAllowance(l.cfg)
			l.callers[caller] = allowance
		}
	}
	return allowance.AllowN(now, 1)
}

// makeRoom forgets callers whose allowance is whole again: a new one is the same.
func (l *limits) makeRoom(now time.Time) {
	if len(l.callers) < l.cfg.MaxCallers || now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	for caller, allowance := range l.callers {
		if allowance.TokensAt(now) >= float64(l.cfg.Burst) {
			delete(l.callers, caller)
		}
	}
}

func (l *limits) refusal() error {
	l.refused.Inc()
	err := connect.NewError(connect.CodeResourceExhausted, errors.New("this caller has asked too often: try again in a second"))
	err.Meta().Set("Retry-After", "1")
	return err
}

// callerOf is whom a call is counted to.
func callerOf(ctx context.Context, remote string) string {
	if peer := FromContext(ctx); peer != nil {
		return "certificate " + peer.Name
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	return "address " + host
}

// fromBroker says that another broker has let the request in.
func fromBroker(ctx context.Context) bool {
	c := connectionOf(ctx)
	if c == nil {
		return false
	}
	v := c.judged.Load()
	return v != nil && v.peer != nil && v.peer.Roles.Has(Broker)
}
