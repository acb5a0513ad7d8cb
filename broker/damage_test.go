package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// lossy is an answer that tells of records that cannot be read.
type lossy interface {
	GetUnusable() []string
	GetUnusableCount() int64
}

// views asks for a view after the other, of the cluster of populated.
type views struct{ *node }

// must is the answer to a question that must not fail.
func must[Request, Response any](v views, call func(context.Context, *connect.Request[Request]) (*connect.Response[Response], error), req *Request) *Response {
	v.site.t.Helper()
	resp, err := call(v.site.ctx, connect.NewRequest(req))
	if err != nil {
		v.site.t.Fatalf("%T: %v", req, err)
	}
	return resp.Msg
}

func (v views) holders() *pb.ListHoldersResponse {
	v.site.t.Helper()
	return must(v, v.admin.ListHolders, &pb.ListHoldersRequest{})
}

func (v views) holder(region, instance string) *pb.ShowHolderResponse {
	v.site.t.Helper()
	return must(v, v.admin.ShowHolder, &pb.ShowHolderRequest{Holder: &pb.Holder{Region: region, Instance: instance}})
}

func (v views) grants(req *pb.ListGrantsRequest) *pb.ListGrantsResponse {
	v.site.t.Helper()
	return must(v, v.admin.ListGrants, req)
}

func (v views) budgets() *pb.ListBudgetsResponse {
	v.site.t.Helper()
	return must(v, v.admin.ListBudgets, &pb.ListBudgetsRequest{})
}

func (v views) budget(account string) *pb.ShowBudgetResponse {
	v.site.t.Helper()
	return must(v, v.admin.ShowBudget, &pb.ShowBudgetRequest{Key: key(account)})
}

func (v views) listShards() *pb.ListShardsResponse {
	v.site.t.Helper()
	return must(v, v.admin.ListShards, &pb.ListShardsRequest{})
}

// out is what holders have out, by name.
func out(holders ...*pb.HolderStatus) map[string]string {
	all := map[string]string{}
	for _, h := range holders {
		all[h.GetHolder().GetRegion()+"/"+h.GetHolder().GetInstance()] = fmt.Sprintf("%d in %d", h.GetLiveTokens()+h.GetOrphanedTokens(), h.GetLiveGrants()+h.GetOrphanedGrants())
	}
	return all
}

// One record that cannot be read takes from a view what it is about, and nothing else,
// and the view tells.
func TestViewsPastDamage(t *testing.T) {
	of := func(s *site, account string) (id uint32, k lease.Key) {
		k = lease.Key{Account: account, Operation: operation}
		return lease.ShardOf(k, s.shards), k
	}
	lost := lease.Holder{Region: "eu", Instance: "limiter-1"}
	for name, tc := range map[string]struct {
		damaged func(s *site) string
		check   func(t *testing.T, v views, tells func(what string, answer lossy, want bool))
	}{
		"grant": {
			func(s *site) string {
				id, k := of(s, "a")
				for _, path := range load[record.Budget](s, s.layout.Budget(id, k)).Grants {
					if strings.HasPrefix(path, "eu/limiter-0/") {
						return s.layout.Grants(id) + path
					}
				}
				return ""
			},
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				holders := v.holders()
				tells("holders", holders, true)
				if got := out(holders.GetHolders()...); got["eu/limiter-0"] != "20 in 4" || got["eu/limiter-1"] != "50 in 5" || got["us/limiter-0"] != "25 in 5" {
					t.Errorf("holders %v", got)
				}
				mine, other := v.holder("eu", "limiter-0"), v.holder("us", "limiter-0")
				tells("its holder", mine, true)
				tells("another holder", other, false)
				if got := out(mine.GetStatus(), other.GetStatus()); got["eu/limiter-0"] != "20 in 4" || got["us/limiter-0"] != "25 in 5" || len(mine.GetGrants()) != 4 {
					t.Errorf("two holders %v, with %d grants", got, len(mine.GetGrants()))
				}
				all, some := v.grants(&pb.ListGrantsRequest{}), v.grants(&pb.ListGrantsRequest{Account: "a"})
				tells("grants", all, true)
				tells("grants of the account", some, true)
				tells("grants of another account", v.grants(&pb.ListGrantsRequest{Account: "b"}), false)
				if len(all.GetGrants()) != 14 || len(some.GetGrants()) != 2 {
					t.Errorf("%d and %d grants", len(all.GetGrants()), len(some.GetGrants()))
				}
				budgets, shown := v.budgets(), v.budget("a")
				tells("budgets", budgets, true)
				tells("its budget", shown, true)
				tells("another budget", v.budget("b"), false)
				if b := shown.GetBudget(); len(budgets.GetBudgets()) != 5 || b.GetReservedTokens() != 20 || len(b.GetGrants()) != 2 {
					t.Errorf("%d budgets, and of the account %v", len(budgets.GetBudgets()), b)
				}
				status := v.status(0)
				tells("status", status, true)
				if status.GetInstalled() || status.GetSettled() {
					t.Errorf("status %v", status)
				}
				tells("shards", v.listShards(), false)
			},
		},
		"registration": {
			func(s *site) string { return s.layout.Holder(lost) },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				holders := v.holders()
				tells("holders", holders, true)
				if got := out(holders.GetHolders()...); len(got) != 3 || got["eu/limiter-1"] != "50 in 5" {
					t.Errorf("holders %v", got)
				}
				mine := v.holder("eu", "limiter-1")
				tells("the holder", mine, true)
				if mine.GetStatus().GetEpoch() != 0 || len(mine.GetGrants()) != 5 {
					t.Errorf("the holder %v", mine)
				}
				tells("another holder", v.holder("eu", "limiter-0"), false)
				tells("its grants", v.grants(&pb.ListGrantsRequest{Region: "eu"}), true)
				tells("other grants", v.grants(&pb.ListGrantsRequest{Region: "us"}), false)
				tells("budgets", v.budgets(), true)
				_, err := v.admin.RetireHolder(v.site.ctx, connect.NewRequest(&pb.RetireHolderRequest{Holder: mine.GetStatus().GetHolder(), DryRun: true}))
				requireCode(t, err, connect.CodeDataLoss) // nobody knows which epoch that would be
			},
		},
		"fence": {
			func(s *site) string { return s.layout.Fence(0, lost) },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				tells("holders", v.holders(), true)
				tells("the holder", v.holder("eu", "limiter-1"), true)
				tells("another holder", v.holder("eu", "limiter-0"), false)
				tells("other grants", v.grants(&pb.ListGrantsRequest{Region: "us"}), false)
			},
		},
		"budget": {
			func(s *site) string { return s.layout.Budget(of(s, "c")) },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				budgets := v.budgets()
				tells("budgets", budgets, true)
				if len(budgets.GetBudgets()) != 4 {
					t.Errorf("%d budgets", len(budgets.GetBudgets()))
				}
				tells("its grants", v.grants(&pb.ListGrantsRequest{Account: "c"}), true)
				if all := v.grants(&pb.ListGrantsRequest{}).GetGrants(); len(all) != 15 {
					t.Errorf("%d grants", len(all))
				}
				tells("holders", v.holders(), true) // who may lag in it
				tells("status", v.status(0), true)
				_, err := v.admin.ShowBudget(v.site.ctx, connect.NewRequest(&pb.ShowBudgetRequest{Key: key("c")}))
				requireCode(t, err, connect.CodeDataLoss)
			},
		},
		"account": {
			func(s *site) string { return s.layout.Account("b") },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				budgets, shown := v.budgets(), v.budget("b")
				tells("budgets", budgets, true)
				tells("its budget", shown, true)
				tells("another budget", v.budget("a"), false)
				if len(budgets.GetBudgets()) != 5 || shown.GetBudget().GetReservedTokens() != 20 || shown.GetBudget().GetPolicy().GetTokenBucket().GetCapacityTokens() != 40 {
					t.Errorf("%d budgets, and of the account %v", len(budgets.GetBudgets()), shown)
				}
				tells("status", v.status(0), true)
				tells("holders", v.holders(), true)
				tells("a holder", v.holder("us", "limiter-0"), true)
			},
		},
		"plan": {
			func(s *site) string { return s.layout.Plan("big") },
			func(_ *testing.T, v views, tells func(string, lossy, bool)) {
				tells("budgets", v.budgets(), true)
				tells("status", v.status(0), true)
			},
		},
		"policy version": {
			func(s *site) string { return s.layout.PolicySet() },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				tells("budgets", v.budgets(), true)
				tells("holders", v.holders(), true)
				_, err := v.admin.ShowPolicyStatus(v.site.ctx, connect.NewRequest(&pb.ShowPolicyStatusRequest{}))
				requireCode(t, err, connect.CodeDataLoss)
			},
		},
		"head": {
			func(s *site) string { return s.layout.Head(0) },
			func(t *testing.T, v views, tells func(string, lossy, bool)) {
				budgets, shards, status := v.budgets(), v.listShards(), v.status(0)
				tells("budgets", budgets, true)
				for _, b := range budgets.GetBudgets() {
					if b.GetShard() == 0 {
						t.Errorf("what refill has earned is not known of %v", b)
					}
				}
				tells("shards", shards, true)
				tells("status", status, true)
				if len(shards.GetShards()) != 2 || len(budgets.GetBudgets()) == 0 || status.GetInstalled() {
					t.Errorf("shards %v, %d budgets, status %v", shards, len(budgets.GetBudgets()), status)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n, _ := populated(t, store.NewMemory())
			n.change(&pb.ApplyPoliciesRequest{
				Plans: []*pb.Plan{{Name: "big", Policies: []*pb.Policy{bucket(400, 0)}}}, Accounts: []*pb.AccountPolicies{account("b", "", bucket(40, 0))},
			})
			n.stop()
			v := views{s.serve("viewer")}
			at := tc.damaged(s)
			whole := func(answer lossy) bool { return answer.GetUnusableCount() == 0 && len(answer.GetUnusable()) == 0 }
			if !whole(v.holders()) || !whole(v.grants(&pb.ListGrantsRequest{})) || !whole(v.budgets()) || !whole(v.status(0)) || !v.status(0).GetSettled() {
				t.Fatal("something is told before the damage")
			}
			s.put(at, brokenRecord)
			tc.check(t, v, func(what string, answer lossy, want bool) {
				t.Helper()
				told := answer.GetUnusable()
				if want && (answer.GetUnusableCount() != 1 || len(told) != 1 || !strings.Contains(told[0], at)) || !want && !whole(answer) {
					t.Errorf("%s: %d told, %q; want some: %v", what, answer.GetUnusableCount(), told, want)
				}
			})
		})
	}
}

// However much cannot be read, an answer names some and counts all.
func TestMuchDamage(t *testing.T) {
	s, n, replaced := populated(t, store.NewMemory())
	n.stop()
	v := views{s.serve("viewer")}
	var gone int64
	for id := range s.shards {
		for _, h := range []lease.Holder{holderOf(replaced.name), {Region: "us", Instance: "limiter-0"}} {
			from, end := record.All(s.layout.GrantsOf(id, h))
			for _, kv := range s.keys(from, end) {
				s.put(kv.Key, brokenRecord)
				gone++
			}
		}
	}
	holders := v.holders()
	if gone != 10 || holders.GetUnusableCount() != gone || len(holders.GetUnusable()) != maxUnusable {
		t.Errorf("%d of %d told, and %d named", holders.GetUnusableCount(), gone, len(holders.GetUnusable()))
	}
	if got := out(holders.GetHolders()...); got["eu/limiter-0"] != "25 in 5" || got["us/limiter-0"] != "0 in 0" {
		t.Errorf("holders %v", got)
	}
	page := v.grants(&pb.ListGrantsRequest{PageSize: 3})
	if len(page.GetGrants()) != 3 || page.GetNextPageToken() == "" {
		t.Errorf("page %v", page)
	}
}

// A grant that a budget lists and that is not stored is told as well: it is in no sum.
func TestBudgetWithoutItsGrant(t *testing.T) {
	d := toDamage(t)
	d.remove(d.grantAt)
	v := views{d.verifyingNode}
	for _, answer := range []lossy{v.budget("acme"), v.budgets()} {
		if answer.GetUnusableCount() != 1 || !strings.Contains(answer.GetUnusable()[0], "there is no record at "+d.grantAt) {
			t.Errorf("told %q", answer.GetUnusable())
		}
	}
}
