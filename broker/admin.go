package broker

import (
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// adminService serves the Admin RPCs. Requests have been validated.
//
// Everything shown is read from the store, at one revision per answer; nothing
// is decided from it.
type adminService struct {
	tokenleasev1connect.UnimplementedAdminHandler // what is not built yet

	b *Broker
}
