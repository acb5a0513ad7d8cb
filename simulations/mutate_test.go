package simulations

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

func block(c *Config)   { journals(c, holder.JournalBlock) }
func confirm(c *Config) { journals(c, holder.JournalConfirm) }

func journals(c *Config, mode holder.Journal) {
	for i := range c.Journals {
		c.Journals[i] = mode
	}
}

func keyOf(m interface{ GetKey() *pb.BudgetKey }) lease.Key {
	return lease.Key{Account: m.GetKey().GetAccount(), Operation: m.GetKey().GetOperation()}
}

// unguarded drops compares; a transaction may not be empty.
func unguarded(txn *store.Txn, keep int) {
	txn.If = txn.If[:min(keep, len(txn.If))]
	if len(txn.If)+len(txn.Then) == 0 {
		txn.Then = []store.Op{{Kind: store.OpGet, Key: "nothing"}}
	}
}

func writes(txn store.Txn) bool {
	return slices.ContainsFunc(txn.Then, func(op store.Op) bool { return op.Kind == store.OpPut || op.Kind == store.OpDelete })
}

// pretend makes up the outcome of a transaction that would have been applied.
func pretend(o *owner, txn store.Txn) store.TxnResult {
	var reads store.Txn
	for _, op := range txn.Then {
		if op.Kind == store.OpPut || op.Kind == store.OpDelete {
			op = store.Op{Kind: store.OpGet, Key: op.Key}
		}
		reads.Then = append(reads.Then, op)
	}
	if len(reads.Then) == 0 {
		return store.TxnResult{Succeeded: true, Revision: o.b.w.store.Revision()}
	}
	res, err := o.b.w.store.Apply(reads)
	if err != nil {
		o.b.w.failf("%v", err)
	}
	return res
}

// replyEarly tells the owner of a commit before it is made.
func replyEarly(o *owner, txn store.Txn, what fate) bool {
	w := o.b.w
	if !writes(txn) {
		return false
	}
	res := pretend(o, txn)
	res.Revision++
	if what != never {
		w.after(w.latency(), "apply", o.b.name, int64(o.shard), func() { w.apply(o, txn) })
	}
	w.after(0, "early", o.b.name, int64(o.shard), func() { o.result(res, nil) })
	return true
}

// forgetNextGrant lets the shard load a head without its counter.
func forgetNextGrant(o *owner, res *store.TxnResult) {
	for i, r := range res.Results {
		for k, kv := range r.KVs {
			if kv.Key != o.b.w.layout.Head(o.shard) {
				continue
			}
			head, _ := record.Decode[record.Head](kv)
			head.NextGrant = 1
			kv.Value = record.Encode(head)
			res.Results[i].KVs[k] = kv
		}
	}
}

// journalEarly acknowledges a write that is durable only later.
func journalEarly(p *process, write *holder.JournalWrite) bool {
	w := p.w
	p.pending = nil
	w.after(w.latency(), "early", p.name, 0, func() {
		if p.alive {
			p.mgr.Journaled(1, nil)
			p.soon()
		}
	})
	w.after(2*time.Second, "durable", p.name, 0, func() {
		if p.alive {
			p.disk.write(p.epoch, write)
		}
	})
	return true
}

// spendOn keeps what a fenced process has, and spends it.
func spendOn(p *process, _ uint64, resp *pb.SyncResponse) {
	if !resp.GetFenced() || p.mgr.Fenced() {
		return
	}
	for key, b := range p.budgets {
		if b != nil && b.Credit() > 0 {
			credit := b.Credit()
			p.w.after(2*time.Second, "spends-on", p.name, credit, func() { p.admitted(key, credit) })
		}
	}
}

// timeOut ends a grant of a living process in the store, for its silence.
func timeOut(w *World, returned bool) {
	grants := w.sortedGrants()
	if len(grants) == 0 {
		return
	}
	g := grants[w.rng.IntN(len(grants))]
	id, _ := lease.ParseGrantID(g.ID)
	b := w.mirror.book(g.Key())
	l := b.ledger.Clone()
	if returned {
		_ = l.Close(l.Updated, id, 0, 0)
	} else {
		_, _ = l.Attest(l.Updated, id)
	}
	head := store.Op{Kind: store.OpGet, Key: w.layout.Head(id.Shard)}
	res, err := w.store.Apply(store.Txn{Then: []store.Op{head}})
	if err != nil || len(res.Results[0].KVs) == 0 {
		return
	}
	head.Kind, head.Value = store.OpPut, res.Results[0].KVs[0].Value
	path := record.GrantPath(lease.Holder{Region: g.Region, Instance: g.Instance}, g.Epoch, id)
	w.apply(&owner{b: w.brokers[0]}, store.Txn{Then: []store.Op{
		head,
		{Kind: store.OpPut, Key: w.layout.Budget(id.Shard, g.Key()), Value: record.Encode(record.FromLedger(&l))},
		{Kind: store.OpDelete, Key: w.layout.Grants(id.Shard) + path},
	}})
}

// tamper changes the budgets that match, on their way to the store.
func tamper(matches func(*record.Budget) bool, change func(*record.Budget)) func(*owner, *store.Txn) {
	return func(o *owner, txn *store.Txn) {
		for i, op := range txn.Then {
			if !isBudget(o, op) {
				continue
			}
			var b record.Budget
			if json.Unmarshal(op.Value, &b) == nil && matches(&b) {
				change(&b)
				txn.Then[i].Value = record.Encode(b)
			}
		}
	}
}

func isBudget(o *owner, op store.Op) bool {
	prefix := o.b.w.layout.Budgets(o.shard)
	return op.Kind == store.OpPut && len(op.Key) > len(prefix) && op.Key[:len(prefix)] == prefix
}

// burst makes what an attestation counts as spent available at once.
func burst(o *owner, txn *store.Txn) {
	for _, op := range txn.Then {
		var a struct {
			After map[string]int64 `json:"after"`
		}
		if op.Kind == store.OpPut && len(op.Key) > len(o.b.w.layout.Audits()) && op.Key[:len(o.b.w.layout.Audits())] == o.b.w.layout.Audits() &&
			json.Unmarshal(op.Value, &a) == nil && a.After["counted_as_spent"] > 0 {
			tamper(func(*record.Budget) bool { return true }, func(b *record.Budget) {
				b.Available += a.After["counted_as_spent"]
			})(o, txn)
		}
	}
}

// dropUsed drops the records of budgets with nothing out, full or not.
func dropUsed(o *owner, txn *store.Txn) {
	for i, op := range txn.Then {
		var b record.Budget
		if isBudget(o, op) && json.Unmarshal(op.Value, &b) == nil && len(b.Grants) == 0 {
			txn.Then[i] = store.Op{Kind: store.OpDelete, Key: op.Key}
		}
	}
}

// deltas are reports of what was spent since the last one, added up at the
// broker.
func deltas() (send, receive func(*World, *process, *pb.SyncRequest)) {
	told, sum := map[string]int64{}, map[string]int64{}
	send = func(_ *World, _ *process, req *pb.SyncRequest) {
		for _, r := range req.GetBudgets() {
			id := r.GetGrantId()
			r.SpentTokens, told[id] = r.SpentTokens-told[id], r.SpentTokens
		}
	}
	receive = func(_ *World, _ *process, req *pb.SyncRequest) {
		for _, r := range req.GetBudgets() {
			sum[r.GetGrantId()] += r.SpentTokens
			r.SpentTokens = sum[r.GetGrantId()]
		}
	}
	return send, receive
}

// matchByKey applies what is said of an ended grant to the one that lives.
func matchByKey(w *World, p *process, req *pb.SyncRequest) {
	live := func(key lease.Key, id string) string {
		b := w.mirror.ledgers[key]
		if parsed, err := lease.ParseGrantID(id); b == nil || err != nil || b.ledger.Grant(parsed) != nil {
			return id
		}
		if g := b.ledger.Live(p.site.holder, p.epoch); g != nil {
			return g.ID.String()
		}
		return id
	}
	for _, c := range req.GetCloses() {
		c.GrantId = live(keyOf(c), c.GetGrantId())
	}
	for _, r := range req.GetBudgets() {
		if r.GetGrantId() != "" {
			r.GrantId = live(keyOf(r), r.GetGrantId())
		}
	}
}

// olderAnswers replaces answers by older ones of the same budget.
func olderAnswers() func(*process, uint64, *pb.SyncResponse) {
	type what struct {
		p   *process
		key lease.Key
	}
	older := map[what]*pb.BudgetAnswer{}
	return func(p *process, _ uint64, resp *pb.SyncResponse) {
		for _, a := range resp.GetBudgets() {
			at := what{p, keyOf(a)}
			if old := older[at]; old != nil && p.w.rng.IntN(3) == 0 {
				a.GrantId, a.IssuedTokens = old.GetGrantId(), old.GetIssuedTokens()
			}
			if older[at] == nil || p.w.rng.IntN(3) == 0 {
				older[at] = a
			}
		}
	}
}
