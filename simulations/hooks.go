package simulations

import (
	"github.com/tokenlease/tokenlease/broker/shard"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Hooks let tests watch and steer a run. Each is nil otherwise.
type Hooks struct {
	// Request sees, and may change, what a process sends.
	Request func(*World, *process, *pb.SyncRequest)
	// Refuse lets brokers answer that they are overloaded.
	Refuse func() bool
	// Moment changes what an owner reads from its clocks.
	Moment func(*owner, *shard.Moment)
}
