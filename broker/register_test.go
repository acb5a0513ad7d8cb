package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// register is one attempt of a holder that starts.
func (n *node) register(nonce string, replaces uint64) (*pb.RegisterResponse, error) {
	resp, err := n.broker.Register(n.site.ctx, connect.NewRequest(&pb.RegisterRequest{
		Holder: &pb.Holder{Region: "eu", Instance: "limiter-0"}, ReplacesEpoch: replaces, StartNonce: nonce,
	}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// The life of one holder's registration, message by message.
func TestRegister(t *testing.T) {
	const first, second, third = "first00000000000", "second0000000000", "third00000000000"
	onEachStore(t, func(t *testing.T, st store.Store) {
		n := newSite(t, st, 1).serve("a")
		for _, step := range []struct {
			what       string
			nonce      string
			replaces   uint64
			registered bool
			epoch      uint64
		}{
			{"a first start", first, 0, true, 1},
			{"its retry", first, 0, true, 1},
			{"a start that does not know of the first", second, 0, false, 1},
			{"the same, now told the current epoch", second, 1, true, 2},
			{"a late repetition of the first start fences nobody", first, 0, false, 2},
			{"a late repetition of the second's first attempt", second, 0, true, 2},
			{"a start that replaces an epoch long gone", third, 1, false, 2},
			{"a start that replaces an epoch still to come", third, 7, false, 2},
			{"a start that replaces the current", third, 2, true, 3},
			{"the second start again: it was replaced", second, 1, false, 3},
		} {
			resp, err := n.register(step.nonce, step.replaces)
			if err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			if resp.GetRegistered() != step.registered || resp.GetCurrentEpoch() != step.epoch {
				t.Errorf("%s: registered %v at epoch %d, want %v at %d",
					step.what, resp.GetRegistered(), resp.GetCurrentEpoch(), step.registered, step.epoch)
			}
			if resp.GetClusterId() != n.ClusterID() || resp.GetShards() != 1 {
				t.Errorf("%s: cluster %q of %d shards", step.what, resp.GetClusterId(), resp.GetShards())
			}
		}
	})
}

// Concurrent starts of one holder that all insist end up with an epoch each.
func TestRegisterConcurrently(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		const starts = 8
		n := newSite(t, st, 1).serve("a")
		epochs := make([]uint64, starts)
		var all sync.WaitGroup
		for i := range starts {
			all.Go(func() {
				nonce := randomID()
				for replaces := uint64(0); ; {
					resp, err := n.register(nonce, replaces)
					if err != nil {
						t.Error(err)
						return
					}
					if resp.GetRegistered() {
						epochs[i] = resp.GetCurrentEpoch()
						return
					}
					replaces = resp.GetCurrentEpoch()
				}
			})
		}
		all.Wait()
		slices.Sort(epochs)
		for i, epoch := range epochs {
			if epoch != uint64(i)+1 {
				t.Fatalf("epochs %v, want 1 to %d, each once", epochs, starts)
			}
		}
	})
}

// A registration of unknown outcome is unavailable, and the retry gets one
// epoch, whether the first attempt was applied, lost, or still to come.
func TestRegisterUncertain(t *testing.T) {
	unknown := errors.New("deadline exceeded")
	for _, tc := range []struct {
		name  string
		fault func(next func() (store.TxnResult, error)) (late bool)
	}{
		{"applied", func(next func() (store.TxnResult, error)) bool { _, _ = next(); return false }},
		{"lost", func(func() (store.TxnResult, error)) bool { return false }},
		{"applied after the retry", func(func() (store.TxnResult, error)) bool { return true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var late func() (store.TxnResult, error)
			faulted := false
			faulty := store.NewFaulty(etcd(t).Store())
			faulty.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
				if faulted || len(txn.If) == 0 || len(txn.Then) == 0 {
					return next()
				}
				faulted = true
				if tc.fault(next) {
					late = next
				}
				return store.TxnResult{}, unknown
			}
			s := newSite(t, etcd(t).Store(), 1)
			_ = s.serve("creator") // of the cluster, without faults
			n := s.serve("a", func(c *Config) { c.Store = faulty })
			const nonce = "nonce00000000000"
			_, err := n.register(nonce, 0)
			requireCode(t, err, connect.CodeUnavailable)
			for range 2 {
				resp, err := n.register(nonce, 0)
				if err != nil || !resp.GetRegistered() || resp.GetCurrentEpoch() != 1 {
					t.Fatalf("the retry: %v, %v, want epoch 1", resp, err)
				}
			}
			if late != nil {
				if res, err := late(); err != nil || res.Succeeded {
					t.Errorf("the late first attempt: %+v, %v, want it refused", res, err)
				}
			}
			next, err := n.register("another000000000", 1)
			if err != nil || next.GetCurrentEpoch() != 2 {
				t.Errorf("the next start: %v, %v, want epoch 2", next, err)
			}
		})
	}
}

// A registration that cannot be read is not replaced: its epoch would be lost.
func TestRegisterUnreadable(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	h := n.join("eu", "limiter-0")
	at := s.layout.Holders() + "eu/limiter-0"
	s.put(at, []byte("{"))
	_, err := n.register("nonce00000000000", h.epoch)
	requireCode(t, err, connect.CodeDataLoss)
	if got := s.keys(at, at+"\x00")[0].Value; string(got) != "{" {
		t.Errorf("the damaged registration became %s", got)
	}
}

// put writes a key past every rule.
func (s *site) put(key string, value []byte) {
	s.t.Helper()
	if _, err := s.store.Txn(s.t.Context(), store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: key, Value: value}}}); err != nil {
		s.t.Fatal(err)
	}
}

// putRecord is put of a record.
func (s *site) putRecord(key string, value any) {
	s.t.Helper()
	s.put(key, record.Encode(value))
}
