package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// populated has two shards, three holders, one of them replaced, and a grant of
// each in each of five budgets: 5 tokens, of which the replaced one has 10.
func populated(t *testing.T, st store.Store) (s *site, n *node, replaced *holder) {
	t.Helper()
	s = newSite(t, st, 2)
	n = s.start("a").ready()
	n.apply(bucket(40, 0))
	accounts := []string{"a", "b", "c", "d", "e/x"}
	var holders []*holder
	for _, name := range [][2]string{{"eu", "limiter-0"}, {"eu", "limiter-1"}, {"us", "limiter-0"}} {
		h := n.join(name[0], name[1])
		holders = append(holders, h)
		for _, account := range accounts {
			h.hears(account, 1).ask(account, map[bool]int64{true: 10, false: 5}[name[1] == "limiter-1"])
		}
	}
	replaced = holders[1]
	n.join("eu", "limiter-1", replaced.epoch)
	return s, n, replaced
}

// pages collects all pages of a list, and checks their sizes.
func pages[T any](t *testing.T, size uint32, page func(token string) ([]T, string)) []T {
	t.Helper()
	var all []T
	for token := ""; ; {
		part, next := page(token)
		if uint32(len(part)) > size || next != "" && uint32(len(part)) != size {
			t.Fatalf("a page of %d, want %d", len(part), size)
		}
		all = append(all, part...)
		if next == "" {
			return all
		}
		token = next
	}
}

// Lists are whole and in order, whatever the size of a page.
func TestAdminPages(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, _ := populated(t, st)
		var wholeGrants, wholeBudgets []string
		for _, size := range []uint32{1000, 1, 3} {
			grants := pages(t, size, func(token string) (ids []string, next string) {
				resp, err := n.admin.ListGrants(s.ctx, connect.NewRequest(&pb.ListGrantsRequest{PageSize: size, PageToken: token}))
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range resp.Msg.GetGrants() {
					ids = append(ids, g.GetGrantId())
				}
				return ids, resp.Msg.GetNextPageToken()
			})
			budgets := pages(t, size, func(token string) (keys []string, next string) {
				resp, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{PageSize: size, PageToken: token}))
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range resp.Msg.GetBudgets() {
					keys = append(keys, fmt.Sprint(b.GetShard(), b.GetKey().GetAccount(), b.GetReservedTokens(), b.GetOrphanedTokens(), len(b.GetGrants())))
				}
				return keys, resp.Msg.GetNextPageToken()
			})
			if wholeGrants == nil {
				wholeGrants, wholeBudgets = grants, budgets
			}
			if len(grants) != 15 || !slices.Equal(grants, wholeGrants) || len(budgets) != 5 || !slices.Equal(budgets, wholeBudgets) {
				t.Errorf("pages of %d:\n%v\n%v\nwant 15 and 5 in the same order:\n%v\n%v", size, grants, budgets, wholeGrants, wholeBudgets)
			}
		}
		_, err := n.admin.ListGrants(s.ctx, connect.NewRequest(&pb.ListGrantsRequest{PageToken: "?"}))
		requireCode(t, err, connect.CodeInvalidArgument)
	})
}

// Filters select, and the state of a grant follows from its holder's epochs.
func TestAdminFilters(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, replaced := populated(t, st)
		orphaned, live := pb.GrantState_GRANT_STATE_ORPHANED, pb.GrantState_GRANT_STATE_LIVE
		for _, tc := range []struct {
			req  *pb.ListGrantsRequest
			want int
		}{
			{&pb.ListGrantsRequest{Region: "eu"}, 10},
			{&pb.ListGrantsRequest{Region: "eu", Instance: "limiter-1"}, 5},
			{&pb.ListGrantsRequest{Instance: "limiter-0", Account: "e/x"}, 2},
			{&pb.ListGrantsRequest{Operation: "other"}, 0},
			{&pb.ListGrantsRequest{State: orphaned}, 5},
			{&pb.ListGrantsRequest{State: live, Account: "a"}, 2},
			{&pb.ListGrantsRequest{State: orphaned, Region: "us"}, 0},
		} {
			resp, err := n.admin.ListGrants(s.ctx, connect.NewRequest(tc.req))
			if err != nil || len(resp.Msg.GetGrants()) != tc.want {
				t.Errorf("%v: %d grants, %v, want %d", tc.req, len(resp.Msg.GetGrants()), err, tc.want)
			}
			for _, g := range resp.Msg.GetGrants() {
				if isReplaced := g.GetHolder().GetInstance() == replaced.name.GetInstance(); isReplaced != (g.GetState() == orphaned) {
					t.Errorf("%v", g)
				}
			}
		}
		one, err := n.admin.ListBudgets(s.ctx, connect.NewRequest(&pb.ListBudgetsRequest{Account: "c"}))
		if err != nil || len(one.Msg.GetBudgets()) != 1 || one.Msg.GetBudgets()[0].GetOrphanedTokens() != 10 {
			t.Errorf("budget c: %v, %v", one, err)
		}
	})
}

// What is shown of one budget, one grant, one holder.
func TestAdminShow(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s, n, replaced := populated(t, st)
		budget, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("e/x")}))
		if err != nil {
			t.Fatal(err)
		}
		b := budget.Msg.GetBudget()
		if b.GetAvailableTokens() != 20 || b.GetReservedTokens() != 20 || b.GetOrphanedTokens() != 10 || len(b.GetGrants()) != 3 || b.GetPolicy().GetVersion() != 1 {
			t.Errorf("budget %v", b)
		}
		for _, g := range b.GetGrants() {
			shown, err := n.admin.ShowGrant(s.ctx, connect.NewRequest(&pb.ShowGrantRequest{GrantId: g.GetGrantId()}))
			if err != nil || shown.Msg.GetGrant().String() != g.String() {
				t.Errorf("grant %v, %v, want %v", shown, err, g)
			}
			if opened := time.UnixMilli(g.GetOpenedUnixMs()); time.Since(opened).Abs() > time.Minute {
				t.Errorf("opened at %v", opened)
			}
		}
		status, err := n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: replaced.name}))
		if err != nil {
			t.Fatal(err)
		}
		h := status.Msg.GetStatus()
		if h.GetEpoch() != 2 || h.GetOrphanedGrants() != 5 || h.GetOrphanedTokens() != 50 || h.GetLiveGrants() != 0 || len(status.Msg.GetGrants()) != 5 || h.GetLastHeardUnixMs() == 0 {
			t.Errorf("holder %v", status.Msg)
		}
		list, err := n.admin.ListHolders(s.ctx, connect.NewRequest(&pb.ListHoldersRequest{Region: "us"}))
		if err != nil || len(list.Msg.GetHolders()) != 1 || list.Msg.GetHolders()[0].GetLiveTokens() != 25 {
			t.Errorf("holders of us: %v, %v", list, err)
		}

		_, err = n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("nobody")}))
		requireCode(t, err, connect.CodeNotFound)
		_, err = n.admin.ShowHolder(s.ctx, connect.NewRequest(&pb.ShowHolderRequest{Holder: &pb.Holder{Region: "ap", Instance: "x"}}))
		requireCode(t, err, connect.CodeNotFound)
		for id, code := range map[string]connect.Code{
			"g1-000-0000ffff": connect.CodeNotFound, "g1-0ff-00000001": connect.CodeNotFound,
			"g1-0-1": connect.CodeInvalidArgument, "nonsense": connect.CodeInvalidArgument,
		} {
			_, err = n.admin.ShowGrant(s.ctx, connect.NewRequest(&pb.ShowGrantRequest{GrantId: id}))
			requireCode(t, err, code)
		}
	})
}

// What is available is projected to now, by refill into the room that there is.
func TestAdminProjectsAvailable(t *testing.T) {
	s, n, h := one(t, store.NewMemory(), bucket(40, 1_000_000))
	grant := h.ask("acme", 30).GetGrantId()
	settle := h.asking("acme", 10, grant)
	settle.Budgets[0].SpentTokens = 20
	h.sync(settle)
	for {
		resp, err := n.admin.ShowBudget(s.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("acme")}))
		if err != nil {
			t.Fatal(err)
		}
		b := resp.Msg.GetBudget()
		if !b.GetProjected() || b.GetReservedTokens() != 10 || b.GetAvailableTokens() > 30 {
			t.Fatalf("budget %v", b)
		}
		if b.GetAvailableTokens() == 30 {
			return
		}
	}
}
