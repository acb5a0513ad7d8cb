package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// declaration replaces the generation, under a nonce of its own.
func declaration(generation uint32) *pb.DeclareRestoreRequest {
	return &pb.DeclareRestoreRequest{ReplacedGeneration: generation, Nonce: randomID(), DeclaredBy: "ann", Because: "the backup of Monday"}
}

// stride draws n.
func stride(n uint32) func() uint32 { return func() uint32 { return n } }

// declare declares a restore through the broker.
func (n *node) declare(generation uint32) *pb.Restore {
	n.site.t.Helper()
	resp, err := n.admin.DeclareRestore(n.site.ctx, connect.NewRequest(declaration(generation)))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg.GetRestore()
}

// attest attests it.
func (n *node) attest(generation uint32) *pb.Restore {
	n.site.t.Helper()
	resp, err := n.admin.AttestRestore(n.site.ctx, connect.NewRequest(&pb.AttestRestoreRequest{
		Generation: generation, AttestedBy: "bob", Because: "every limiter was started again",
	}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg.GetRestore()
}

// exact is an exact bucket of 40 tokens and 20 a second: it is never overdrawn
// just if in every interval of length T at most 40 + 20*T was admitted.
type exact struct {
	t       *testing.T
	at      time.Time
	deficit int64 // in tokens times nanoseconds of a second
}

func (e *exact) spend(tokens int64) {
	e.t.Helper()
	now := time.Now()
	if !e.at.IsZero() {
		e.deficit = max(0, e.deficit-20*int64(now.Sub(e.at)))
	}
	e.at = now
	if e.deficit += tokens * int64(time.Second); e.deficit > 40*int64(time.Second) {
		e.t.Errorf("%d tokens are above the cap by %v", tokens, time.Duration(e.deficit-40*int64(time.Second)))
	}
}

// Spent before the copy, after it, while the restore is declared, and after it was
// attested: never more than the cap, in any interval. And the budget is used up to
// the last token that the cap leaves, so the judge would have noticed one more.
func TestRestoreHoldsTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mem := store.NewMemory()
		s := newLocalSite(t, mem, 2)
		n := s.start("a").ready()
		n.apply(bucket(40, 20))
		judge := &exact{t: t}
		eu, us := n.join("eu", "limiter-0").hears("acme", 1), n.join("us", "limiter-0").hears("acme", 1)
		kept := eu.ask("acme", 10) // and it spends none of it
		copied := mem.Snapshot()
		lost := us.ask("acme", 30)
		judge.spend(10) // of us
		mem.Restore(copied)

		restore := n.declare(1)
		if restore.GetGeneration() < 2 || restore.GetAttested() {
			t.Fatalf("%v", restore)
		}
		pass(time.Second)
		next := n.join("eu", "limiter-0", eu.epoch)
		if got := next.ask("acme", 1); got.GetIssuedTokens() != 0 || got.GetShortage() != pb.Shortage_SHORTAGE_EXHAUSTED || got.GetHasRetry() {
			t.Errorf("while nothing is attested: %v", got)
		}
		for _, h := range []*holder{eu, us} {
			report := h.asking("acme", 40, kept.GetGrantId())
			if h == us {
				report.Budgets[0].GrantId = lost.GetGrantId()
			}
			if got := h.sync(report); !got.GetFenced() || !got.GetBudgets()[0].GetGone() {
				t.Errorf("of before the restore: %v", got)
			}
		}
		pass(10 * time.Second)
		if got := next.ask("acme", 1); got.GetIssuedTokens() != 0 {
			t.Errorf("while nothing is attested: %v", got)
		}
		judge.spend(20) // of us, which is cut off, and ends then
		if !n.attest(restore.GetGeneration()).GetAttested() {
			t.Error("not attested")
		}
		var grant string
		var spent int64
		for range 100 {
			req := next.asking("acme", 40, grant)
			req.Budgets[0].SpentTokens, req.Budgets[0].NeedTokens = spent, 1
			got := next.insist(req).GetBudgets()[0]
			if grant = got.GetGrantId(); got.GetIssuedTokens() > spent {
				judge.spend(got.GetIssuedTokens() - spent)
				spent = got.GetIssuedTokens()
			}
			pass(100 * time.Millisecond)
		}
		if spent < 190 || spent > 200 {
			t.Errorf("%d tokens in 10 s of refill", spent)
		}
		if found := n.verify().GetViolations(); len(found) != 0 {
			t.Errorf("%v", found)
		}
	})
}

// A declaration is made once, however often it is asked for, and only in place of
// the generation that it names; an attestation likewise. Each is audited once.
func TestDeclareAndAttestOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, _ := one(t, st, bucket(40, 0))
		declare := func(req *pb.DeclareRestoreRequest) (*pb.Restore, error) {
			resp, err := n.admin.DeclareRestore(s.ctx, connect.NewRequest(req))
			if err != nil {
				return nil, err
			}
			return resp.Msg.GetRestore(), nil
		}
		attest := func(generation uint32) error {
			_, err := n.admin.AttestRestore(s.ctx, connect.NewRequest(&pb.AttestRestoreRequest{Generation: generation, AttestedBy: "bob", Because: "b"}))
			return err
		}
		requireCode(t, attest(2), connect.CodeFailedPrecondition) // nothing was declared
		req := declaration(1)
		first, err := declare(req)
		if err != nil {
			t.Fatal(err)
		}
		again, err := declare(req)
		if err != nil || again.String() != first.String() {
			t.Errorf("%v, %v, want %v", again, err, first)
		}
		_, err = declare(declaration(1))
		requireCode(t, err, connect.CodeFailedPrecondition)
		g := first.GetGeneration()
		requireCode(t, attest(g+1), connect.CodeFailedPrecondition)
		if done := n.attest(g); !done.GetAttested() || done.GetAttestedBy() != "bob" {
			t.Errorf("%v", done)
		}
		if done := n.attest(g); done.GetAttestedBy() != "bob" {
			t.Errorf("%v", done)
		}
		above := declaration(g)
		above.AboveGeneration = 1 << 30
		later, err := declare(above)
		if err != nil || later.GetGeneration() <= 1<<30 || later.GetReplacedGeneration() != g {
			t.Errorf("%v, %v", later, err)
		}
		requireCode(t, attest(g), connect.CodeFailedPrecondition) // it has come too late
		status, err := n.admin.ShowRestore(s.ctx, connect.NewRequest(&pb.ShowRestoreRequest{}))
		if err != nil || status.Msg.GetGeneration() != later.GetGeneration() || !status.Msg.GetUnknown() || len(status.Msg.GetRestores()) != 2 ||
			!status.Msg.GetRestores()[0].GetAttested() || status.Msg.GetRestores()[1].GetAttested() {
			t.Errorf("%v, %v", status, err)
		}
		from, end := record.All(s.layout.Audits())
		var actions []string
		for _, kv := range s.keys(from, end) {
			entry, err := record.Decode[record.Audit](kv)
			if err != nil || entry.By == "" || entry.Because == "" {
				t.Errorf("%+v, %v", entry, err)
			}
			actions = append(actions, entry.Action)
		}
		slices.Sort(actions)
		if want := []string{"policies.apply", "restore.attest", "restore.declare", "restore.declare"}; !slices.Equal(actions, want) {
			t.Errorf("audited %v, want %v", actions, want)
		}
	})
}

// A declaration whose outcome is unknown is asked for again, and made once.
func TestUncertainDeclaration(t *testing.T) {
	for _, applied := range []bool{true, false} {
		st := store.NewFaulty(store.NewMemory())
		layout := record.NewLayout("/test")
		if _, err := openCluster(t.Context(), st, layout, 1, SystemClock()); err != nil {
			t.Fatal(err)
		}
		failed := false
		st.Intercept = func(_ context.Context, txn store.Txn, next func() (store.TxnResult, error)) (store.TxnResult, error) {
			if failed || len(txn.If) == 0 {
				return next()
			}
			failed = true
			if applied {
				if _, err := next(); err != nil {
					t.Error(err)
				}
			}
			return store.TxnResult{}, errDeadline
		}
		req := declaration(1)
		if _, err := DeclareRestore(t.Context(), st.Txn, layout, req, 1, DrawStride); err == nil || !strings.Contains(err.Error(), "restore status") {
			t.Errorf("applied %v: %v", applied, err)
		}
		done, err := DeclareRestore(t.Context(), st.Txn, layout, req, 2, DrawStride)
		if err != nil {
			t.Fatal(err)
		}
		status, err := ShowRestores(t.Context(), st.Txn, layout)
		if err != nil || len(status.GetRestores()) != 1 || status.GetGeneration() != done.GetGeneration() {
			t.Errorf("applied %v: %v, %v", applied, status, err)
		}
	}
}

// A declaration that lost a race, and one that a restore overtook: the
// transaction of another history does not apply, though the revisions are the
// same.
func TestAttestationOfAnotherHistory(t *testing.T) {
	mem := store.NewMemory()
	layout := record.NewLayout("/test")
	if _, err := openCluster(t.Context(), mem, layout, 1, SystemClock()); err != nil {
		t.Fatal(err)
	}
	copied := mem.Snapshot()
	first, err := DeclareRestore(t.Context(), mem.Txn, layout, declaration(1), 1, stride(6))
	if err != nil {
		t.Fatal(err)
	}
	late := func(ctx context.Context, txn store.Txn) (store.TxnResult, error) {
		if len(txn.If) > 0 { // sent before the second restore, and arrives after it
			mem.Restore(copied)
			if _, err := DeclareRestore(ctx, mem.Txn, layout, declaration(1), 1, stride(3)); err != nil {
				t.Fatal(err)
			}
		}
		return mem.Txn(ctx, txn)
	}
	_, err = AttestRestore(t.Context(), late, layout, &pb.AttestRestoreRequest{Generation: first.GetGeneration(), AttestedBy: "bob", Because: "b"}, 2)
	if connect.CodeOf(wireError(err)) != connect.CodeFailedPrecondition {
		t.Errorf("%v", err)
	}
	if status, err := ShowRestores(t.Context(), mem.Txn, layout); err != nil || !status.GetUnknown() || status.GetGeneration() != 4 {
		t.Errorf("%v, %v", status, err)
	}
}

// undeclared is a store in generation 7 whose declaration was deleted.
func undeclared(t *testing.T, st store.Store) record.Layout {
	t.Helper()
	layout := record.NewLayout("/test")
	if _, err := openCluster(t.Context(), st, layout, 1, SystemClock()); err != nil {
		t.Fatal(err)
	}
	if _, err := DeclareRestore(t.Context(), st.Txn, layout, declaration(1), 1, stride(6)); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Txn(t.Context(), store.Txn{Then: []store.Op{{Kind: store.OpDelete, Key: layout.Declaration(7)}}}); err != nil {
		t.Fatal(err)
	}
	return layout
}

// A generation whose declaration was deleted: it is shown, it cannot be attested,
// and another declaration is the way on, above all that is stored.
func TestDeclareWithoutTheLastDeclaration(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		layout := undeclared(t, st)
		attest := func(generation uint32) error {
			_, err := AttestRestore(t.Context(), st.Txn, layout, &pb.AttestRestoreRequest{Generation: generation, AttestedBy: "bob", Because: "b"}, 2)
			return err
		}
		status, err := ShowRestores(t.Context(), st.Txn, layout)
		if err != nil || status.GetGeneration() != 7 || !status.GetUnknown() || len(status.GetRestores()) != 0 {
			t.Errorf("%v, %v", status, err)
		}
		err = attest(7)
		requireCode(t, wireError(err), connect.CodeFailedPrecondition)
		if !errors.Is(err, ErrUndeclared) {
			t.Errorf("%v", err)
		}
		stray := store.Op{Kind: store.OpPut, Key: layout.Declaration(20), Value: record.Encode(record.Declaration{Generation: 20})}
		if _, err := st.Txn(t.Context(), store.Txn{Then: []store.Op{stray}}); err != nil {
			t.Fatal(err)
		}
		done, err := DeclareRestore(t.Context(), st.Txn, layout, declaration(7), 3, stride(2))
		if err != nil || done.GetGeneration() != 22 || done.GetReplacedGeneration() != 7 {
			t.Errorf("%v, %v", done, err)
		}
		if err := attest(22); err != nil {
			t.Error(err)
		}
	})
}

// While the declaration is missing, one of two declarations is made, and one that
// was read before the key came back is not.
func TestDeclarationsRaceWithoutTheLastOne(t *testing.T) {
	race := func(between func(st store.Store, layout record.Layout)) (uint32, error) {
		st := store.NewMemory()
		layout, once := undeclared(t, st), false
		late := func(ctx context.Context, txn store.Txn) (store.TxnResult, error) {
			if len(txn.If) > 0 && !once {
				once = true
				between(st, layout)
			}
			return st.Txn(ctx, txn)
		}
		done, err := DeclareRestore(t.Context(), late, layout, declaration(7), 3, stride(2))
		return done.GetGeneration(), err
	}
	_, err := race(func(st store.Store, layout record.Layout) {
		if _, err := DeclareRestore(t.Context(), st.Txn, layout, declaration(7), 3, stride(9)); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, ErrGeneration) {
		t.Errorf("after another declaration: %v", err)
	}
	writes := 0
	generation, err := race(func(st store.Store, layout record.Layout) {
		writes++
		back := store.Op{Kind: store.OpPut, Key: layout.Declaration(7), Value: record.Encode(record.Declaration{Generation: 7})}
		if _, err := st.Txn(t.Context(), store.Txn{Then: []store.Op{back}}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || generation != 9 || writes != 1 {
		t.Errorf("after the key came back: generation %d, %v", generation, err)
	}
}

// Registrations of before a restore: a start whose answer came late, or was lost,
// gets an epoch of the new generation, and only one.
func TestRegisterAfterARestore(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(40, 0))
	register := func(replaces uint64, nonce string) *pb.RegisterResponse {
		t.Helper()
		resp, err := n.broker.Register(s.ctx, connect.NewRequest(&pb.RegisterRequest{Holder: h.name, ReplacesEpoch: replaces, StartNonce: nonce}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg
	}
	nonce := randomID()
	if got := register(1, nonce); got.GetCurrentEpoch() != 2 {
		t.Fatalf("%v", got)
	}
	floor := lease.EpochFloor(n.declare(1).GetGeneration())
	if got := register(1, nonce); got.GetRegistered() || got.GetCurrentEpoch() != 2 {
		t.Errorf("the same start again: %v", got)
	}
	for range 2 {
		if got := register(2, nonce); !got.GetRegistered() || got.GetCurrentEpoch() != floor+1 {
			t.Errorf("its next request: %v", got)
		}
	}
	if got := register(floor+1, randomID()); got.GetCurrentEpoch() != floor+2 {
		t.Errorf("the next start: %v", got)
	}
	late := h.at(n)
	late.epoch = 2
	if got := late.sync(late.asking("acme", 1)); !got.GetFenced() {
		t.Errorf("an answer that came late: %v", got)
	}
	_, err := n.broker.Register(s.ctx, connect.NewRequest(&pb.RegisterRequest{
		Holder: &pb.Holder{Region: lease.UnknownHolder.Region, Instance: lease.UnknownHolder.Instance}, StartNonce: randomID(),
	}))
	requireCode(t, err, connect.CodeInvalidArgument) // the name of what is unknown is nobody's
	listed, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
	if err != nil || listed.Msg.GetHolders()[0].GetFenced() {
		t.Errorf("%v, %v", listed, err)
	}
}

// What operators see: the shard that has stopped and how that ends, the unknown
// grants that stand for what the copy has, and what is left after the attestation.
func TestRestoreIsShown(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, h := one(t, st, bucket(40, 0))
		old := h.ask("acme", 10).GetGrantId()
		req := h.asking("acme", 20)
		req.HighestHead = h.heads[0] + 1_000_000
		_, err := h.send(req)
		requireCode(t, err, connect.CodeDataLoss)
		for limit := time.Now().Add(patience); n.Ready() && time.Now().Before(limit); {
			runtime.Gosched() // its readiness follows its answer in a moment
		}
		if !strings.Contains(err.Error(), "tokenlease restore declare") || n.Ready() {
			t.Errorf("ready %v: %v", n.Ready(), err)
		}
		g := n.declare(1).GetGeneration()
		if got := h.sync(req); !got.GetFenced() {
			t.Errorf("%v", got)
		}
		n.ready()
		grants := func() []*pb.Grant {
			t.Helper()
			resp, err := n.admin.ListGrants(s.ctx, connect.NewRequest(&pb.ListGrantsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			return resp.Msg.GetGrants()
		}
		show := func() (*pb.Budget, error) {
			resp, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("acme")}))
			if err != nil {
				return nil, err
			}
			return resp.Msg.GetBudget(), nil
		}
		if got := grants(); len(got) != 1 || got[0].GetState() != pb.GrantState_GRANT_STATE_ORPHANED || got[0].GetOutstandingTokens() != 40 || got[0].GetHolder().GetRegion() != lease.UnknownHolder.Region {
			t.Errorf("%v", got)
		}
		if b, err := show(); err != nil || b.GetAvailableTokens() != 0 || b.GetReservedTokens() != 40 || b.GetOrphanedTokens() != 40 || len(b.GetGrants()) != 1 {
			t.Errorf("%v, %v", b, err)
		}
		for _, id := range []string{old, grants()[0].GetGrantId()} {
			_, err = n.admin.ResolveGrant(s.ctx, connect.NewRequest(&pb.ResolveGrantRequest{GrantId: id, AttestedBy: "a", Because: "b", RetireEpoch: true}))
			requireCode(t, err, connect.CodeNotFound)
		}
		if got := n.verify(); len(got.GetViolations()) != 0 || got.GetReservedTokens() != 40 || got.GetOrphanedTokens() != 40 || got.GetGrants() != 0 {
			t.Errorf("%v", got)
		}
		if listed, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{})); err != nil || !listed.Msg.GetHolders()[0].GetFenced() {
			t.Errorf("%v, %v", listed, err)
		}
		n.attest(g)
		if got := grants(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if b, err := show(); err != nil || b.GetAvailableTokens() != 0 || b.GetReservedTokens() != 0 {
			t.Errorf("%v, %v", b, err)
		}
		_, err = n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("beta")}))
		if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "since the restore was attested") {
			t.Errorf("%v", err)
		}
		next := n.join("eu", "limiter-0", h.epoch)
		next.insist(next.asking("acme", 1))
		if got := n.verify(); len(got.GetViolations()) != 0 || got.GetReservedTokens() != 0 {
			t.Errorf("%v", got)
		}
	})
}

// What verify finds of generations.
func TestVerifyFindsGenerations(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(d *damaged)
		want   string
	}{
		{"a generation that was not declared", func(d *damaged) {
			d.putRecord(d.at.Cluster(), record.Cluster{ID: d.verifyingNode.ClusterID(), Shards: 1, Generation: 9})
		}, "whose declaration is not stored"},
		{"a budget of a later one", func(d *damaged) { d.budget.Generation = 9; d.putRecord(d.budgetAt, d.budget) }, "written by generation 9"},
		{"a registration of a later one", func(d *damaged) {
			d.registration.Epoch = lease.EpochFloor(9) + 1
			d.putRecord(d.at.Holder(d.holder), d.registration)
		}, "of generation 9, which is still to come"},
		{"a grant of a later one", func(d *damaged) { d.grant.ID = "g9-000-00000001"; d.putRecord(d.grantAt, d.grant) }, "in generation 1 of the cluster"},
		{"a template that cannot be read", func(d *damaged) { d.put(d.at.Template(0, operation), []byte("{")) }, "cannot be read"},
		{"a template with a grant", func(d *damaged) { d.putRecord(d.at.Template(0, operation), d.budget) }, "template: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := toDamage(t)
			tc.damage(d)
			if found := strings.Join(d.verifyingNode.verify().GetViolations(), "\n"); !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

// On etcd itself: the data directory is replaced by a copy that was taken before
// more was granted, and the restore is declared before a broker serves.
func TestRestoredDataDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd three times")
	}
	dir := filepath.Join(t.TempDir(), "data")
	copied := filepath.Join(t.TempDir(), "copy")
	run := func(work func(st store.Store)) {
		t.Helper()
		e, err := etcdstore.StartEmbedded(t.Context(), etcdstore.EmbeddedConfig{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}()
		work(e.Store())
	}
	prefix := record.NewLayout("/restored")
	serve := func(st store.Store) (*site, *node) {
		s := newSite(t, st, 1)
		s.layout = prefix
		return s, s.start("a").ready()
	}
	var eu, us *holder
	run(func(st store.Store) {
		_, n := serve(st)
		n.apply(bucket(40, 1000))
		eu, us = n.join("eu", "limiter-0").hears("acme", 1), n.join("us", "limiter-0")
		eu.ask("acme", 10)
		n.stop()
	})
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	run(func(st store.Store) {
		_, n := serve(st)
		us = us.at(n).hears("acme", 1)
		us.ask("acme", 30)
		n.stop()
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	run(func(st store.Store) {
		restore, err := DeclareRestore(t.Context(), st.Txn, prefix, declaration(1), 1, DrawStride)
		if err != nil {
			t.Fatal(err)
		}
		s, n := serve(st)
		if got := us.at(n).sync(us.asking("acme", 30)); !got.GetFenced() {
			t.Errorf("of the lost time: %v", got)
		}
		next := n.join("us", "limiter-0", us.epoch)
		if got := next.insist(next.asking("acme", 1)).GetBudgets()[0]; got.GetIssuedTokens() != 0 {
			t.Errorf("not attested: %v", got)
		}
		n.attest(restore.GetGeneration())
		waits := next.asking("acme", 40)
		waits.WaitMs = 20_000
		if got := next.insist(waits).GetBudgets()[0]; got.GetIssuedTokens() != 40 {
			t.Errorf("attested: %v", got)
		}
		if found := n.verify().GetViolations(); len(found) != 0 {
			t.Errorf("%v", found)
		}
		s.requireBalance("acme", 0, 40)
		n.stop()
	})
}
