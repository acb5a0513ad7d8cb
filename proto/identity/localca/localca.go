package localca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"time"
)

const (
	// Life is how long certificates last, those of the authority as well.
	Life = 30 * 24 * time.Hour
	// backdated covers clocks that are not quite alike.
	backdated = 5 * time.Minute
)

// Pair is a certificate and its key.
type Pair struct {
	// Certificate as it was signed.
	Certificate *x509.Certificate
	// CertificatePEM and KeyPEM are what stands in files.
	CertificatePEM, KeyPEM []byte

	key *ecdsa.PrivateKey
}

// TLS is the pair as crypto/tls wants it.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.key, Leaf: p.Certificate}
}

// Authority signs certificates.
type Authority struct {
	Pair

	now func() time.Time
}

// New makes an authority. Its certificates begin to be valid a little before now.
func New(name string, now func() time.Time) (*Authority, error) {
	template := newTemplate(now())
	template.Subject = pkix.Name{CommonName: name}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a := &Authority{now: now}
	pair, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	a.Pair = *pair
	return a, nil
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// Request is what a certificate is to say.
type Request struct {
	// CommonName is for people.
	CommonName string
	// URIs give roles; see identity.URI.
	URIs []string
	// Emails that it names.
	Emails []string
	// Hosts are DNS names and addresses at which it serves. Without one it is for
	// clients alone.
	Hosts []string
	// Life of the certificate. Default Life. One that is negative has expired.
	Life time.Duration
}

// Issue makes a key and signs a certificate for it.
func (a *Authority) Issue(req Request) (*Pair, error) {
	now := a.now()
	template := newTemplate(now)
	template.Subject = pkix.Name{CommonName: req.CommonName}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.EmailAddresses = req.Emails
	if req.Life != 0 {
		template.NotAfter = now.Add(req.Life)
		if template.NotAfter.Before(template.NotBefore) {
			template.NotBefore = template.NotAfter.Add(-backdated)
		}
	}
	for _, text := range req.URIs {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("localca: %q is no URI: %w", text, err)
		}
		template.URIs = append(template.URIs, u)
	}
	for _, host := range req.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(req.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return a.sign(template)
}

// newTemplate has no serial number: a random one is drawn when it is signed.
func newTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{NotBefore: now.Add(-backdated), NotAfter: now.Add(Life)}
}

// sign makes a key and signs its certificate, by itself if there is no authority
// yet.
func (a *Authority) sign(template *x509.Certificate) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("localca: %w", err)
	}
	parent, signer := a.Certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("localca: %w", err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("localca: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("localca: %w", err)
	}
	return &Pair{
		Certificate: cert, key: key,
		CertificatePEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		KeyPEM:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}
