package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// tell is what is remembered of the grant.
func (r *rig) tell(grantID string) Telling {
	r.t.Helper()
	id, err := lease.ParseGrantID(grantID)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.shard.Tell(r.now, id, eu)
}

func words(st *Story) string {
	var all []string
	for _, e := range st.Events {
		all = append(all, e.What.String())
	}
	return strings.Join(all, " ")
}

// What a commit has done is remembered once the commit is known to have been applied;
// what is not known is not told.
func TestStoriesAreOfCommits(t *testing.T) {
	r := newRig(t)
	a, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	grant := a.requireOne(t).GetBudgets()[0].GetGrantId()
	report := asking(eu, "acme", 2, 10)
	report.Budgets[0].GrantId, report.Budgets[0].SpentTokens = grant, 4
	lost := false
	r.fate = func(txn store.Txn) (bool, error) {
		if lost || !slices.ContainsFunc(txn.Then, func(op store.Op) bool { return op.Kind == store.OpPut }) {
			return true, nil
		}
		lost = true
		return false, errors.New("lost")
	}
	b, _ := r.send(report)
	r.settle()
	b.requireError(t, ErrUncertain)
	if got := r.tell(grant); words(got.Story) != "opened" || got.Story.Events[0].Issued != 10 {
		t.Errorf("after a lost commit: %+v", got.Story)
	}
	r.send(report)
	r.settle()
	if got := r.tell(grant); words(got.Story) != "opened topped-up" || got.Story.Grant.Spent != 4 {
		t.Errorf("after the next: %+v", got.Story)
	}
}

// A story has the first event and the newest, and equal ones that follow each other
// are one.
func TestStoryIsBounded(t *testing.T) {
	st := &Story{}
	st.add(Event{What: Opened, Count: 1})
	for i := range int64(1000) {
		st.add(Event{What: Reported, Count: 1, Spent: i})
		st.add(Event{What: Reported, Count: 1, Spent: i})
		st.add(Event{What: ToppedUp, Count: 1, Issued: i})
	}
	last := st.Events[len(st.Events)-1]
	if len(st.Events) != maxEvents || st.Events[0].What != Opened || last.What != ToppedUp || last.Issued != 999 || st.Events[maxEvents-2].Count != 2 {
		t.Errorf("%d events, the last %+v", len(st.Events), last)
	}
}

// The owner remembers a bounded number of grants, the newest, and those that have
// ended for an hour.
func TestStoriesAreBounded(t *testing.T) {
	r := newRig(t)
	r.settle()
	s := r.shard
	grant := func(i int) *lease.Grant {
		return &lease.Grant{ID: lease.GrantID{Generation: 1, Sequence: uint64(i + 1)}, Holder: eu, Epoch: 1, Issued: 5}
	}
	for i := range 3 * maxStories {
		s.story(lease.Key{Account: "acme", Operation: operation}, grant(i), 1)
		if i%3 == 0 {
			s.over(ending{was: *grant(i), what: Closed, spent: 2})
		}
	}
	if len(s.stories.live) != maxStories || len(s.stories.order) > 2*maxStories || len(s.stories.ended) != maxEnded {
		t.Errorf("%d live, %d in order, %d ended", len(s.stories.live), len(s.stories.order), len(s.stories.ended))
	}
	newest, oldest := s.stories.live[grant(3*maxStories-1).ID], s.stories.live[grant(1).ID]
	if newest == nil || oldest != nil {
		t.Errorf("newest %v, oldest %v", newest, oldest)
	}
	ended := s.Tell(r.now, grant(3*maxStories-3).ID, eu)
	if ended.Story == nil || !ended.Story.Ended || ended.Story.Grant.Spent != 2 || ended.Story.Grant.Returned != 3 {
		t.Errorf("ended: %+v", ended.Story)
	}
	r.now.Mono += endedFor + time.Minute
	if late := s.Tell(r.now, grant(3*maxStories-3).ID, eu); late.Story != nil {
		t.Errorf("an hour later: %+v", late.Story)
	}
	s.moment = r.now
	s.over(ending{was: *grant(0), what: Closed})
	if len(s.stories.ended) != 1 {
		t.Errorf("%d ended", len(s.stories.ended))
	}
}

// A report of a grant that is known costs no memory.
func TestReportsAreRememberedWithoutMemory(t *testing.T) {
	r := newRig(t)
	a, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	a.requireOne(t)
	s := r.shard
	e := s.ledgers[lease.Key{Account: "acme", Operation: operation}]
	id := e.ledger.Grants[0].ID
	b := s.newBatch()
	b.touchGrant(e, id)
	s.chronicle(b)
	if n := testing.AllocsPerRun(100, func() {
		e.ledger.Grants[0].Spent++
		s.chronicle(b)
		e.spend(s.moment.Mono, 1)
		s.hearFrom(eu, s.moment)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChronicle(b *testing.B) {
	r := newRig(&testing.T{})
	r.send(asking(eu, "acme", 1, 10))
	r.settle()
	s := r.shard
	e := s.ledgers[lease.Key{Account: "acme", Operation: operation}]
	batch := s.newBatch()
	batch.touchGrant(e, e.ledger.Grants[0].ID)
	b.ReportAllocs()
	for b.Loop() {
		s.chronicle(batch)
		e.spend(s.moment.Mono, 1)
		s.hearFrom(eu, s.moment)
	}
}

// Whoever sends a request is heard, be there anything to record or not; one that
// waits is heard all the time, and one that has given up is not.
func TestHeard(t *testing.T) {
	r := newRig(t).settle()
	if h := r.shard.Heard(r.now); len(h.Ago) != 0 || h.Listening > time.Second {
		t.Errorf("at the start: %+v", h)
	}
	r.send(asking(eu, "acme", 1, 40))
	r.settle()
	waits := asking(us, "acme", 1, 40)
	waits.WaitMs = 60_000
	_, ticket := r.send(waits)
	r.settle()
	r.now.Mono += 30 * time.Second
	h := r.shard.Heard(r.now)
	if h.Ago[eu] < 30*time.Second || h.Ago[eu] > 31*time.Second || h.Ago[us] != 0 || h.Listening < 30*time.Second {
		t.Errorf("a while later: %+v", h)
	}
	ticket.Cancel()
	if h := r.shard.Heard(r.now); h.Ago[us] < 30*time.Second {
		t.Errorf("given up: %+v", h)
	}
}

// Nothing is remembered of names that nobody has registered, and no round trip but of
// requests that were admitted: what a limiter tells whose epoch has ended is of no use,
// nor what nobody answers for. It is dropped once it does not count any more.
func TestHeardOfNobody(t *testing.T) {
	r := newRig(t).settle()
	send := func(h lease.Holder, epoch uint64, took time.Duration) {
		r.send(&pb.SyncRequest{Holder: wire(h), Epoch: epoch, RoundTripNs: int64(took)})
	}
	for i := range 20 {
		send(lease.Holder{Region: "eu", Instance: fmt.Sprintf("nobody-%d", i)}, 1, time.Minute)
	}
	r.settle() // it stops: an epoch that nobody has registered tells of a store that was set back
	if n := len(r.shard.heard) + len(r.shard.roundTrips) + len(r.shard.fences); n != 0 {
		t.Errorf("heard %v, round trips %v, fences %v of nobody", r.shard.heard, r.shard.roundTrips, r.shard.fences)
	}
	r = newRig(t).settle()
	send(eu, 1, 20*time.Millisecond)
	r.register(us, 2)
	send(us, 1, time.Minute)
	r.settle()
	h := r.shard.Heard(r.now)
	if _, heard := h.Ago[us]; !heard || len(h.Ago) != 2 || len(h.RoundTrips) != 1 || h.RoundTrips[eu] != 20*time.Millisecond {
		t.Errorf("an epoch that has ended is heard, and its round trip does not count: %+v", h)
	}
	r.send(asking(eu, "acme", 1, 10)) // so that there is something to sweep
	r.settle()
	r.pass(RoundTripsFor - time.Second)
	if len(r.shard.roundTrips) != 1 {
		t.Error("a round trip is dropped early")
	}
	r.pass(3 * time.Second)
	if len(r.shard.roundTrips) != 0 || len(r.shard.heard) != 2 {
		t.Errorf("later: heard %v, round trips %v", r.shard.heard, r.shard.roundTrips)
	}
}

// Budgets are ranked by what is spent of late, or by what is wanted in vain.
func TestTop(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		a, _ := r.send(asking(eu, accountName(i), 1, 20))
		r.settle()
		report := asking(eu, accountName(i), 2, 10)
		report.Budgets[0].GrantId, report.Budgets[0].SpentTokens = a.requireOne(t).GetBudgets()[0].GetGrantId(), int64(i)
		r.send(report)
		r.settle()
	}
	top := r.shard.Top(r.now, Busiest, 3)
	if len(top) != 3 || top[0].Key.Account != accountName(4) || top[2].Key.Account != accountName(2) || top[0].PerSecond < 0.35 || top[0].PerSecond > 0.4 {
		t.Errorf("busiest %+v", top)
	}
	if starved := r.shard.Top(r.now, Starved, 3); len(starved) != 0 {
		t.Errorf("starved %+v", starved)
	}
	r.send(asking(us, accountName(1), 1, 40))
	r.settle()
	starved := r.shard.Top(r.now, Starved, 3)
	if len(starved) != 1 || starved[0].Key.Account != accountName(1) || starved[0].Wanted < 20 || starved[0].Waiting != 0 || starved[0].Capacity != 40 {
		t.Errorf("starved %+v", starved)
	}
}
