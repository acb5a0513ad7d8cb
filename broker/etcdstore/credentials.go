package etcdstore

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// renewed are credentials that take the configuration in force for each handshake:
// certificates and authorities are renewed while the client runs. A connection keeps
// what it was made with.
type renewed struct {
	credentials.TransportCredentials // of the beginning; it describes them

	current func() *tls.Config
}

func renewedCredentials(current func() *tls.Config) credentials.TransportCredentials {
	return renewed{credentials.NewTLS(current()), current}
}

// ClientHandshake implements credentials.TransportCredentials.
func (r renewed) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(r.current()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r renewed) Clone() credentials.TransportCredentials { return renewedCredentials(r.current) }
