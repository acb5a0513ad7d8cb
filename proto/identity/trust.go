package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Trust is what callers are judged by. It does not change: a reload makes
// another, and by that every verdict is reached anew.
type Trust struct {
	// Authorities that sign certificates of callers. nil: none, and nobody is let in.
	Authorities *x509.CertPool
	// Mapping of names to roles; nil: there is none.
	Mapping *Mapping
}

// refusedFor is how long a certificate that is refused is not looked at again.
const refusedFor = time.Second

// verdict is what is known of a certificate.
type verdict struct {
	trust *Trust
	until time.Time // reached anew after that
	peer  *Peer     // nil: it is not valid
	err   error     // why it is not
}

// holds says that the verdict still stands.
func (v *verdict) holds(trust *Trust, now time.Time) bool {
	return v != nil && v.trust == trust && !now.After(v.until)
}

var errNoAuthorities = errors.New("this server has no authorities by which it could verify a certificate")

var errNoCertificate = errors.New("no client certificate was shown: want one, on the command line with --cert and --key")

// judge verifies what a caller has shown, the certificate of the caller first.
func judge(chain []*x509.Certificate, trust *Trust, now time.Time) *verdict {
	v := &verdict{trust: trust, until: now.Add(refusedFor)}
	if len(chain) == 0 {
		v.err = errNoCertificate
		return v
	}
	if trust.Authorities == nil { // else those of the system would do
		v.err = errNoAuthorities
		return v
	}
	peer := Identify(chain[0], trust.Mapping)
	until, err := verify(chain, trust.Authorities, now)
	if err != nil {
		v.err = fmt.Errorf("the client certificate of %q is not valid: %w; renew it, or add its authority to those of the server", peer.Name, err)
		return v
	}
	v.peer, v.until = &peer, until
	return v
}

// verify tells until when the chain leads to one of the authorities.
func verify(chain []*x509.Certificate, authorities *x509.CertPool, now time.Time) (time.Time, error) {
	options := x509.VerifyOptions{
		Roots: authorities, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	paths, err := chain[0].Verify(options)
	if err != nil {
		return time.Time{}, err
	}
	var until time.Time // that of the path which holds longest
	for _, path := range paths {
		end := path[0].NotAfter
		for _, cert := range path[1:] {
			if cert.NotAfter.Before(end) {
				end = cert.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	return until, nil
}
