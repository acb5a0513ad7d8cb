package tokenleasev1

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// The messages here are valid; tests break one thing in them.

func validKey() *BudgetKey { return &BudgetKey{Account: "acme", Operation: "report.create"} }

func validHolder() *Holder { return &Holder{Region: "eu", Instance: "limiter-0"} }

func policyWith(change func(*Policy)) *Policy {
	p := &Policy{
		Operation: "report.create",
		Rule: &Policy_TokenBucket{TokenBucket: &TokenBucket{
			CapacityTokens: 40, RefillTokens: 20, RefillIntervalNs: 1_000_000_000,
		}},
		DefaultCostTokens: 5,
		MaxCostTokens:     40,
		MaxSharePercent:   100,
		Reclaim:           Reclaim_RECLAIM_PROOF,
		OnUnavailable:     Unavailability_UNAVAILABILITY_REJECT,
	}
	change(p)
	return p
}

func registerWith(change func(*RegisterRequest)) *RegisterRequest {
	m := &RegisterRequest{Holder: validHolder(), ReplacesEpoch: 6, StartNonce: "0123456789abcDEF"}
	change(m)
	return m
}

func syncWith(change func(*SyncRequest)) *SyncRequest {
	m := &SyncRequest{
		Holder: validHolder(), Epoch: 7, Shard: 3, HighestHead: 900, JournalCounter: 12, WaitMs: 60_000,
		Budgets: []*BudgetReport{
			{Key: validKey(), Sequence: 4, GrantId: "g-3-1", SpentTokens: 5, ReturnedTokens: 2, WantTokens: 10, NeedTokens: 5},
			{Key: &BudgetKey{Account: "Acme", Operation: "report.create"}, Sequence: 4, WantTokens: 10},
		},
		Closes: []*GrantAccount{{GrantId: "g-3-0", SpentTokens: 15, Key: validKey()}},
		Accounts: []*EpochAccount{{
			Epoch: 6, Source: AccountSource_ACCOUNT_SOURCE_JOURNAL, JournalCounter: 8,
			Grants: []*GrantAccount{{GrantId: "g-2-9", SpentTokens: 1, ReturnedTokens: 1}},
		}},
		ListGrants: true,
	}
	change(m)
	return m
}

// manyReports is a SyncRequest with so many reports. Their keys share parts, so
// that a check which looks at one part alone finds duplicates.
func manyReports(count int) *SyncRequest {
	return syncWith(func(m *SyncRequest) {
		m.Budgets = nil
		for i := range count {
			key := &BudgetKey{Account: "a" + strconv.Itoa(i/2), Operation: "o" + strconv.Itoa((i+1)/2)}
			m.Budgets = append(m.Budgets, &BudgetReport{Key: key, Sequence: 1})
		}
	})
}

func applyWith(change func(*ApplyPoliciesRequest)) *ApplyPoliciesRequest {
	m := &ApplyPoliciesRequest{
		Policies: []*Policy{
			policyWith(func(*Policy) {}),
			policyWith(func(p *Policy) { p.Operation = "report.read" }),
		},
		AppliedBy: "ann",
		Because:   "the new plan",
	}
	change(m)
	return m
}

// validMessages has one full, valid message of every kind that is checked.
func validMessages() []validator {
	checks := make([]*CheckRequest, MaxBatchChecks)
	return []validator{
		validKey(),
		&Holder{Region: strings.Repeat("r", 64), Instance: "limiter-0"},
		policyWith(func(*Policy) {}),
		&CheckRequest{Key: &BudgetKey{Account: "Bücher", Operation: "report.create"}, CostTokens: proto.Int64(5)},
		&CheckBatchRequest{Checks: checks},
		registerWith(func(*RegisterRequest) {}),
		syncWith(func(*SyncRequest) {}),
		manyReports(MaxSyncBudgets),
		&WatchRequest{Holder: validHolder(), Epoch: 7},
		&ListBudgetsRequest{Account: "acme", Operation: "report.create", PageSize: 1000, PageToken: "next"},
		&ShowBudgetRequest{Key: validKey()},
		&ListGrantsRequest{Region: "eu", Instance: "limiter-0", Account: "acme", State: GrantState_GRANT_STATE_ORPHANED},
		&ShowGrantRequest{GrantId: "g-3-1"},
		&ListHoldersRequest{Region: "eu"},
		&ShowHolderRequest{Holder: validHolder()},
		&ResolveGrantRequest{GrantId: "g-3-1", AttestedBy: "ann", Because: "the disk was shredded"},
		&ShowRestoreRequest{},
		&DeclareRestoreRequest{ReplacedGeneration: 1, Nonce: "0123456789abcdef", DeclaredBy: "ann", Because: "the backup of Monday"},
		&AttestRestoreRequest{Generation: 7, AttestedBy: "ann", Because: "all limiters were started again"},
		applyWith(func(*ApplyPoliciesRequest) {}),
		&ListPoliciesRequest{},
		&VerifyRequest{},
	}
}
