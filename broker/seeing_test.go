package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (n *node) showBudget(account string) *pb.Budget {
	n.site.t.Helper()
	resp, err := n.admin.ShowBudget(n.site.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key(account)}))
	if err != nil {
		n.site.t.Fatal(err)
	}
	return resp.Msg.GetBudget()
}

// A budget tells what each region has out, in order.
func TestBudgetRegions(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, _ := populated(t, st)
		want := []*pb.RegionCredit{
			{Region: "eu", Grants: 2, LiveTokens: 5, OrphanedTokens: 10},
			{Region: "us", Grants: 1, LiveTokens: 5},
		}
		list, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{Search: "E/"}))
		if err != nil || len(list.Msg.GetBudgets()) != 1 {
			t.Fatal(list, err)
		}
		for _, b := range []*pb.Budget{n.showBudget("e/x"), list.Msg.GetBudgets()[0]} {
			if !slices.EqualFunc(b.GetRegions(), want, func(a, b *pb.RegionCredit) bool { return a.String() == b.String() }) {
				t.Errorf("regions %v", b.GetRegions())
			}
			if b.GetHasFullIn() || b.GetOrphanedTokens() != 10 {
				t.Errorf("budget %v", b)
			}
		}
	})
}

// Lists of budgets are searched in both names, without regard to case, and pages are
// bound to their filters.
func TestSearchBudgets(t *testing.T) {
	s, n, _ := populated(t, store.NewMemory())
	for search, want := range map[string]int{"": 5, "E/X": 1, "Report": 5, "nothing": 0, "b": 1} {
		list, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{Search: search}))
		if err != nil || len(list.Msg.GetBudgets()) != want {
			t.Errorf("search %q: %d budgets, %v, want %d", search, len(list.Msg.GetBudgets()), err, want)
		}
	}
	for _, req := range []*pb.ListBudgetsRequest{{Account: "c"}, {Account: "c", Operation: operation}} {
		list, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(req))
		if err != nil || len(list.Msg.GetBudgets()) != 1 || list.Msg.GetBudgets()[0].GetKey().GetAccount() != "c" {
			t.Errorf("%v: %v, %v", req, list, err)
		}
	}
	first, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{PageSize: 2}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{PageSize: 2, Search: "a", PageToken: first.Msg.GetNextPageToken()}))
	requireCode(t, err, connect.CodeInvalidArgument)
	_, err = n.admin.ListGrants(s.ctx, connect.NewRequest(&pb.ListGrantsRequest{PageToken: first.Msg.GetNextPageToken()}))
	requireCode(t, err, connect.CodeInvalidArgument)
}

// When a budget is full again, by its kind: as if what is out came back now.
func TestBudgetFullIn(t *testing.T) {
	minute := int64(time.Minute)
	rolling := &pb.Policy{Operation: operation, DefaultCostTokens: 1, Rule: &pb.Policy_RollingWindow{RollingWindow: &pb.RollingWindow{LimitTokens: 40, WindowNs: minute}}}
	window := &pb.Policy{Operation: operation, DefaultCostTokens: 1, Rule: &pb.Policy_FixedWindow{FixedWindow: &pb.FixedWindow{LimitTokens: 40, Period: pb.Period_PERIOD_HOUR}}}
	slots := &pb.Policy{Operation: operation, DefaultCostTokens: 1, Rule: &pb.Policy_Concurrency{Concurrency: &pb.Concurrency{Slots: 40}}}
	shared := bucket(40, 1)
	shared.MaxSharePercent = 50
	for name, tc := range map[string]struct {
		policy *pb.Policy
		spent  int64
		in     time.Duration // -1: never
	}{
		"bucket":                {bucket(40, 2), 10, 5 * time.Second},
		"bucket, nothing spent": {bucket(40, 2), 0, 0},
		"bucket with shares":    {shared, 10, 10 * time.Second},
		"quota":                 {bucket(40, 0), 10, -1},
		"quota, nothing spent":  {bucket(40, 0), 0, 0},
		"rolling":               {rolling, 10, time.Minute},
		"fixed window":          {window, 10, time.Hour},
		"slots":                 {slots, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { // which begins at midnight
				s := newLocalSite(t, store.NewMemory(), 1)
				n := s.start("a").ready()
				n.apply(tc.policy)
				h := n.join("eu", "limiter-0").hears("acme", 1)
				grant := h.ask("acme", 20).GetGrantId()
				report := h.asking("acme", 10, grant)
				report.Budgets[0].SpentTokens = tc.spent
				h.sync(report)
				b := n.showBudget("acme")
				if b.GetHasFullIn() != (tc.in >= 0) || b.GetHasFullIn() && time.Duration(b.GetFullInNs()) != tc.in.Round(time.Second) && !near(b.GetFullInNs(), tc.in) {
					t.Errorf("full in %v, %v, want %v: %v", b.GetHasFullIn(), time.Duration(b.GetFullInNs()), tc.in, b)
				}
				n.join("eu", "limiter-0", h.epoch).hears("acme", 1) // what is out is unknown now
				if b := n.showBudget("acme"); b.GetHasFullIn() {
					t.Errorf("with orphaned credit: %v", b)
				}
			})
		})
	}
}

// near says that no more than a moment has passed since in was told.
func near(ns int64, in time.Duration) bool {
	return time.Duration(ns) <= in && time.Duration(ns) > in-100*time.Millisecond
}

// Why a budget denies can be explained: who holds what of it, since when, and until
// when; and of each grant, what happened to it.
func TestCase34ExplainDenial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 1))
		eu := n.join("eu", "limiter-0").hears("acme", 1)
		eu.ask("acme", 40)
		since := time.Now().UnixMilli()
		pass(time.Minute)
		us := n.join("us", "limiter-0").hears("acme", 1)
		if denied := us.ask("acme", 5); denied.GetIssuedTokens() != 0 || denied.GetShortage() == 0 {
			t.Fatalf("not denied: %v", denied)
		}
		b := n.showBudget("acme")
		if b.GetAvailableTokens() != 0 || b.GetReservedTokens() != 40 || len(b.GetGrants()) != 1 || len(b.GetRegions()) != 1 || b.GetRegions()[0].GetRegion() != "eu" {
			t.Fatalf("budget %v", b)
		}
		g := b.GetGrants()[0]
		if g.GetHolder().GetInstance() != "limiter-0" || g.GetOpenedUnixMs() != since || g.GetOutstandingTokens() != 40 {
			t.Errorf("grant %v", g)
		}
		resp, err := n.explain(g.GetGrantId())
		if err != nil || story(resp) != "opened 40/0/0, recalled 40/0/0" || !strings.Contains(strings.Join(resp.GetAdvice(), " "), "may spend what is outstanding: 40 tokens") {
			t.Errorf("explained: %s, %v, %v", story(resp), resp.GetAdvice(), err)
		}
	})
}

// Holders that only sync, and have nothing to record, are heard; whichever broker is
// asked, and whatever its wall clock says.
func TestLastHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 2)
		slow := behindClock{Clock: SystemClock(), by: 10 * time.Minute}
		n, m := s.start("a"), s.start("b", func(c *Config) { c.Clock = slow })
		pass(10 * time.Second)
		n.ready()
		m.ready()
		if n.ownership.count() != 1 || m.ownership.count() != 1 {
			t.Skipf("%d and %d shards", n.ownership.count(), m.ownership.count())
		}
		n.apply(bucket(40, 0))
		account := accountIn(0, 2)
		if n.ownership.runner(0) == nil {
			n, m = m, n // n owns shard 0
		}
		h := n.join("eu", "limiter-0").hears(account, 1)
		grant := h.ask(account, 10).GetGrantId()
		pass(10 * time.Minute)
		h.ask(account, 10, grant) // as every second, for ten minutes
		pass(7 * time.Second)
		for _, asked := range []*node{n, m} {
			list, err := asked.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
			if err != nil || len(list.Msg.GetHolders()) != 1 || len(list.Msg.GetShardsMissing()) != 0 {
				t.Fatal(list, err)
			}
			if ago := list.Msg.GetUnixMs() - list.Msg.GetHolders()[0].GetLastHeardUnixMs(); ago != 7000 {
				t.Errorf("%s: heard %d ms ago", asked.cfg.ID, ago)
			}
			if listening := list.Msg.GetUnixMs() - list.Msg.GetListeningSinceUnixMs(); listening < 600_000 || listening > 630_000 {
				t.Errorf("%s: listens for %d ms", asked.cfg.ID, listening)
			}
			shown, err := asked.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: h.name}))
			if err != nil || shown.Msg.GetStatus().GetLastHeardUnixMs() == 0 {
				t.Error(shown, err)
			}
		}
		s.local.handlers.Delete(m.cfg.ID)
		list, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{}))
		if err != nil || !slices.Equal(list.Msg.GetShardsMissing(), []uint32{1}) || list.Msg.GetHolders()[0].GetLiveGrants() != 1 {
			t.Errorf("without the other broker: %v, %v", list, err)
		}
	})
}

// behindClock has a wall clock that is behind.
type behindClock struct {
	Clock
	by time.Duration
}

func (c behindClock) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// Accounts are found by how their names begin, with case and whatever the names have in
// them, a page at a time.
func TestAccountsByPrefix(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, _ := one(t, st, bucket(40, 0))
		req := &pb.ApplyPoliciesRequest{Plans: []*pb.Plan{plan("free")}}
		for _, name := range []string{"a", "a/b", "a/b c", "a%2Fb", "ab", "Ab", "äb", "b"} {
			req.Accounts = append(req.Accounts, account(name, "free"))
		}
		n.change(req)
		list := func(m *pb.ListAccountsRequest) (names []string) {
			t.Helper()
			for {
				resp, err := n.admin.ListAccounts(s.ctx, connect.NewRequest(m))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range resp.Msg.GetAccounts() {
					names = append(names, a.GetAccount())
				}
				if m.PageToken = resp.Msg.GetNextPageToken(); m.GetPageToken() == "" {
					slices.Sort(names)
					return names
				}
			}
		}
		for prefix, want := range map[string][]string{"a": {"a", "a%2Fb", "a/b", "a/b c", "ab"}, "a/": {"a/b", "a/b c"}, "a/b ": {"a/b c"}, "A": {"Ab"}, "ä": {"äb"}, "abc": nil} {
			for _, size := range []uint32{0, 1} {
				if got := list(&pb.ListAccountsRequest{AccountPrefix: prefix, PageSize: size}); !slices.Equal(got, want) {
					t.Errorf("accounts that begin with %q: %q, want %q", prefix, got, want)
				}
			}
		}
		for name, want := range map[string][]string{"a": {"a"}, "b": nil} {
			if got := list(&pb.ListAccountsRequest{AccountPrefix: "a", Account: name}); !slices.Equal(got, want) {
				t.Errorf("%q that begins with a: %q, want %q", name, got, want)
			}
		}
	})
}
