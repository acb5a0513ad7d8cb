package tokenleasev1

import (
	"slices"
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

// windowWith is a policy of a fixed window.
func windowWith(change func(*FixedWindow)) *Policy {
	w := &FixedWindow{LimitTokens: 1000, Period: Period_PERIOD_DAY, TimeZone: "UTC"}
	change(w)
	return policyWith(func(p *Policy) { p.Rule = &Policy_FixedWindow{FixedWindow: w} })
}

// rollingWith is a policy of a rolling window.
func rollingWith(change func(*RollingWindow)) *Policy {
	w := &RollingWindow{LimitTokens: 3, WindowNs: 60_000_000_000}
	change(w)
	return policyWith(func(p *Policy) { p.Rule = &Policy_RollingWindow{RollingWindow: w} })
}

// deadlineWith is a policy that reclaims by deadline.
func deadlineWith(change func(*Policy)) *Policy {
	return policyWith(func(p *Policy) {
		p.Reclaim, p.MaxStalenessNs, p.ReclaimMarginNs = Reclaim_RECLAIM_DEADLINE, 30e9, 15e9
		change(p)
	})
}

// slotsWith is a policy of so many slots.
func slotsWith(slots int64) *Policy {
	return policyWith(func(p *Policy) { p.Rule = &Policy_Concurrency{Concurrency: &Concurrency{Slots: slots}} })
}

// localWith is a policy with an allowance for outages.
func localWith(change func(*Policy)) *Policy {
	return policyWith(func(p *Policy) {
		p.OnUnavailable = Unavailability_UNAVAILABILITY_LOCAL
		p.Local = &LocalAllowance{CapacityTokens: 5, RefillTokens: 1, RefillIntervalNs: 1_000_000_000, ForNs: 600_000_000_000}
		change(p)
	})
}

// checkWith is a check with every field.
func checkWith(change func(*CheckRequest)) *CheckRequest {
	m := &CheckRequest{
		Key: validKey(), CostTokens: proto.Int64(5), DecisionId: "order-4711/~!", PolicyVersion: 3, MaxWaitMs: 600_000, Priority: Priority_PRIORITY_HIGH,
		Also: []*CheckPart{
			{Key: &BudgetKey{Account: "acme", Operation: "all"}},
			{Key: &BudgetKey{Account: "everybody", Operation: "report.create"}, CostTokens: proto.Int64(0)},
		},
	}
	change(m)
	return m
}

// manyParts is a check with so many further budgets. Their keys share parts.
func manyParts(count int) *CheckRequest {
	return checkWith(func(m *CheckRequest) {
		m.Also = nil
		for i := range count {
			key := &BudgetKey{Account: "a" + strconv.Itoa(i/2), Operation: "o" + strconv.Itoa((i+1)/2)}
			m.Also = append(m.Also, &CheckPart{Key: key})
		}
	})
}

func reserveWith(change func(*CheckRequest)) *ReserveRequest {
	return &ReserveRequest{Check: checkWith(func(m *CheckRequest) {
		m.Also = nil
		change(m)
	})}
}

func settleWith(change func(*SettleRequest)) *SettleRequest {
	m := &SettleRequest{Key: validKey(), ReservationId: "0123456789abcdef0123456789abcdef", CostTokens: 5}
	change(m)
	return m
}

func registerWith(change func(*RegisterRequest)) *RegisterRequest {
	m := &RegisterRequest{Holder: validHolder(), ReplacesEpoch: 6, StartNonce: "0123456789abcDEF"}
	change(m)
	return m
}

func syncWith(change func(*SyncRequest)) *SyncRequest {
	m := &SyncRequest{
		Holder: validHolder(), Epoch: 7, Shard: 3, HighestHead: 900, JournalCounter: 12, WaitMs: 60_000, RoundTripNs: 1_500_000,
		Budgets: []*BudgetReport{
			{Key: validKey(), Sequence: 4, GrantId: "g-3-1", SpentTokens: 5, ReturnedTokens: 2, WantTokens: 10, NeedTokens: 5, HeldTokens: 3, OwedTokens: 9, BoundNs: 30e9},
			{Key: &BudgetKey{Account: "Acme", Operation: "report.create"}, Sequence: 4, WantTokens: 10},
		},
		Closes: []*GrantAccount{{GrantId: "g-3-0", SpentTokens: 15, Key: validKey(), HeldTokens: 2, OwedTokens: 1}},
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

// validMessages has one full, valid message of every kind that is checked.
func validMessages() []validator {
	checks := make([]*CheckRequest, MaxBatchChecks)
	return append([]validator{
		validKey(),
		&Holder{Region: strings.Repeat("r", 64), Instance: "limiter-0"},
		policyWith(func(*Policy) {}),
		windowWith(func(*FixedWindow) {}),
		rollingWith(func(*RollingWindow) {}),
		slotsWith(10),
		deadlineWith(func(*Policy) {}),
		localWith(func(p *Policy) {
			p.HoldNs, p.Postpaid, p.Shadow, p.Disabled, p.DisabledBecause = 90_000_000_000, true, true, true, "abuse, ticket 4711"
		}),
		&CheckRequest{Key: &BudgetKey{Account: "Bücher", Operation: "report.create"}, CostTokens: proto.Int64(5)},
		checkWith(func(*CheckRequest) {}),
		manyParts(MaxCheckParts),
		&CheckBatchRequest{Checks: checks},
		&CheckStreamRequest{Checks: checks},
		reserveWith(func(*CheckRequest) {}),
		settleWith(func(*SettleRequest) {}),
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
		&VerifyRequest{},
	}, slices.Concat(operatorMessages(), policyMessages())...)
}
