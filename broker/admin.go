package broker

// adminService serves the Admin RPCs. Requests have been validated.
//
// Everything shown is read from the store, at one revision per answer; nothing
// is decided from it.
type adminService struct{ b *Broker }
