package broker

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/identity"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// WhoAmI implements tokenleasev1connect.AdminHandler. Where there are no
// certificates everybody may do everything, and nobody has a name.
func (s adminService) WhoAmI(ctx context.Context, _ *connect.Request[pb.WhoAmIRequest]) (*connect.Response[pb.WhoAmIResponse], error) {
	resp := &pb.WhoAmIResponse{Methods: identity.AllMethods(tokenleasev1connect.AdminName)}
	if peer := identity.FromContext(ctx); peer != nil {
		resp.Name, resp.Verified = peer.Name, true
		resp.Roles = peer.Roles.Names()
		resp.Methods = identity.Methods(tokenleasev1connect.AdminName, peer.Roles)
		resp.CertificateExpiresUnixMs = unixMs(peer.Expires)
	}
	if own := s.b.cfg.CertificateExpires; own != nil {
		resp.ServerCertificateExpiresUnixMs = unixMs(own())
	}
	return connect.NewResponse(resp), nil
}

// unixMs is a time as messages have it; the zero time is 0.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
