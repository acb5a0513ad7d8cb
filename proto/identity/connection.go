package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// connection is what is known of one connection of a caller.
type connection struct {
	chain  atomic.Pointer[[]*x509.Certificate] // shown in the handshake
	judged atomic.Pointer[verdict]

	oldAt time.Time // from then on it is to be closed
	end   *time.Timer
}

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// shown records what was shown in the handshake. All requests of a connection
// have the same.
func (c *connection) shown(state *tls.ConnectionState) {
	if c.chain.Load() == nil && state != nil {
		c.chain.Store(&state.PeerCertificates)
	}
}

// verdict is what the guard says of the caller now.
//
// It is never older than the trust in force and the certificate: what a connection
// was once allowed says nothing about its next request.
func (c *connection) verdict(g *Guard) *verdict {
	trust, now := g.cfg.Trust(), time.Now()
	if v := c.judged.Load(); v.holds(trust, now) {
		return v
	}
	var chain []*x509.Certificate
	if shown := c.chain.Load(); shown != nil {
		chain = *shown
	}
	v := judge(chain, trust, now)
	c.judged.Store(v)
	return v
}

// old says that the connection is to be closed.
func (c *connection) old() bool { return !c.oldAt.IsZero() && !time.Now().Before(c.oldAt) }

// Connections are the hooks of one http.Server that a guard stands in front of:
// they bound the age of its connections.
type Connections struct {
	guard *Guard
	open  sync.Map // net.Conn to *connection
}

// Connections makes the hooks for one server.
func (g *Guard) Connections() *Connections { return &Connections{guard: g} }

// Context is for http.Server.ConnContext.
func (cs *Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	age := withJitter(cs.guard.cfg.ConnectionMaxAge)
	c := &connection{oldAt: time.Now().Add(age)}
	// In order, a connection ends with the first request after its time, which is
	// answered and told to be the last. One whose requests only hang is cut.
	c.end = time.AfterFunc(age+ageGrace, func() {
		cs.guard.aged.Inc()
		_ = conn.Close()
	})
	cs.open.Store(conn, c)
	return context.WithValue(ctx, connectionKey{}, c)
}

// State is for http.Server.ConnState.
func (cs *Connections) State(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if ended, _ := cs.open.LoadAndDelete(conn); ended != nil {
		if c, ok := ended.(*connection); ok {
			c.end.Stop()
		}
	}
}

// withJitter is d give or take a fifth, so that connections which were made
// together do not end together.
func withJitter(d time.Duration) time.Duration {
	fifth := int64(d) / 5
	if fifth == 0 {
		return d
	}
	return d + time.Duration(rand.Int64N(2*fifth+1)-fifth)
}
