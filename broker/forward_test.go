package broker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// pair is an owner of every shard, and a broker that owns none and knows it.
func pair(t *testing.T, st store.Store, shards uint32) (s *site, owner, other *node) {
	t.Helper()
	s = newSite(t, st, shards)
	owner, other = s.serve("owner"), s.serve("other")
	owner.own()
	owners := map[uint32]owned{}
	for id := range shards {
		owners[id] = owned{Owner: record.Owner{Shard: id, BrokerID: "owner", URL: owner.url}}
	}
	other.ownership.publish(owners)
	return s, owner, other
}

// Whatever is asked of a broker that does not own the shard gets the owner's
// answer: credit, refusals, long lists, hints, attestations.
func TestForward(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, owner, other := pair(t, st, 2)
		owner.apply(bucket(40, 0))
		for _, r := range []uint32{0, 1} {
			owner.ownership.runner(r).insist(policiesChanged)
		}
		account := accountIn(1, 2)
		h := other.join("eu", "limiter-0").hears(account, 1)
		grant := h.ask(account, 30)
		if grant.GetIssuedTokens() != 30 {
			t.Fatalf("through the other broker: %v", grant)
		}
		s.requireBalance(account, 10, 30)

		bad := h.asking(account, 1)
		bad.Budgets[0].GrantId = "grant-1"
		_, err := h.send(bad)
		requireCode(t, err, connect.CodeInvalidArgument)

		w := h.watch(owner, account)
		other.join("us", "limiter-0").ask(account, 15)
		if hint := w.next(s); hint.GetKeys()[0].GetAccount() != account {
			t.Errorf("hint through the other broker: %v", hint)
		}

		resolved, err := other.admin.ResolveGrant(t.Context(), connect.NewRequest(&pb.ResolveGrantRequest{
			GrantId: grant.GetGrantId(), AttestedBy: "ann", Because: "the machine is gone", RetireEpoch: true, Force: true,
		}))
		if err != nil || resolved.Msg.GetCountedAsSpentTokens() != 30 {
			t.Errorf("attestation through the other broker: %v, %v", resolved, err)
		}
		owner.ownership.giveUp(t.Context(), 1)
		requireCode(t, <-w.err, connect.CodeUnavailable)
	})
}

// An answer long enough to be compressed on each of the two ways arrives whole.
func TestForwardLongAnswer(t *testing.T) {
	_, owner, other := pair(t, store.NewMemory(), 1)
	owner.apply(bucket(40, 0))
	owner.ownership.runner(0).insist(policiesChanged)
	h := other.join("eu", "limiter-0").hears("acme", 1)
	req := h.request("acme")
	for i := range 500 {
		req.Budgets = append(req.Budgets, &pb.BudgetReport{Key: key(fmt.Sprintf("a%d", i)), Sequence: 9, WantTokens: 1})
	}
	if got := h.sync(req).GetBudgets(); len(got) != 500 || got[499].GetIssuedTokens() != 1 {
		t.Errorf("%d answers", len(got))
	}
	for _, client := range []connect.ClientOption{connect.WithGRPC(), connect.WithProtoJSON(), connect.WithSendGzip()} {
		list := h.request("acme")
		list.ListGrants = true
		resp, err := newBrokerClient(other, client).Sync(t.Context(), connect.NewRequest(list))
		if err != nil || len(resp.Msg.GetGrants()) != 500 {
			t.Errorf("the list: %v, %d grants", err, len(resp.Msg.GetGrants()))
		}
	}
}

// Two brokers that each take the other for the owner pass a request on once.
func TestForwardNeverLoops(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	a, b := s.serve("a"), s.serve("b")
	a.ownership.publish(map[uint32]owned{0: {Owner: record.Owner{BrokerID: "b", URL: b.url}}})
	b.ownership.publish(map[uint32]owned{0: {Owner: record.Owner{BrokerID: "a", URL: a.url}}})
	h := a.join("eu", "limiter-0")
	_, err := h.send(h.asking("acme", 1))
	requireCode(t, err, connect.CodeUnavailable)
	stream, err := a.broker.Watch(t.Context(), connect.NewRequest(&pb.WatchRequest{ClusterId: h.node.ClusterID(), Holder: h.name, Epoch: h.epoch}))
	if err == nil {
		stream.Receive()
		err = stream.Err()
		_ = stream.Close()
	}
	requireCode(t, err, connect.CodeUnavailable)
	for _, n := range []*node{a, b} {
		if passed := n.passedOn(); n == a && passed != 2 || n == b && passed != 0 {
			t.Errorf("broker %s passed on %v requests", n.cfg.ID, passed)
		}
	}
}

// An owner that is gone is unavailable, not a denial; so is a shard that has
// none within the wait, and a caller's own deadline is its own.
func TestForwardToNobody(t *testing.T) {
	s := newSite(t, store.NewMemory(), 1)
	n := s.serve("a")
	h := n.join("eu", "limiter-0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := n.owner(ctx, http.Header{}, 0)
	requireCode(t, wireError(err), connect.CodeCanceled)

	n.ownership.publish(map[uint32]owned{0: {Owner: record.Owner{BrokerID: "gone", URL: "http://127.0.0.1:1"}}})
	_, err = h.send(h.asking("acme", 1))
	requireCode(t, err, connect.CodeUnavailable)
}

// A broker over TLS asks nobody in clear text, whatever URL another has registered.
func TestForwardNeverInClearText(t *testing.T) {
	n := newSite(t, store.NewMemory(), 1).serve("a")
	for _, test := range []struct {
		secure bool
		want   string
	}{{false, ""}, {true, "is registered in clear text, and this one speaks TLS alone: give that one certificates"}} {
		_, err := newPeers(http.DefaultClient, "b", test.secure, nil).at(n.url).admin.WhoAmI(t.Context(), connect.NewRequest(&pb.WhoAmIRequest{}))
		if got := fmt.Sprint(err); !strings.Contains(got, test.want) || (err == nil) != (test.want == "") {
			t.Errorf("secure %t: %v, want %q", test.secure, err, test.want)
		}
	}
}
