package identity

import (
	"crypto/x509"
	"testing"
	"time"
)

// What the guard costs a request whose certificate it knows.
func BenchmarkEnter(b *testing.B) {
	trust := &Trust{Authorities: x509.NewCertPool()}
	g := NewGuard(Config{Trust: func() *Trust { return trust }})
	c := &connection{}
	c.judged.Store(&verdict{trust: trust, until: time.Now().Add(time.Hour), peer: &Peer{Name: "edge", Roles: Gateway}})
	b.ReportAllocs()
	for b.Loop() {
		if _, refused := g.enter(c, "POST", "/tokenlease.v1.Limiter/Check", nobody); refused != nil {
			b.Fatal(refused.err)
		}
	}
}
