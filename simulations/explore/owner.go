package explore

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Fate is what becomes of the commit that a request leads to.
type Fate uint8

// The fates.
const (
	Applied Fate = iota
	Lost         // applied, but its owner hears an error
	Never        // not applied, its owner hears an error
	Later        // its owner hears an error, and it is applied any number of times later
	Twice        // applied and answered, and again any number of times later
	fates
)

// String is the fate in a history.
func (f Fate) String() string {
	return [...]string{
		"its commit is applied", "its commit is applied, but the answer of the store is lost",
		"its commit is not applied, and the store answers with an error",
		"the store answers with an error, and may apply the commit later", "its commit is applied, and may be again later",
	}[f]
}

var errUnknown = errors.New("explore: the store's answer is lost")

// ownerPart is an owner of the shard, current or not, at rest.
type ownerPart struct {
	memory[ownerInput, ownerResult]

	digest digest
	sh     *shard.Shard
}

// ownerInput is what an owner is to do, and on which store.
type ownerInput struct {
	kind    kind
	now     uint8
	store   *storePart
	request *message      // serves
	grant   lease.GrantID // attests
	fate    Fate
}

type ownerResult struct {
	next   *ownerPart // nil: it knows that it is owner no more
	store  *storePart
	answer *message
	late   *lateTxn
	fated  bool // there was a commit to meet its fate
	fail   string
}

// lateTxn is a transaction that may still reach the store.
type lateTxn struct {
	txn    store.Txn
	digest digest
}

func (t *lateTxn) fingerprint() digest { return t.digest }

func (x *explorer) ownerPart(sh *shard.Shard) *ownerPart {
	p := digestOf(sh)
	return x.owners.one(p, &ownerPart{digest: p, sh: sh})
}

// serves is what an owner does on an input: it runs until it is at rest again.
func (x *explorer) serves(part *ownerPart, in ownerInput) *ownerResult {
	return part.on(in, func() *ownerResult {
		x.ran.Add(1)
		sh, k, r := deepCopy(part.sh), deepCopy(in.store.kept), &ownerResult{}
		m := shard.Moment{Mono: mono(in.now)}
		switch in.kind {
		case serves:
			sh.Sync(in.request.req, m, func(resp *pb.SyncResponse, err error) {
				if err == nil {
					r.answer = x.answer(in.request, resp, r)
				}
			})
		case attests:
			what := shard.Resolution{GrantID: in.grant, Key: key, Word: record.Audit{By: "ops", Because: "it is gone"}}
			sh.Resolve(what, func(shard.Resolved, error) {})
		case hearsPolicy:
			sh.PoliciesChanged()
		case alone:
		}
		x.pump(sh, k, in, r)
		r.store = x.storePart(k)
		if !sh.Lost() {
			r.next = x.ownerPart(sh)
		}
		return r
	})
}

func (x *explorer) answer(request *message, resp *pb.SyncResponse, r *ownerResult) *message {
	if hook := x.scope.Hooks.Response; hook != nil {
		resp = proto.Clone(resp).(*pb.SyncResponse) //nolint:errcheck // a clone has its type
		hook(request.req, resp)
	}
	m := x.messageOf(message{slot: request.slot, id: request.id, resp: resp})
	if evidence(resp) {
		r.fail = "an honest process is accused: " + m.text()
	}
	return m
}

// pump runs the owner's transactions until it has none. The first that writes
// meets the fate.
func (x *explorer) pump(sh *shard.Shard, k *kept, in ownerInput, r *ownerResult) {
	m := shard.Moment{Mono: mono(in.now)}
	for range 100 {
		next := sh.Next(m)
		if next == nil {
			break
		}
		txn := *next
		if hook := x.scope.Hooks.Txn; hook != nil {
			hook(&txn)
		}
		fate := Applied
		if in.fate != Applied && !r.fated && writes(txn) {
			fate, r.fated = in.fate, true
		}
		if fate == Later || fate == Twice {
			late := lateTxn{txn: txn}
			late.digest = digestOf(&late)
			r.late = x.lates.one(late.digest, &late)
		}
		var res store.TxnResult
		if fate != Never && fate != Later {
			var fail string
			if res, fail = k.apply(txn, in.now); fail != "" && r.fail == "" {
				r.fail = fail
			}
		}
		if fate == Applied || fate == Twice {
			sh.Result(m, res, nil)
		} else {
			sh.Result(m, store.TxnResult{}, errUnknown)
		}
	}
	switch {
	case r.fail != "":
	case sh.SetBack():
		r.fail = "the owner takes the store for restored, which it was not"
	case sh.Waiting() > 0:
		r.fail = "the owner does not come to rest"
	}
}

func writes(txn store.Txn) bool {
	for _, op := range txn.Then {
		if op.Kind == store.OpPut || op.Kind == store.OpDelete {
			return true
		}
	}
	return false
}
