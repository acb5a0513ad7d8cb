package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
)

// clientTLS is what a client shows, and what it checks servers by.
type clientTLS struct {
	ca   string
	cert string
	key  string
}

// register adds the settings of a command that asks a server.
func (s *clientTLS) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.ca, "ca", "", "`file` of the authorities that the server is checked by (default: those of the system)")
	flags.StringVar(&s.cert, "cert", "", "`file` of the certificate to show")
	flags.StringVar(&s.key, "key", "", "`file` of its key")
}

// validate checks the settings together, by the names of their flags.
func (s *clientTLS) validate(cert, key string) error {
	if (s.cert == "") != (s.key == "") {
		return usageErrorf("--%s and --%s need each other", cert, key)
	}
	return nil
}

// files reads the files of a client of these URLs; nil: nothing is asked over TLS.
func (s *clientTLS) files(cfg tlsfiles.Config, urls ...string) (*tlsfiles.Files, error) {
	if !slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, "https://") }) {
		return nil, nil //nolint:nilnil // clear text is no error
	}
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = s.cert, s.key, s.ca
	files, err := tlsfiles.Open(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return files, nil
}

// once is a client for one command, which ends before any file changes.
func (s *clientTLS) once(url string) (*http.Client, error) {
	files, err := s.files(tlsfiles.Config{Use: "client"}, url)
	if err != nil || files == nil {
		return http.DefaultClient, err
	}
	return &http.Client{Transport: files.Transport(func(cfg *tls.Config) *http.Transport {
		transport := newTransport(nil)
		transport.TLSClientConfig, transport.Proxy = cfg, http.ProxyFromEnvironment
		return transport
	})}, nil
}

// warnOfClear says that a URL is clear text.
func warnOfClear(w io.Writer, url string) {
	if isClear(url) {
		fmt.Fprintf(w, "tokenlease: warning: %s is clear text: whoever is on the way can read and change what is asked and answered; use https, with --ca, --cert and --key\n", shownURL(url))
	}
}
