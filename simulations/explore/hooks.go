package explore

import (
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Hooks break the rules from outside, so that tests can show that the checks
// notice. Each is nil in an honest run, and must depend on its arguments alone:
// what it did once is remembered.
type Hooks struct {
	// Request changes what a process sends, Response what a broker answers.
	Request  func(*pb.SyncRequest)
	Response func(*pb.SyncRequest, *pb.SyncResponse)
	// Txn changes what an owner commits.
	Txn func(*store.Txn)
	// Past changes what a journal proves at the start of an epoch.
	Past func(epoch uint64, past []holder.PastEpoch) []holder.PastEpoch
}
