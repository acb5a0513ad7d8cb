package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The budgets of these histories: 40 tokens, and 20 a second.
const (
	worldCapacity = 40
	worldRefill   = 20
)

// bucket is exact: it is never overdrawn just if in any interval of length T at
// most B + R*T was admitted.
type bucket struct {
	at      time.Duration
	deficit int64 // in tokens times nanoseconds of a second
}

func (b *bucket) admit(now time.Duration, tokens int64) bool {
	b.deficit = max(0, b.deficit-int64(now-b.at)*worldRefill) + tokens*int64(time.Second)
	b.at = now
	return b.deficit <= worldCapacity*int64(time.Second)
}

// spender is one start of a limiter: it spends what it holds, whoever hears of it.
type spender struct {
	holder     lease.Holder
	epoch      uint64
	generation uint32
	head       int64
	sequence   uint64
	held       map[string]*holding // by account
	closed     map[string]bool     // grants that it has ended: they are not revived
	over       bool                // its process has ended
	cut        bool                // nothing reaches it, and it reaches nobody
}

type holding struct {
	id            string
	issued, spent int64
}

// world is a history with restores, in which messages and commits are lost, late
// and repeated.
type world struct {
	*rig

	rnd        *rand.Rand
	generation uint32
	unknown    bool
	copied     *store.Snapshot
	spenders   []*spender
	sent       []*pb.SyncRequest
	lost       []store.Txn
	buckets    map[string]*bucket
	fault      error

	restores, attested, admitted int
	// undeclared is a mutant whose restores are not declared, and hasty one which
	// attests that processes have ended that go on.
	undeclared, hasty bool
}

// eager drops what it does not use.
func eager(c *Config) { c.IdleAfter = 200 * time.Millisecond }

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		rig: newOldRig(t, worldCapacity, worldRefill, eager), rnd: rand.New(rand.NewPCG(seed, 7)), generation: 1,
		buckets: map[string]*bucket{"acme": {}, "beta": {}},
	}
	w.fate = func(txn store.Txn) (bool, error) {
		switch w.rnd.IntN(20) {
		case 0:
			w.lost = append(w.lost, txn)
			return false, errUnknown
		case 1:
			return true, errUnknown
		}
		return true, nil
	}
	w.copied = w.store.Snapshot()
	return w
}

// step does one thing, and lets some time go by.
func (w *world) step() {
	w.now.Mono += time.Duration(w.rnd.Int64N(int64(8 * time.Millisecond)))
	switch n := w.rnd.IntN(200); {
	case n < 4:
		w.begin()
	case n < 70:
		w.ask(w.any())
	case n < 150:
		w.spend(w.any())
	case n < 160:
		w.close(w.any())
	case n < 170 && len(w.sent) > 0: // a message that was delayed; nobody waits for its answer
		w.shard.Sync(w.sent[w.rnd.IntN(len(w.sent))], w.now, func(*pb.SyncResponse, error) {})
	case n < 174 && len(w.lost) > 0: // a transaction that was delayed
		if _, err := w.store.Apply(w.lost[w.rnd.IntN(len(w.lost))]); err != nil {
			w.t.Fatal(err)
		}
	case n < 176:
		w.own(eager)
	case n < 179:
		w.copied = w.store.Snapshot()
	case n < 180:
		w.restore()
	case n < 184 && w.unknown:
		w.attestAll()
	case n < 185:
		w.now.Mono += time.Duration(w.rnd.Int64N(int64(5 * time.Second))) // some budgets are full again, and dropped
	}
	for range 6 {
		w.rig.step()
	}
	if w.shard.Lost() {
		w.own(eager)
	}
}

// any is one of the spenders that run, most often one of the last few.
func (w *world) any() *spender {
	w.spenders = slices.DeleteFunc(w.spenders, func(p *spender) bool { return p.over })
	if len(w.spenders) == 0 {
		w.begin()
	}
	from := 0
	if w.rnd.IntN(4) > 0 {
		from = max(0, len(w.spenders)-4)
	}
	return w.spenders[from+w.rnd.IntN(len(w.spenders)-from)]
}

// begin starts a limiter; the start before it may go on, unheard.
func (w *world) begin() {
	h := []lease.Holder{eu, us}[w.rnd.IntN(2)]
	w.spenders = append(w.spenders, &spender{
		holder: h, epoch: w.restart(h, w.generation), generation: w.generation,
		held: map[string]*holding{"acme": {}, "beta": {}}, closed: map[string]bool{},
	})
	w.shard.HoldersChanged()
}

func (w *world) account() string { return []string{"acme", "beta"}[w.rnd.IntN(2)] }

func (w *world) message(p *spender, req *pb.SyncRequest, take func(*pb.SyncResponse)) {
	req.Holder, req.Epoch, req.HighestHead = wire(p.holder), p.epoch, p.head
	if p.cut {
		return
	}
	w.sent = append(w.sent, req)
	w.shard.Sync(req, w.now, func(resp *pb.SyncResponse, err error) {
		if errors.Is(err, ErrSetBack) && !w.undeclared {
			w.fault = fmt.Errorf("set back in generation %d: %w", w.generation, err)
		}
		if err != nil || p.cut || w.rnd.IntN(5) == 0 { // the answer is lost
			return
		}
		p.head = max(p.head, resp.GetHead())
		p.over = p.over || resp.GetFenced()
		take(resp)
	})
}

func (w *world) ask(p *spender) {
	account := w.account()
	h := p.held[account]
	p.sequence++
	sequence := p.sequence
	out := h.issued - h.spent
	req := asking(p.holder, account, sequence, out+w.rnd.Int64N(30))
	req.Budgets[0].NeedTokens = min(req.Budgets[0].WantTokens, out+1)
	req.Budgets[0].GrantId, req.Budgets[0].SpentTokens = h.id, h.spent
	w.message(p, req, func(resp *pb.SyncResponse) {
		a := resp.GetBudgets()[0]
		switch {
		case sequence != p.sequence || p.closed[a.GetGrantId()]: // only the answer to the newest counts
		case a.GetGone() && h.id != "" && a.GetGrantId() == "":
			p.held[account] = &holding{}
		case p.held[account] == h && (h.id == "" || h.id == a.GetGrantId()):
			h.id, h.issued = a.GetGrantId(), max(h.issued, a.GetIssuedTokens())
		}
	})
}

func (w *world) spend(p *spender) {
	if p.cut && w.rnd.IntN(30) > 0 {
		return // it has little to do, and then spends much at once
	}
	account := w.account()
	h := p.held[account]
	if most := h.issued - h.spent; most > 0 {
		n := most
		if !p.cut {
			n = 1 + w.rnd.Int64N(min(most, 8))
		}
		h.spent += n
		w.admitted++
		if !w.buckets[account].admit(w.now.Mono, n) && w.fault == nil {
			w.fault = fmt.Errorf("%s: %d tokens by %v epoch %d, above the cap, at %v", account, n, p.holder, p.epoch, w.now.Mono)
		}
	}
}

func (w *world) close(p *spender) {
	account := w.account()
	h := p.held[account]
	if h.id == "" {
		return
	}
	p.held[account], p.closed[h.id] = &holding{}, true
	p.sequence++ // answers that are on their way are of the closed grant
	w.message(p, &pb.SyncRequest{Closes: []*pb.GrantAccount{{
		GrantId: h.id, SpentTokens: h.spent, Key: &pb.BudgetKey{Account: account, Operation: operation},
	}}}, func(*pb.SyncResponse) {})
}

// restore sets the store back to the last copy, and declares that before anything
// else. Copies may be of before an earlier declaration.
func (w *world) restore() {
	w.store.Restore(w.copied)
	w.restores++
	all := w.undeclared || w.rnd.IntN(2) == 0
	for _, p := range w.spenders {
		p.cut = p.cut || all || w.rnd.IntN(2) == 0
	}
	if w.undeclared {
		w.own() // which remembers nothing
	} else {
		w.generation += 1 + uint32(w.rnd.IntN(50))
		w.declare(w.generation)
		w.unknown = true
	}
	for range w.rnd.IntN(4) {
		w.begin()
	}
}

// attestAll attests the restore, once every earlier process has ended.
func (w *world) attestAll() {
	for _, p := range w.spenders {
		p.over = p.over || p.generation != w.generation && !w.hasty
	}
	w.attest()
	w.unknown = false
	w.attested++
}

// In histories with restores, later grants, closes and drops, declarations that
// overtake commits, owners with an old generation, messages and transactions of
// the lost time, and restores on top of restores, no more is admitted than the cap
// allows, in any interval.
func TestHistoriesWithRestores(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	var restores, attested, admitted int
	for seed := range seeds {
		w := newWorld(t, seed)
		for range 1000 {
			w.step()
			if w.fault != nil {
				t.Fatalf("seed %d, step at %v: %v", seed, w.now.Mono, w.fault)
			}
		}
		restores, attested, admitted = restores+w.restores, attested+w.attested, admitted+w.admitted
	}
	t.Logf("%d restores, %d attestations, %d admissions", restores, attested, admitted)
	if restores < int(seeds) || attested < int(seeds) || admitted < 10*int(seeds) {
		t.Error("too little has happened")
	}
}

// Without the declaration, or with an attestation that is not true, the same
// histories go above the cap.
func TestHistoriesBite(t *testing.T) {
	for name, change := range map[string]func(*world){
		"undeclared": func(w *world) { w.undeclared = true },
		"hasty":      func(w *world) { w.hasty = true },
	} {
		caught := false
		for seed := uint64(0); seed < 400 && !caught; seed++ {
			w := newWorld(t, seed)
			change(w)
			for range 1000 {
				w.step()
			}
			if caught = w.fault != nil; caught {
				t.Logf("%s: seed %d: %v", name, seed, w.fault)
			}
		}
		if !caught {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
}
