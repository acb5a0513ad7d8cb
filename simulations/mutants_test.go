package simulations

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// mutant breaks one rule of the contract from outside.
type mutant struct {
	name   string
	within uint64 // seeds in which it must be caught
	breaks func(*Config)
}

// Each rule that a mutant breaks is missed by nobody: the checks find it within
// a few seeds. A mutant that lives means that a check, or the faults that lead
// there, are too weak.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			steps := 0
			for seed := uint64(1); seed <= m.within; seed++ {
				cfg := Draw(seed)
				m.breaks(&cfg)
				w := New(cfg)
				err := w.Run()
				steps += w.Steps()
				if err != nil {
					what, _, _ := strings.Cut(w.fail.(*Failure).What, "\n")
					t.Logf("caught by seed %d, %d events in all: %.160s", seed, steps, what)
					return
				}
			}
			t.Errorf("not caught in %d seeds, %d events", m.within, steps)
		})
	}
}

var mutants = []mutant{
	// Commits.
	{"no compares in commits", 40, func(c *Config) {
		c.Faults.Uncertain, c.Faults.Twice, c.Faults.LoseSession = 15, 20, true
		c.Hooks.Txn = func(_ *owner, txn *store.Txn) { unguarded(txn, 0) }
	}},
	{"no compare of the head", 40, func(c *Config) {
		c.Faults.Uncertain, c.Faults.Twice = 15, 20
		c.Hooks.Txn = func(_ *owner, txn *store.Txn) { unguarded(txn, 1) }
	}},
	{"answers without a guard", 300, func(c *Config) {
		c.Faults.LoseSession, c.Faults.Astray, c.Brokers = true, 50, 3
		c.Chaos, c.Think = 2*time.Minute, 50*time.Millisecond
		journals(c, holder.JournalOff)
		c.Hooks.Request = func(_ *World, _ *process, req *pb.SyncRequest) { req.HighestHead = 0 } // which would tell
		c.Hooks.Txn = func(_ *owner, txn *store.Txn) {
			if !writes(*txn) {
				unguarded(txn, 0)
			}
		}
	}},
	{"unknown taken as applied", 40, func(c *Config) {
		c.Faults.Uncertain = 15
		c.Hooks.Result = func(o *owner, txn store.Txn, res *store.TxnResult, err *error) {
			if *err != nil {
				*res, *err = pretend(o, txn), nil
			}
		}
	}},
	{"refused taken as applied", 60, func(c *Config) {
		c.Faults.LoseSession, c.Faults.PauseBroker, c.Faults.Uncertain, c.Brokers = true, true, 10, 3
		c.Hooks.Result = func(o *owner, txn store.Txn, res *store.TxnResult, err *error) {
			if *err == nil && !res.Succeeded && writes(txn) {
				*res = pretend(o, txn)
			}
		}
	}},
	{"reply before commit", 40, func(c *Config) {
		c.Faults.Uncertain = 15
		c.Hooks.Early = replyEarly
	}},
	{"grant IDs start over", 40, func(c *Config) {
		c.Faults.LoseSession, c.Faults.Uncertain = true, 15
		c.Hooks.Result = func(o *owner, _ store.Txn, res *store.TxnResult, _ *error) { forgetNextGrant(o, res) }
	}},
	// Time.
	{"clock starts at the campaign", 100, func(c *Config) {
		c.Faults.LoseSession, c.Faults.CrashBroker, c.Brokers = true, true, 3
		c.Hooks.Moment = func(o *owner, m *shard.Moment) {
			if !o.loadedYet {
				m.Mono = o.campaign + o.b.origin
			}
		}
	}},
	{"wall clock at fail-over", 40, func(c *Config) {
		c.Faults.LoseSession, c.Brokers = true, 3
		c.Hooks.Moment = func(o *owner, m *shard.Moment) {
			if o.loadedYet && o.revision > 10 {
				m.Mono += 5e9
			}
		}
	}},
	// The journal.
	{"spend before draw", 60, func(c *Config) {
		c.Faults.Crash, c.Faults.CrashPoint = true, 3
		block(c)
		c.Hooks.Journal = journalEarly
	}},
	{"a fresh journal proves old epochs", 60, func(c *Config) {
		c.Faults.Crash, c.Faults.Rival, c.Faults.FreshDisk = true, true, 50
		c.Hooks.Past = func(p *process) {
			if p.epoch > 1 && len(p.past) == 0 {
				p.past = []holder.PastEpoch{{Epoch: p.epoch - 1, Counter: math.MaxUint64}}
			}
		}
	}},
	{"counter of the journal unchecked", 200, func(c *Config) {
		c.Faults.Crash, c.Faults.OldDisk, c.Faults.CrashPoint = true, 90, 3
		confirm(c)
		c.Hooks.Request = func(_ *World, _ *process, req *pb.SyncRequest) {
			for _, a := range req.GetAccounts() {
				a.JournalCounter = math.MaxUint64
			}
		}
	}},
	{"journal block on a disk that goes back", 200, func(c *Config) {
		c.Faults.Crash, c.Faults.OldDisk, c.Faults.CrashPoint = true, 90, 3
		block(c)
		c.Hooks.RestoreAny = true
	}},
	// Unknown credit.
	{"two processes share an epoch", 60, func(c *Config) {
		c.Faults.Crash, c.Faults.Rival = true, true
		c.Hooks.Register = func(_ *World, current record.Registration, _ *record.Registration, resp *pb.RegisterResponse, changed *bool) {
			if current.Epoch > 0 {
				resp.Registered, resp.CurrentEpoch, *changed = true, current.Epoch, false
			}
		}
	}},
	{"fenced holder spends on", 60, func(c *Config) {
		c.Faults.Rival = true
		c.Hooks.Answer = spendOn
	}},
	{"silence returns credit", 40, func(c *Config) {
		c.Hooks.Tick = func(w *World) { timeOut(w, true) }
	}},
	{"silence counts as spent", 40, func(c *Config) {
		c.Hooks.Tick = func(w *World) { timeOut(w, false) }
	}},
	{"attestation of the living", 60, func(c *Config) {
		c.Faults.Attest, c.Faults.Rival, c.Hooks.AttestLiving = true, true, true
	}},
	{"attestation gives a burst", 60, func(c *Config) {
		c.Faults.Attest, c.Faults.Crash = true, true
		c.Hooks.Txn = burst
	}},
	// Accounts.
	{"reports are deltas", 40, func(c *Config) {
		c.Faults.Duplicate, c.Faults.Loss = 20, 10
		c.Hooks.Request, c.Hooks.Receive = deltas()
	}},
	{"accounts are matched by key", 200, func(c *Config) {
		c.Faults.Duplicate, c.Faults.Late = 20, 10
		c.Hooks.Receive = matchByKey
	}},
	{"says it returns before it stops", 40, func(c *Config) {
		c.Hooks.Request = func(w *World, p *process, req *pb.SyncRequest) {
			for _, r := range req.GetBudgets() {
				if id, unspent := p.mgr.Held(keyOf(r)); id == r.GetGrantId() && unspent > 0 {
					r.ReturnedTokens++
				}
			}
		}
	}},
	{"issued is a delta", 40, func(c *Config) {
		c.Hooks.Answer = func(p *process, _ uint64, resp *pb.SyncResponse) {
			for _, a := range resp.GetBudgets() {
				if id, unspent := p.mgr.Held(keyOf(a)); id == a.GetGrantId() && unspent > 0 {
					a.IssuedTokens += unspent
				}
			}
		}
	}},
	{"answers are applied to newer requests", 100, func(c *Config) {
		c.Faults.Slow, c.Faults.Duplicate = 20, 20
		c.Hooks.Answer = olderAnswers()
	}},
	// Policies and refill.
	{"a ledger is dropped that is not full", 40, func(c *Config) { c.Hooks.Txn = dropUsed }},
	{"lowering forgets what is out", 40, func(c *Config) {
		c.Faults.ChangePolicy = true
		c.Hooks.Txn = tamper(func(b *record.Budget) bool { return b.Rule.Version > 1 }, func(b *record.Budget) { b.Available = b.Rule.Capacity })
	}},
	{"raising mints", 60, func(c *Config) {
		c.Faults.ChangePolicy = true
		last := map[lease.Key]int64{}
		c.Hooks.Txn = tamper(func(b *record.Budget) bool {
			key := lease.Key{Account: b.Account, Operation: b.Operation}
			newer := last[key] > 0 && b.Rule.Version > last[key]
			last[key] = b.Rule.Version
			return newer
		}, func(b *record.Budget) { b.Available, b.Remainder = max(0, b.Rule.Capacity-b.Reserved), 0 })
	}},
	{"refill ignores what is out", 40, func(c *Config) {
		c.Hooks.Txn = tamper(func(b *record.Budget) bool { return b.Rule.Refill.Tokens > 0 && b.Reserved > 0 }, func(b *record.Budget) {
			b.Available = min(b.Rule.Capacity, b.Available+1)
		})
	}},
}
