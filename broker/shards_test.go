package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (n *node) listShards() []*pb.ShardStatus {
	n.site.t.Helper()
	resp, err := n.admin.ListShards(n.site.ctx, connect.NewRequest(&pb.ListShardsRequest{}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg.GetShards()
}

func (n *node) moveShard(id uint32, to string) (*pb.MoveShardResponse, error) {
	resp, err := n.admin.MoveShard(n.site.ctx, connect.NewRequest(&pb.MoveShardRequest{Shard: id, ToBrokerId: to, MovedBy: "ann", Because: "a new kernel"}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// A shard that is moved is owned by the broker that was named, until the choice is
// given back, or while that broker is away.
func TestMoveShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 4)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		before := time.Now().UnixMilli()
		var id uint32 // one of a
		for _, status := range n.ready().listShards() {
			if status.GetBrokerId() == "a" {
				id = status.GetShard()
			}
			if since := status.GetOwnedSinceUnixMs(); since == 0 || since > before {
				t.Errorf("owned since %d, want before %d: %v", since, before, status)
			}
		}
		moved, err := n.moveShard(id, "b")
		if err != nil || !moved.GetMoved() || moved.GetShard().GetBrokerId() != "b" || moved.GetShard().GetMovedTo() != "b" {
			t.Fatalf("moved: %v, %v", moved, err)
		}
		pass(10 * time.Second)
		if got := m.ready().listShards()[id]; got.GetBrokerId() != "b" || got.GetMovedTo() != "b" || got.GetBrokerUrl() != "http://b" || got.GetOwnedSinceUnixMs() < before {
			t.Errorf("a while later: %v", got)
		}
		m.stop()
		pass(10 * time.Second)
		if got := n.listShards()[id]; got.GetBrokerId() != "a" || got.GetMovedTo() != "b" {
			t.Errorf("without b: %v", got)
		}
		s.start("b")
		pass(10 * time.Second)
		if got := n.listShards()[id]; got.GetBrokerId() != "b" {
			t.Errorf("with b again: %v", got)
		}
		if again, err := n.moveShard(id, "b"); err != nil || !again.GetMoved() {
			t.Errorf("repeated: %v, %v", again, err)
		}
		back, err := n.moveShard(id, "")
		if err != nil || back.GetShard().GetBrokerId() != "a" || back.GetShard().GetMovedTo() != "" || back.GetMoved() {
			t.Errorf("given back: %v, %v", back, err)
		}
		_, err = n.moveShard(id, "nobody")
		requireCode(t, err, connect.CodeFailedPrecondition)
		_, err = n.moveShard(4, "b")
		requireCode(t, err, connect.CodeInvalidArgument)
		audits := s.actions("shards.move")
		if len(audits) != 2 || audits[0].By != "ann" || audits[0].Because != "a new kernel" || audits[0].Subject != fmt.Sprint("shard ", id) || audits[1].After != nil {
			t.Errorf("audit %+v", audits)
		}
	})
}

// A broker that took a shard in place of another, which was there and did not take it,
// keeps it, and gives it up once an operator gives it to that one.
func TestMoveAdoptedShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		stuck := record.Broker{ID: "b", URL: "http://b"}
		for preferred(0, []record.Broker{{ID: "a"}, stuck}) != stuck.ID {
			stuck.ID += "b"
		}
		stuck.URL = "http://" + stuck.ID
		if _, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: s.layout.Broker(stuck.ID), Value: record.Encode(stuck)}}}); err != nil {
			t.Fatal(err)
		}
		n := s.start("a").ready()
		s.start(stuck.ID)
		pass(10 * time.Second)
		if got := n.listShards()[0]; got.GetBrokerId() != "a" {
			t.Fatalf("not adopted: %v", got)
		}
		if moved, err := n.moveShard(0, stuck.ID); err != nil || !moved.GetMoved() {
			t.Errorf("moved: %v, %v", moved, err)
		}
	})
}

// Under load a move loses no credit and gives none twice; requests wait for the new
// owner, or are told to ask again.
func TestMoveShardUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		n.apply(bucket(1000, 0))
		const holders = 8
		stop := make(chan struct{})
		var all sync.WaitGroup
		var mu sync.Mutex
		spent := int64(0)
		var slowest time.Duration
		for i := range holders {
			h := []*node{n, m}[i%2].join("eu", fmt.Sprint("limiter-", i)).hears("acme", 1)
			all.Go(func() {
				grant, used := "", int64(0)
				for {
					select {
					case <-stop:
						h.insist(h.closing("acme", grant, used, 0))
						mu.Lock()
						spent += used
						mu.Unlock()
						return
					case <-time.After(10 * time.Millisecond):
					}
					report := h.asking("acme", 3, grant)
					report.Budgets[0].SpentTokens = used
					begun := time.Now()
					answer := h.insist(report).GetBudgets()[0]
					mu.Lock()
					slowest = max(slowest, time.Since(begun))
					mu.Unlock()
					grant = answer.GetGrantId()
					if answer.GetIssuedTokens() > used && used < 100 {
						used++
					}
				}
			})
		}
		for i := range 10 {
			if moved, err := n.moveShard(0, []string{"a", "b"}[i%2]); err != nil || !moved.GetMoved() {
				t.Errorf("move %d: %v, %v", i, moved, err)
			}
			pass(200 * time.Millisecond)
		}
		close(stop)
		all.Wait()
		if slowest > 2*time.Second {
			t.Errorf("a request took %v", slowest)
		}
		s.requireBalance("acme", 1000-spent, 0)
		n.verified(0)
		if spent < holders*10 {
			t.Errorf("%d were spent: there was no load", spent)
		}
	})
}

// A choice for a shard that cannot be read keeps no shard from an owner, and is told
// once; moving the shard anew replaces it.
func TestMoveUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 2)
		s.put(s.layout.Move(0), brokenRecord)
		s.putRecord(s.layout.Move(1), record.Move{Shard: 0, BrokerID: "b"}) // in another's place
		var log bytes.Buffer                                                // read while everybody waits
		n := s.start("a", func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).ready()
		pass(time.Minute)
		if told := strings.Count(log.String(), "moved anew"); told != 2 {
			t.Errorf("told %d times", told)
		}
		for _, status := range n.listShards() {
			if status.GetBrokerId() != "a" || status.GetMovedTo() != "" {
				t.Errorf("shard %v", status)
			}
		}
		m := s.start("b")
		pass(10 * time.Second)
		m.ready()
		n.stop() // fails over as ever
		pass(10 * time.Second)
		s.start("a").ready()
		pass(10 * time.Second)
		for _, to := range []string{"a", "b"} {
			if moved, err := m.moveShard(0, to); err != nil || !moved.GetMoved() || moved.GetShard().GetBrokerId() != to {
				t.Errorf("moved anew: %v, %v", moved, err)
			}
		}
	})
}

// A broker took a shard in place of the one that it was given to. Asked for the same
// again, it gives the shard up.
func TestMoveAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		s.putRecord(s.layout.Broker("b"), record.Broker{ID: "b", URL: "http://b"}) // which is there, and takes nothing
		moved, err := n.moveShard(0, "b")
		if err != nil || moved.GetMoved() || moved.GetShard().GetBrokerId() != "a" {
			t.Fatalf("moved to who does not take it: %v, %v", moved, err)
		}
		s.start("b")
		pass(10 * time.Second)
		if got := n.listShards()[0]; got.GetBrokerId() != "a" || got.GetMovedTo() != "b" {
			t.Fatalf("not adopted: %v", got)
		}
		if moved, err := n.moveShard(0, "b"); err != nil || !moved.GetMoved() || moved.GetShard().GetBrokerId() != "b" {
			t.Errorf("moved again: %v, %v", moved, err)
		}
		if again, err := n.moveShard(0, "b"); err != nil || !again.GetMoved() {
			t.Errorf("and again: %v, %v", again, err)
		}
		if got := len(s.actions("shards.move")); got != 2 { // the last had nothing to do
			t.Errorf("%d audit entries", got)
		}
	})
}
