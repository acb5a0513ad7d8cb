package simulations

import (
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Hooks break the rules from outside, so that tests can show that the checks
// notice. Each is nil in an honest run.
type Hooks struct {
	// Request changes what a process sends.
	Request func(*World, *process, *pb.SyncRequest)
	// Receive changes what arrives at a broker, each copy on its own.
	Receive func(*World, *process, *pb.SyncRequest)
	// Refuse lets brokers answer that they are overloaded.
	Refuse func() bool
	// Response changes what a broker answers, before it leaves.
	Response func(*World, *process, *pb.SyncResponse)
	// Answer changes an answer just before the manager takes it.
	Answer func(p *process, id uint64, resp *pb.SyncResponse)
	// Txn changes what an owner commits.
	Txn func(*owner, *store.Txn)
	// Early takes over a transaction: true means that it did.
	Early func(o *owner, txn store.Txn, what fate) bool
	// Result changes what an owner hears of a transaction.
	Result func(o *owner, txn store.Txn, res *store.TxnResult, err *error)
	// Moment changes what an owner reads from its clocks.
	Moment func(*owner, *shard.Moment)
	// Journal takes over a write: true means that it did.
	Journal func(*process, *holder.JournalWrite) bool
	// Past changes what the journal proves, as the process starts.
	Past func(*process)
	// Register changes what a registration does.
	Register func(w *World, current record.Registration, next *record.Registration, resp *pb.RegisterResponse, changed *bool)
	// Tick runs at every step of the chaos.
	Tick func(*World)
	// AttestLiving lets the operator resolve what living processes hold.
	AttestLiving bool
	// RestoreAny lets older copies of journals come back in every mode.
	RestoreAny bool
}
