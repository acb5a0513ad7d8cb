package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// diagnosisTimeout bounds what is spent on finding out why no endpoint answers; so
// does the time that Open was given.
const diagnosisTimeout = 3 * time.Second

// unreachable explains why Open failed. The client only says that time is up, so
// each endpoint is tried once more, without etcd on top. No secret is shown.
func unreachable(cfg Config, cause error) error {
	if errors.Is(cause, rpctypes.ErrAuthFailed) {
		return fmt.Errorf("etcdstore: etcd refused user %q: check the user name and the password: %w", cfg.Username, cause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(diagnosisTimeout, cfg.DialTimeout))
	defer cancel()
	var b strings.Builder
	for _, endpoint := range cfg.Endpoints {
		fmt.Fprintf(&b, "\n  %s: %s", endpoint, diagnose(ctx, cfg, endpoint))
	}
	return fmt.Errorf("etcdstore: no etcd member answered within %v: %w%s", cfg.DialTimeout, cause, b.String())
}

// diagnose says what is wrong with one endpoint, and what to check.
func diagnose(ctx context.Context, cfg Config, endpoint string) string {
	_, address := splitEndpoint(endpoint)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Sprintf("%v: check that etcd runs there, the address, and the network in between", err)
	}
	defer func() { _ = conn.Close() }()
	if !cfg.usesTLS(endpoint) {
		return "reachable, but etcd does not answer: check that it speaks http here (not https), and that its members have a leader"
	}
	if err := handshake(ctx, cfg.TLS, conn, address); err != nil {
		return fmt.Sprintf("TLS: %v: check the CA, the client certificate, the server's names, and that etcd speaks https here", err)
	}
	return "reachable over TLS, but etcd does not answer: check the client certificate, and that its members have a leader"
}

func handshake(ctx context.Context, cfg *tls.Config, conn net.Conn, address string) error {
	cfg = cfg.Clone()
	if cfg == nil {
		cfg = &tls.Config{}
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		cfg.ServerName = host
	}
	return tls.Client(conn, cfg).HandshakeContext(ctx)
}
