package explore

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// mixed has a little of everything, for walks.
var mixed = Scope{
	Name: "mixed", Capacity: 3, Refill: 1, Ticks: 4, Journal: holder.JournalConfirm,
	Checks: [regions]int{4, 3}, Costs: []int64{1, 2}, Requests: [regions]int{6, 6}, Answers: 4, Repeats: true,
	GiveUps: 2, Hints: 2, IdleClose: true, Lists: true, Stops: 1, Starts: [regions]int{3, 2},
	Rivals: true, Crashes: true, Fresh: true, Copies: true, BadDisks: 1, Attests: 1, Doubts: 2, FailOvers: 2,
	Alone: true, Capacities: []int64{2, 4},
}

// some is n states, fewer where the race detector slows everything.
func some(n int) int {
	if raceDetector {
		return n / 10
	}
	return n
}

func run(t *testing.T, sc Scope) Result {
	t.Helper()
	r, err := Run(context.Background(), sc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The whole of the small scope holds.
func TestSmall(t *testing.T) {
	sc, _ := Preset("small")
	sc.Cores = 2
	if testing.Short() || raceDetector {
		sc.MaxStates = some(50_000)
	}
	r := run(t, sc)
	t.Log(r)
	if r.Violation != "" {
		t.Fatal("the real code breaks a rule")
	}
	if sc.MaxStates == 0 && (!r.Exhausted || r.States < 100_000 || r.Depth < 20) {
		t.Errorf("the scope is smaller than it should be")
	}
}

// The other scopes hold as far as there is time to look here, and in one or the
// other each kind of event happens.
func TestPresetsBegin(t *testing.T) {
	var tried [kinds]int64
	for _, sc := range append(Presets(), mixed) {
		sc.Cores, sc.MaxStates = 2, some(20_000)
		x := newExplorer(sc)
		if err := x.search(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if x.result.Violation != "" {
			t.Error(x.result)
		} else {
			t.Log(x.result)
		}
		for k, n := range x.tried {
			tried[k] += n
		}
	}
	for k, n := range tried {
		if n == 0 && kind(k) != starts && !raceDetector {
			t.Errorf("no event of kind %d has happened", k)
		}
	}
}

// The result does not depend on the cores, nor on the run.
func TestSameOnAnyNumberOfCores(t *testing.T) {
	for _, name := range []string{"small", "journal", "commits"} {
		sc, _ := Preset(name)
		sc.MaxStates = some(20_000)
		first := run(t, sc)
		for cores := 2; cores <= 5; cores += 3 {
			sc.Cores = cores
			again := run(t, sc)
			again.Ran = first.Ran // two cores may do the same at the same time
			if !reflect.DeepEqual(first, again) {
				t.Errorf("on one core %v, on %d %v", first, cores, again)
			}
		}
	}
}

func TestScopesAreValidated(t *testing.T) {
	good, _ := Preset("small")
	for name, change := range map[string]func(*Scope){
		"no capacity":       func(s *Scope) { s.Capacity = 0 },
		"too many starts":   func(s *Scope) { s.Starts[0] = maxStarts + 1 },
		"too many owners":   func(s *Scope) { s.FailOvers = maxOwners },
		"no costs":          func(s *Scope) { s.Costs = nil },
		"copies that prove": func(s *Scope) { s.Copies, s.Journal = true, holder.JournalBlock },
	} {
		sc := good
		change(&sc)
		if _, err := Run(context.Background(), sc, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, ok := Preset("none"); ok {
		t.Error("there is a preset called none")
	}
}

// A search that is interrupted says so, and tells no whole scope.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	sc, _ := Preset("small")
	r, err := Run(ctx, sc, func(p Progress) {
		if p.States > 5_000 {
			cancel()
		}
	})
	if err != nil || r.Exhausted || r.Bound == "" || r.States < 5_000 {
		t.Errorf("%v, %v", r, err)
	}
}

// saboteurs break rules at the seams. Each is found in its scope.
var saboteurs = []struct {
	name, preset, want string
	hooks              Hooks
}{
	{"a region says that it has returned what it keeps", "small", "could be spent at once", Hooks{
		Request: func(req *pb.SyncRequest) {
			for _, r := range req.GetBudgets() {
				if r.GetGrantId() != "" && r.GetSpentTokens() == 0 {
					r.ReturnedTokens++
				}
			}
		},
	}},
	{"an answer issues one token too many", "small", "are unspent in regions", Hooks{
		Response: func(_ *pb.SyncRequest, resp *pb.SyncResponse) {
			for _, a := range resp.GetBudgets() {
				if a.GetGrantId() != "" {
					a.IssuedTokens++
				}
			}
		},
	}},
	{"a fresh journal proves old epochs", "journal", "are unspent in regions", Hooks{
		Past: func(epoch uint64, past []holder.PastEpoch) []holder.PastEpoch {
			if epoch > 1 && len(past) == 0 {
				return []holder.PastEpoch{{Epoch: epoch - 1, Counter: 1 << 60}}
			}
			return past
		},
	}},
	{"a journal is overwritten at the start", "journal", "could be spent at once", Hooks{
		Past: func(_ uint64, past []holder.PastEpoch) []holder.PastEpoch {
			for i := range past {
				past[i].Drawn = nil
			}
			return past
		},
	}},
	{"commits compare nothing", "commits", "after a commit", Hooks{
		Txn: func(txn *store.Txn) {
			if writes(*txn) {
				txn.If = nil
			}
		},
	}},
	{"a commit makes up a token", "small", "after a commit", Hooks{Txn: makeUp}},
}

func makeUp(txn *store.Txn) {
	ops := append([]store.Op(nil), txn.Then...)
	for i, op := range ops {
		if op.Kind != store.OpPut || !strings.HasPrefix(op.Key, layout.Budgets(0)) {
			continue
		}
		b, err := decode[record.Budget](&op)
		if err == nil && b.Reserved > 0 && b.Available < b.Rule.Capacity {
			b.Available++
			ops[i].Value = record.Encode(b)
		}
	}
	txn.Then = ops
}

func TestSaboteursAreFound(t *testing.T) {
	for _, s := range saboteurs {
		t.Run(s.name, func(t *testing.T) {
			sc, _ := Preset(s.preset)
			sc.Hooks, sc.Cores, sc.MaxStates = s.hooks, 2, 100_000
			r := run(t, sc)
			t.Log(r)
			if !strings.Contains(r.Violation, s.want) {
				t.Fatalf("violation %q, want one with %q", r.Violation, s.want)
			}
			if len(r.History) != r.Depth {
				t.Errorf("a history of %d events, at depth %d", len(r.History), r.Depth)
			}
			sc.Cores = 1
			if again := run(t, sc); !reflect.DeepEqual(again.History, r.History) || again.States != r.States {
				t.Errorf("on one core: %v", again)
			}
		})
	}
}
