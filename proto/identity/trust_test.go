package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"
)

// signed makes a certificate; parent nil makes an authority.
func signed(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
		template.IsCA, template.BasicConstraintsValid = true, true
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	root, rootKey := signed(t, &x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}, nil, nil)
	trust := &Trust{Authorities: x509.NewCertPool()}
	trust.Authorities.AddCert(root)
	leaf := func(life time.Duration, usage ...x509.ExtKeyUsage) *x509.Certificate {
		cert, _ := signed(t, &x509.Certificate{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(life), ExtKeyUsage: usage}, root, rootKey)
		return cert
	}
	client := leaf(time.Minute, x509.ExtKeyUsageClientAuth)

	v := judge([]*x509.Certificate{client}, trust, now)
	if v.err != nil || v.peer == nil || !v.until.Equal(client.NotAfter) {
		t.Fatalf("a certificate of a client: %v until %v", v.err, v.until)
	}
	for _, at := range []struct {
		when  time.Time
		holds bool
	}{{now, true}, {client.NotAfter, true}, {client.NotAfter.Add(1), false}} {
		if v.holds(trust, at.when) != at.holds {
			t.Errorf("the verdict holds at %v: %v, want %v", at.when, !at.holds, at.holds)
		}
	}
	if v.holds(&Trust{Authorities: trust.Authorities}, now) {
		t.Error("the verdict outlives the trust that it was reached by")
	}
	if v := judge([]*x509.Certificate{leaf(2*time.Hour, x509.ExtKeyUsageClientAuth)}, trust, now); v.err != nil || !v.until.Equal(root.NotAfter) {
		t.Errorf("a certificate that outlasts its authority: %v until %v, want until %v", v.err, v.until, root.NotAfter)
	}
	for what, chain := range map[string][]*x509.Certificate{
		"a certificate for servers alone": {leaf(time.Minute, x509.ExtKeyUsageServerAuth)},
		"an expired certificate":          {leaf(-time.Second, x509.ExtKeyUsageClientAuth)},
		"no certificate":                  nil,
	} {
		v := judge(chain, trust, now)
		if v.err == nil || v.peer != nil {
			t.Errorf("%s is valid", what)
		}
		if !v.holds(trust, now.Add(refusedFor)) || v.holds(trust, now.Add(refusedFor+1)) {
			t.Errorf("%s is refused until %v", what, v.until)
		}
	}
}

func TestJitter(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := withJitter(10 * time.Minute)
		least, most = min(least, d), max(most, d)
	}
	if least < 8*time.Minute || most > 12*time.Minute || most-least < 3*time.Minute {
		t.Errorf("1000 connections of 10m end after %v to %v, want 8m to 12m", least, most)
	}
	if withJitter(3) != 3 {
		t.Error("what has no fifth has jitter")
	}
}
