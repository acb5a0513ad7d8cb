package shard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

var (
	layout = record.NewLayout("/test")
	eu     = lease.Holder{Region: "eu", Instance: "limiter-0"}
	us     = lease.Holder{Region: "us", Instance: "limiter-0"}
)

const operation = "report.create"

// rig runs one shard on a store in memory, by hand.
type rig struct {
	t     *testing.T
	store *store.Memory
	shard *Shard
	now   Moment
	txns  []store.Txn // that were run, oldest first
	// fate, if not nil, decides about a transaction; applied says whether it was.
	fate func(txn store.Txn) (applied bool, err error)
}

// newRig has a policy of 40 in force, and holders at epoch 1.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: store.NewMemory()}
	r.policy(1, 40)
	for _, h := range []lease.Holder{eu, us} {
		r.put(layout.Holder(h), record.Registration{Region: h.Region, Instance: h.Instance, Epoch: 1, StartNonce: "n"})
	}
	owner := r.put(layout.Owner(0), record.Owner{BrokerID: "a"})
	cfg := Config{Generation: 1, Layout: layout, OwnerRevision: owner}
	for _, f := range change {
		f(&cfg)
	}
	r.shard = New(cfg)
	return r
}

func (r *rig) put(key string, value any) (revision int64) {
	r.t.Helper()
	res, err := r.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: key, Value: record.Encode(value)}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Revision
}

// policy puts a version in force, which never refills.
func (r *rig) policy(version, capacity int64) {
	r.t.Helper()
	r.put(layout.Policy(operation), lease.Policy{
		Operation: operation, DefaultCost: 1,
		Rule: lease.Rule{Kind: lease.TokenBucket, Version: version, Capacity: capacity, MaxSharePercent: 100},
	})
}

// step runs the next transaction, if there is one.
func (r *rig) step() bool {
	r.t.Helper()
	r.now.Mono += time.Millisecond
	txn := r.shard.Next(r.now)
	if txn == nil {
		return false
	}
	r.txns = append(r.txns, *txn)
	applied, fault := true, error(nil)
	if r.fate != nil {
		applied, fault = r.fate(*txn)
	}
	var res store.TxnResult
	if applied {
		var err error
		if res, err = r.store.Apply(*txn); err != nil {
			r.t.Fatalf("the store refuses %+v: %v", txn, err)
		}
	}
	if fault != nil {
		res = store.TxnResult{}
	}
	r.shard.Result(r.now, res, fault)
	return true
}

// settle runs until there is nothing to do at this moment.
func (r *rig) settle() *rig {
	r.t.Helper()
	for range 10_000 {
		if !r.step() {
			return r
		}
	}
	r.t.Fatal("no end in sight")
	return nil
}

// answer is what a request got, and how often.
type answer struct {
	resp  *pb.SyncResponse
	err   error
	times int
}

// send takes a request in.
func (r *rig) send(req *pb.SyncRequest) (*answer, Ticket) {
	r.t.Helper()
	if err := req.Validate(); err != nil {
		r.t.Fatal(err)
	}
	a := &answer{}
	ticket := r.shard.Sync(req, r.now, func(resp *pb.SyncResponse, err error) {
		a.resp, a.err = resp, err
		a.times++
	})
	return a, ticket
}

func wire(h lease.Holder) *pb.Holder { return &pb.Holder{Region: h.Region, Instance: h.Instance} }

// asking wants and needs tokens of one budget.
func asking(h lease.Holder, account string, sequence uint64, tokens int64) *pb.SyncRequest {
	return &pb.SyncRequest{Holder: wire(h), Epoch: 1, Budgets: []*pb.BudgetReport{{
		Key: &pb.BudgetKey{Account: account, Operation: operation}, Sequence: sequence, WantTokens: tokens, NeedTokens: tokens,
	}}}
}

// requireOne checks that a request was answered once, without an error.
func (a *answer) requireOne(t *testing.T) *pb.SyncResponse {
	t.Helper()
	if a.times != 1 || a.err != nil {
		t.Fatalf("answered %d times, error %v", a.times, a.err)
	}
	return a.resp
}

func (a *answer) requireError(t *testing.T, want error) {
	t.Helper()
	if a.times != 1 || !errors.Is(a.err, want) {
		t.Errorf("answered %d times with %v, %v, want %v", a.times, a.resp, a.err, want)
	}
}

func accountName(i int) string { return fmt.Sprintf("account-%04d", i) }
