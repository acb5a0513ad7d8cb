package holder

import (
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// A grant that the broker has called gone is not taken up again in this epoch,
// whatever is said of it later: what was spent of it is no longer known (found in
// review: two clusters answering in turns).
func TestGoneGrantIsNotTakenUpAgain(t *testing.T) {
	const grant = "g1-000-00000001"
	key := lease.Key{Account: "acme", Operation: "report.create"}
	signals := NewSignals()
	m := New(Config{
		Holder: lease.Holder{Region: "eu", Instance: "a"}, Epoch: 1, Shards: 1,
		Journal: JournalOff, Jitter: func() float64 { return 0 }, Clocks: func() Clocks { return Clocks{} },
	}, signals)
	b := NewBudget(key, signals)
	now, spent := time.Second, int64(0)
	// exchange lets the manager's next report be answered by a.
	exchange := func(a *pb.BudgetAnswer) {
		t.Helper()
		for range 20 {
			now += 100 * time.Millisecond
			b.Signal()
			for _, s := range m.Step(now).Syncs {
				if len(s.Request.GetBudgets()) == 0 {
					m.Synced(s.ID, &pb.SyncResponse{}, nil, now)
					continue
				}
				a.Key, a.Sequence = s.Request.GetBudgets()[0].GetKey(), s.Request.GetBudgets()[0].GetSequence()
				m.Synced(s.ID, &pb.SyncResponse{Budgets: []*pb.BudgetAnswer{a}}, nil, now)
				return
			}
		}
		t.Fatal("nothing was reported")
	}
	spendAll := func() {
		for {
			if _, ok := b.Spend(1); !ok {
				return
			}
			spent++
		}
	}
	if _, ok := b.Wait(20); !ok {
		t.Fatal("retired")
	}
	exchange(&pb.BudgetAnswer{GrantId: grant, IssuedTokens: 20, LevelTokens: 20})
	spendAll()
	exchange(&pb.BudgetAnswer{Gone: true})
	exchange(&pb.BudgetAnswer{GrantId: grant, IssuedTokens: 20, LevelTokens: 20})
	spendAll()
	if spent != 20 {
		t.Errorf("%d spent of a grant of 20", spent)
	}
}
