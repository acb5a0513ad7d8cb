package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// parsePair reads a certificate and its key, which must be of each other and valid
// now.
func parsePair(certFile, keyFile string, certPEM, keyPEM []byte, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	switch {
	case now.After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("%s: the certificate has expired at %v: renew it", certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return nil, fmt.Errorf("%s: the certificate is not valid before %v: is the clock right?", certFile, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

// parseAuthorities reads a file of authorities, and tells when the first of them
// expires. All of it must be right: an authority that was overlooked would shut
// out all that it has signed.
func parseAuthorities(file string, data []byte) (*x509.CertPool, time.Time, error) {
	pool := x509.NewCertPool()
	var first time.Time
	count, rest := 0, data
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		if bytes.Count(rest[:len(rest)-len(after)], begin) > 1 { // Decode skips what it cannot read
			return nil, first, broken(file, count)
		}
		count, rest = count+1, after
		if block.Type != "CERTIFICATE" {
			return nil, first, fmt.Errorf("%s: has a %q, where only the certificates of authorities belong", file, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, first, fmt.Errorf("%s: certificate %d: %w", file, count, err)
		}
		if !cert.IsCA {
			return nil, first, fmt.Errorf("%s: certificate %d, of %q, is not that of an authority", file, count, cert.Subject)
		}
		pool.AddCert(cert)
		if first.IsZero() || cert.NotAfter.Before(first) {
			first = cert.NotAfter
		}
	}
	switch {
	case bytes.Contains(rest, begin):
		return nil, first, broken(file, count)
	case count == 0:
		return nil, first, fmt.Errorf("%s: has no certificate in PEM form", file)
	}
	return pool, first, nil
}

// begin stands where something in PEM form begins.
var begin = []byte("-----BEGIN")

// broken says that something in PEM form cannot be read.
func broken(file string, count int) error {
	return fmt.Errorf("%s: what follows certificate %d is broken: is the file complete?", file, count)
}
