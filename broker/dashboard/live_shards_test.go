package dashboard_test

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// shards are those of the cluster.
func (l *live) shards() []*pb.ShardStatus {
	l.t.Helper()
	resp, err := l.admin.ListShards(l.t.Context(), connect.NewRequest(&pb.ListShardsRequest{}))
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.Msg.GetShards()
}

// owned is a shard of the broker.
func (l *live) owned(broker string) uint32 {
	l.t.Helper()
	for _, s := range l.shards() {
		if s.GetBrokerId() == broker {
			return s.GetShard()
		}
	}
	l.t.Fatalf("no shard of %s: %v", broker, l.shards())
	return 0
}

// TestMoveShard hands a shard to another broker from the page, by keyboard, and gives
// the choice back.
func TestMoveShard(t *testing.T) {
	l := newLive(t)
	other := join(t, l.store, "broker-1")
	b := newTab(t, 1280)
	b.open(l.ui("#/shards"))
	b.waitText("#content", "broker-1")
	shard := l.owned("broker-0")
	row := fmt.Sprintf(`[...document.querySelectorAll('tr[data-key="row %d"]')].at(-1)`, shard)
	button := fmt.Sprintf(`button[aria-label="Move shard %d…"]`, shard)

	b.click(button)
	b.waitText("dialog", "Its owner commits what it has and gives the shard up")
	b.requireText("dialog .facts", "broker-0")
	b.write("#dialog-because", "a new disk")
	b.write("#dialog-by", "ann")
	if !eval[bool](b, `document.querySelector("#dialog-submit").disabled`) {
		t.Error("it can be moved to nowhere")
	}
	eval[bool](b, `(document.querySelector("#dialog-to").focus(), true)`)
	b.keys("broker-1")
	b.wait(`!document.querySelector("#dialog-submit").disabled`)
	if got := l.owned("broker-0"); got != shard {
		t.Fatalf("shard %d is moved before anything was confirmed", shard)
	}
	b.click("#dialog-submit")
	b.waitText("#dialog-done", fmt.Sprintf("Moved: broker-1 owns shard %d.", shard))
	b.click("#dialog-close")
	b.wait(row + `.innerText.includes("by an operator, at broker-1")`)
	if moved := other.shards()[shard]; moved.GetBrokerId() != "broker-1" || moved.GetMovedTo() != "broker-1" {
		t.Errorf("the shard is %v, want at broker-1", moved)
	}
	if e := l.audited("shards.move"); len(e) != 1 || e[0].GetBy() != "ann" || e[0].GetBecause() != "a new disk" {
		t.Errorf("the record is %v", e)
	}

	b.click(button)
	b.waitText("dialog", "give the choice back to the cluster")
	if got := eval[string](b, `[...document.querySelectorAll("#dialog-to option")].map((o) => o.value).join(", ")`); got != ", to broker-0, back" {
		t.Errorf("the choices are %q, want nothing, the other broker and the cluster", got)
	}
	b.write("#dialog-because", "the disk is there")
	eval[bool](b, `(document.querySelector("#dialog-to").focus(), true)`)
	b.keys("give")
	b.click("#dialog-submit")
	b.waitText("#dialog-done", fmt.Sprintf("The cluster chooses the owner of shard %d again.", shard))
	if back := l.shards()[shard]; back.GetMovedTo() != "" {
		t.Errorf("the shard is %v, want no choice left", back)
	}
}
