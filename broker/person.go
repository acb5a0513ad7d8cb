package broker

import (
	"context"

	"github.com/tokenlease/tokenlease/proto/identity"
)

// person is who is recorded for a change: the name of the caller's certificate,
// which is verified, or what the caller says where it has none. A name that is
// verified leaves no room for what is claimed beside it.
func person(ctx context.Context, claimed string) (by string, verified bool) {
	if peer := identity.FromContext(ctx); peer != nil {
		return peer.Name, true
	}
	return claimed, false
}
