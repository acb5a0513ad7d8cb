package tokenleasev1

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// validator is what every request message implements.
type validator interface {
	proto.Message
	Validate() error
}

func TestEveryRequestHasValidate(t *testing.T) {
	files := []protoreflect.FileDescriptor{
		File_tokenlease_v1_admin_proto, File_tokenlease_v1_broker_proto, File_tokenlease_v1_limiter_proto,
	}
	seen := 0
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				name := methods.Get(j).Input().FullName()
				kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := kind.New().Interface().(validator); !ok {
					t.Errorf("%s has no Validate", name)
				}
				seen++
			}
		}
	}
	if seen < 15 {
		t.Fatalf("looked at %d methods, want all of them", seen)
	}
}

func TestValidAcceptsAndAllocatesNothing(t *testing.T) {
	for _, m := range validMessages() {
		name := string(m.ProtoReflect().Descriptor().Name())
		t.Run(name, func(t *testing.T) {
			if err := m.Validate(); err != nil {
				t.Fatalf("Validate() = %v, want nil", err)
			}
			allocs := testing.AllocsPerRun(100, func() {
				if m.Validate() != nil {
					t.Error("became invalid")
				}
			})
			if allocs != 0 {
				t.Errorf("a valid %s costs %v allocations, want 0", name, allocs)
			}
		})
	}
}

func TestValidEdges(t *testing.T) {
	tests := []struct {
		name string
		in   validator
	}{
		{"longest account", &BudgetKey{Account: strings.Repeat("a", 256), Operation: "o"}},
		{"longest operation", &BudgetKey{Account: "a", Operation: strings.Repeat("o", 128)}},
		{"account beyond ASCII", &BudgetKey{Account: "Bücher 本", Operation: "o"}},
		{"the replacement character itself", &BudgetKey{Account: "\uFFFD", Operation: "o"}},
		{"holder with dots", &Holder{Region: "eu.1", Instance: "..."}},
		{"cost zero", &CheckRequest{Key: validKey(), CostTokens: proto.Int64(0)}},
		{"largest cost", &CheckRequest{Key: validKey(), CostTokens: proto.Int64(math.MaxInt64)}},
		{"empty batch", &CheckBatchRequest{}},
		{"batch with an invalid check", &CheckBatchRequest{Checks: []*CheckRequest{{CostTokens: proto.Int64(-1)}}}},
		{"empty message of a stream", &CheckStreamRequest{}},
		{"stream with an invalid check", &CheckStreamRequest{Checks: []*CheckRequest{nil, {PolicyVersion: -1}}}},
		{"shortest decision ID", checkWith(func(m *CheckRequest) { m.DecisionId = "!" })},
		{"longest decision ID", checkWith(func(m *CheckRequest) { m.DecisionId = strings.Repeat("~", 128) })},
		{"no decision ID", checkWith(func(m *CheckRequest) { m.DecisionId = "" })},
		{"largest policy version", checkWith(func(m *CheckRequest) { m.PolicyVersion = math.MaxInt64 })},
		{"no priority", checkWith(func(m *CheckRequest) { m.Priority = 0 })},
		{"as many parts as allowed", manyParts(15)},
		{"parts that differ by case", checkWith(func(m *CheckRequest) { m.Also[0].Key = &BudgetKey{Account: "Acme", Operation: "report.create"} })},
		{"reservation of nothing", reserveWith(func(m *CheckRequest) { m.CostTokens = proto.Int64(0) })},
		{"settlement at nothing", settleWith(func(m *SettleRequest) { m.CostTokens = 0 })},
		{"largest settlement", settleWith(func(m *SettleRequest) { m.CostTokens = math.MaxInt64 })},
		{"list without selection", &ListGrantsRequest{}},
		{"capacity zero", policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = 0 })},
		{"largest capacity", policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = 1e18 })},
		{"largest refill", policyWith(func(p *Policy) { p.GetTokenBucket().RefillTokens = math.MaxInt64 })},
		{"fixed quota", policyWith(func(p *Policy) { p.Rule = &Policy_TokenBucket{TokenBucket: &TokenBucket{CapacityTokens: 1}} })},
		{"a year", policyWith(func(p *Policy) { p.GetTokenBucket().RefillIntervalNs = int64(MaxRefillInterval) })},
		{"window of limit zero", windowWith(func(w *FixedWindow) { w.LimitTokens = 0 })},
		{"window of the largest limit", windowWith(func(w *FixedWindow) { w.LimitTokens = 1e18 })},
		{"shortest period", windowWith(func(w *FixedWindow) { w.Period = Period_PERIOD_MINUTE })},
		{"longest period", windowWith(func(w *FixedWindow) { w.Period = Period_PERIOD_MONTH })},
		{"no time zone", windowWith(func(w *FixedWindow) { w.TimeZone = "" })},
		{"time zone", windowWith(func(w *FixedWindow) { w.TimeZone = "Europe/Berlin" })},
		{"time zone of three parts", windowWith(func(w *FixedWindow) { w.TimeZone = "America/Argentina/Buenos_Aires" })},
		{"time zone with a sign", windowWith(func(w *FixedWindow) { w.TimeZone = "Etc/GMT+12" })},
		{"rolling window of limit zero", rollingWith(func(w *RollingWindow) { w.LimitTokens = 0 })},
		{"shortest rolling window", rollingWith(func(w *RollingWindow) { w.WindowNs = 1_000_000 })},
		{"longest rolling window", rollingWith(func(w *RollingWindow) { w.WindowNs = 366 * 24 * 3600 * 1e9 })},
		{"no slots", slotsWith(0)},
		{"most slots", slotsWith(1e18)},
		{"shortest hold", policyWith(func(p *Policy) { p.HoldNs = 1_000_000 })},
		{"longest hold", policyWith(func(p *Policy) { p.HoldNs = 366 * 24 * 3600 * 1e9 })},
		{"slots that are held for a time", func() *Policy { p := slotsWith(3); p.HoldNs = 1e9; return p }()},
		{"shortest staleness and margin", deadlineWith(func(p *Policy) { p.MaxStalenessNs, p.ReclaimMarginNs = 5e9, 1e9 })},
		{"longest staleness and margin", deadlineWith(func(p *Policy) {
			p.MaxStalenessNs, p.ReclaimMarginNs = 366*24*3600*1e9, 366*24*3600*1e9
		})},
		{"staleness with proof", policyWith(func(p *Policy) { p.MaxStalenessNs = 5e9 })},
		{"staleness where reclaim is unspecified", policyWith(func(p *Policy) { p.MaxStalenessNs, p.Reclaim = 5e9, 0 })},
		{"staleness of slots", func() *Policy { p := slotsWith(3); p.MaxStalenessNs = 60e9; return p }()},
		{"no bound and no round trip", syncWith(func(m *SyncRequest) { m.Budgets[0].BoundNs, m.RoundTripNs = 0, 0 })},
		{"a bound where nothing is held", syncWith(func(m *SyncRequest) { m.Budgets[1].BoundNs = 1 })},
		{"largest bound and round trip", syncWith(func(m *SyncRequest) { m.Budgets[0].BoundNs, m.RoundTripNs = math.MaxInt64, math.MaxInt64 })},
		{"disabled without a reason", policyWith(func(p *Policy) { p.Disabled = true })},
		{"longest reason", policyWith(func(p *Policy) { p.Disabled, p.DisabledBecause = true, strings.Repeat("b", 1024) })},
		{"unavailable is unspecified", policyWith(func(p *Policy) { p.OnUnavailable = 0 })},
		{"local without refill", localWith(func(p *Policy) { p.Local.RefillTokens, p.Local.RefillIntervalNs = 0, 0 })},
		{"smallest local", localWith(func(p *Policy) { p.Local.CapacityTokens, p.Local.ForNs = 1, 1 })},
		{"largest local", localWith(func(p *Policy) { p.Local.CapacityTokens, p.Local.ForNs = 1e18, 366*24*3600*1e9 })},
		{"held at the end of its range", syncWith(func(m *SyncRequest) {
			m.Budgets[0].SpentTokens, m.Budgets[0].ReturnedTokens, m.Budgets[0].HeldTokens = math.MaxInt64-2, 1, 1
			m.Budgets[0].OwedTokens = math.MaxInt64 // which is not of what was issued
		})},
		{"no share", policyWith(func(p *Policy) { p.MaxSharePercent = 0 })},
		{"cost zero allowed", policyWith(func(p *Policy) { p.DefaultCostTokens, p.AllowZeroCost = 0, true })},
		{"cost equal to the most", policyWith(func(p *Policy) { p.DefaultCostTokens, p.MaxCostTokens = 7, 7 })},
		{"cost above the capacity", policyWith(func(p *Policy) { p.DefaultCostTokens, p.MaxCostTokens = 99, 0 })},
		{"counters at the end of their range", syncWith(func(m *SyncRequest) {
			m.Budgets[0].SpentTokens, m.Budgets[0].ReturnedTokens, m.Budgets[0].HeldTokens = math.MaxInt64-1, 1, 0
		})},
		{"the sender's own account", syncWith(func(m *SyncRequest) { m.Accounts[0].Epoch = m.GetEpoch() })},
		{"the ends of the letters and digits", registerWith(func(m *RegisterRequest) { m.StartNonce = "azAZ09azAZ09azAZ09" })},
		{"as many reports as allowed", manyReports(MaxSyncBudgets)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.in.Validate(); err != nil {
				t.Errorf("Validate() = %v, want nil", err)
			}
		})
	}
}

func TestCase29Invalid(t *testing.T) {
	tests := []struct {
		in      validator
		field   string
		problem string
	}{
		{&BudgetKey{Operation: "o"}, "account", "must have 1 to 256 bytes, has 0"},
		{&BudgetKey{Account: strings.Repeat("a", 257), Operation: "o"}, "account", "must have 1 to 256 bytes, has 257"},
		{&BudgetKey{Account: "a\nb", Operation: "o"}, "account", "must have no control characters, has U+000A at byte 1"},
		{&BudgetKey{Account: "ab\x7f", Operation: "o"}, "account", "must have no control characters, has U+007F at byte 2"},
		{&BudgetKey{Account: "é\u0085", Operation: "o"}, "account", "must have no control characters, has U+0085 at byte 2"},
		{&BudgetKey{Account: "a\xff", Operation: "o"}, "account", "must be UTF-8, is not at byte 1"},
		{&BudgetKey{Account: "é\xc3", Operation: "o"}, "account", "must be UTF-8, is not at byte 2"},
		{&BudgetKey{Account: "a"}, "operation", "must have 1 to 128 bytes, has 0"},
		{&BudgetKey{Account: "a", Operation: strings.Repeat("o", 10<<20)}, "operation", "must have 1 to 128 bytes, has 10485760"},

		{&Holder{Instance: "i"}, "region", "must have 1 to 64 bytes, has 0"},
		{&Holder{Region: "eu/1", Instance: "i"}, "region", "must be of letters, digits, '.', '_' and '-', has '/' at byte 2"},
		{&Holder{Region: "eu", Instance: "é"}, "instance", "must be of letters, digits, '.', '_' and '-', has 'Ã' at byte 0"},
		{&Holder{Region: ".", Instance: "i"}, "region", `must not be "."`},
		{&Holder{Region: "eu", Instance: ".."}, "instance", `must not be ".."`},
		{&Holder{Region: "eu", Instance: strings.Repeat("i", 65)}, "instance", "must have 1 to 64 bytes, has 65"},

		{&CheckRequest{}, "key.account", "must have 1 to 256 bytes, has 0"},
		{&CheckRequest{Key: validKey(), CostTokens: proto.Int64(-5)}, "cost_tokens", "must be 0 or more, is -5"},
		{&CheckBatchRequest{Checks: make([]*CheckRequest, 1001)}, "checks", "must have 0 to 1000 elements, has 1001"},
		{&CheckStreamRequest{Checks: make([]*CheckRequest, 1001)}, "checks", "must have 0 to 1000 elements, has 1001"},
		{checkWith(func(m *CheckRequest) { m.DecisionId = strings.Repeat("d", 129) }), "decision_id", "must have 1 to 128 bytes, has 129"},
		{checkWith(func(m *CheckRequest) { m.DecisionId = "a b" }), "decision_id", "must be printable ASCII without spaces, has ' ' at byte 1"},
		{checkWith(func(m *CheckRequest) { m.DecisionId = "é" }), "decision_id", "must be printable ASCII without spaces, has 'Ã' at byte 0"},
		{checkWith(func(m *CheckRequest) { m.DecisionId = "ab\x7f" }), "decision_id", `must be printable ASCII without spaces, has '\x7f' at byte 2`},
		{checkWith(func(m *CheckRequest) { m.PolicyVersion = -1 }), "policy_version", "must be 0 or more, is -1"},
		{checkWith(func(m *CheckRequest) { m.MaxWaitMs = 600_001 }), "max_wait_ms", "must be at most 600000, is 600001"},
		{checkWith(func(m *CheckRequest) { m.Priority = 3 }), "priority", "must be PRIORITY_NORMAL or PRIORITY_HIGH, is the unknown value 3"},
		{checkWith(func(m *CheckRequest) { m.Priority = -1 }), "priority", "must be PRIORITY_NORMAL or PRIORITY_HIGH, is the unknown value -1"},
		{manyParts(16), "also", "must have 0 to 15 elements, has 16"},
		{checkWith(func(m *CheckRequest) { m.Also[1] = nil }), "also[1].key.account", "must have 1 to 256 bytes, has 0"},
		{checkWith(func(m *CheckRequest) { m.Also[0].Key.Operation = "\n" }), "also[0].key.operation", "must have no control characters, has U+000A at byte 0"},
		{checkWith(func(m *CheckRequest) { m.Also[1].CostTokens = proto.Int64(-1) }), "also[1].cost_tokens", "must be 0 or more, is -1"},
		{checkWith(func(m *CheckRequest) { m.Also[1].Key = validKey() }), "also[1].key", "must be unique, repeats key"},
		{checkWith(func(m *CheckRequest) { m.Also[1].Key = m.Also[0].Key }), "also[1].key", "must be unique, repeats that of also[0]"},
		{&ReserveRequest{}, "check", "must be set: it says what to reserve"},
		{reserveWith(func(m *CheckRequest) { m.Key = nil }), "check.key.account", "must have 1 to 256 bytes, has 0"},
		{reserveWith(func(m *CheckRequest) { m.CostTokens = proto.Int64(-1) }), "check.cost_tokens", "must be 0 or more, is -1"},
		{reserveWith(func(m *CheckRequest) { m.Also = []*CheckPart{{Key: validKey()}} }), "check.also", "must be empty: a reservation is of one budget, has 1 elements"},
		{settleWith(func(m *SettleRequest) { m.Key = nil }), "key.account", "must have 1 to 256 bytes, has 0"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "" }), "reservation_id", "must have 32 bytes, has 0"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = strings.Repeat("0", 31) }), "reservation_id", "must have 32 bytes, has 31"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = strings.Repeat("0", 33) }), "reservation_id", "must have 32 bytes, has 33"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "0123456789ABCDEF0123456789abcdef" }), "reservation_id", "must be of hexadecimal digits in lower case, has 'A' at byte 10"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "0123456789abcdeg0123456789abcdef" }), "reservation_id", "must be of hexadecimal digits in lower case, has 'g' at byte 15"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "/123456789abcdef0123456789abcde:" }), "reservation_id", "must be of hexadecimal digits in lower case, has '/' at byte 0"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "`123456789abcdef0123456789abcde:" }), "reservation_id", "must be of hexadecimal digits in lower case, has '`' at byte 0"},
		{settleWith(func(m *SettleRequest) { m.ReservationId = "0123456789abcdef0123456789abcde:" }), "reservation_id", "must be of hexadecimal digits in lower case, has ':' at byte 31"},
		{settleWith(func(m *SettleRequest) { m.CostTokens = -1 }), "cost_tokens", "must be 0 or more, is -1"},

		{registerWith(func(m *RegisterRequest) { m.Holder = nil }), "holder.region", "must have 1 to 64 bytes, has 0"},
		{registerWith(func(m *RegisterRequest) { m.StartNonce = "short" }), "start_nonce", "must have 16 to 64 bytes, has 5"},
		{registerWith(func(m *RegisterRequest) { m.StartNonce = strings.Repeat("n", 65) }), "start_nonce", "must have 16 to 64 bytes, has 65"},
		{registerWith(func(m *RegisterRequest) { m.StartNonce = "0123456789-bcdef" }), "start_nonce", "must be of letters and digits, has '-' at byte 10"},
		{&WatchRequest{Holder: validHolder()}, "epoch", "must be 1 or more, is 0"},
		{&WatchRequest{Epoch: 1}, "holder.region", "must have 1 to 64 bytes, has 0"},

		{syncWith(func(m *SyncRequest) { m.Holder = nil }), "holder.region", "must have 1 to 64 bytes, has 0"},
		{syncWith(func(m *SyncRequest) { m.Epoch = 0 }), "epoch", "must be 1 or more, is 0"},
		{syncWith(func(m *SyncRequest) { m.HighestHead = -1 }), "highest_head", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.WaitMs = 60_001 }), "wait_ms", "must be at most 60000, is 60001"},
		{syncWith(func(m *SyncRequest) { m.RoundTripNs = -1 }), "round_trip_ns", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[1].BoundNs = -1 }), "budgets[1].bound_ns", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[1].Key.Account = "" }), "budgets[1].key.account", "must have 1 to 256 bytes, has 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].Sequence = 0 }), "budgets[0].sequence", "must be 1 or more, is 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].SpentTokens = -1 }), "budgets[0].spent_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].ReturnedTokens = -1 }), "budgets[0].returned_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].WantTokens = -1 }), "budgets[0].want_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].NeedTokens = -1 }), "budgets[0].need_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].SpentTokens = math.MaxInt64 }), "budgets[0].returned_tokens", "must fit in 64 bits together with spent_tokens, 9223372036854775807, is 2"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId = "" }), "budgets[0].grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0"},
		{syncWith(func(m *SyncRequest) {
			m.Budgets[0].GrantId, m.Budgets[0].SpentTokens, m.Budgets[0].HeldTokens = "", 0, 0
		}), "budgets[0].grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0"},
		{syncWith(func(m *SyncRequest) {
			m.Budgets[0].GrantId, m.Budgets[0].ReturnedTokens, m.Budgets[0].HeldTokens = "", 0, 0
		}), "budgets[0].grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[1].HeldTokens = 1 }), "budgets[1].grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[1].OwedTokens = 1 }), "budgets[1].grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].OwedTokens = -1 }), "budgets[0].owed_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Closes[0].OwedTokens = -1 }), "closes[0].owed_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Grants[0].OwedTokens = math.MinInt64 }), "accounts[0].grants[0].owed_tokens", "must be 0 or more, is -9223372036854775808"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].HeldTokens = -1 }), "budgets[0].held_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].HeldTokens = math.MaxInt64 - 6 }), "budgets[0].held_tokens", "must fit in 64 bits together with spent_tokens and returned_tokens, 7, is 9223372036854775801"},
		{syncWith(func(m *SyncRequest) { m.Closes[0].HeldTokens = -1 }), "closes[0].held_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Grants[0].HeldTokens = math.MaxInt64 - 1 }), "accounts[0].grants[0].held_tokens", "must fit in 64 bits together with spent_tokens and returned_tokens, 2, is 9223372036854775806"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId = "a\x7f" }), "budgets[0].grant_id", `must be printable ASCII without spaces, has '\x7f' at byte 1`},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId = "a b" }), "budgets[0].grant_id", "must be printable ASCII without spaces, has ' ' at byte 1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[1].Key = m.Budgets[0].Key }), "budgets[1].key", "must be unique, repeats that of budgets[0]"},
		{manyReports(MaxSyncBudgets + 1), "budgets", "must have 0 to 1000 elements, has 1001"},
		{syncWith(func(m *SyncRequest) { m.Closes[0].GrantId = "" }), "closes[0].grant_id", "must have 1 to 128 bytes, has 0"},
		{syncWith(func(m *SyncRequest) { m.Closes[0].SpentTokens = -1 }), "closes[0].spent_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Closes[0].Key = &BudgetKey{} }), "closes[0].key.account", "must have 1 to 256 bytes, has 0"},
		{syncWith(func(m *SyncRequest) { m.Closes = make([]*GrantAccount, 1001) }), "closes", "must have 0 to 1000 elements, has 1001"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Epoch = 0 }), "accounts[0].epoch", "must be 1 or more, is 0"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Epoch = 9 }), "accounts[0].epoch", "must be at most the sender's epoch, 7, is 9"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Source = 0 }), "accounts[0].source", "must be ACCOUNT_SOURCE_HOLDER or ACCOUNT_SOURCE_JOURNAL, is 0"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Source = 3 }), "accounts[0].source", "must be ACCOUNT_SOURCE_HOLDER or ACCOUNT_SOURCE_JOURNAL, is 3"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Grants[0].GrantId = "\x00" }), "accounts[0].grants[0].grant_id", `must be printable ASCII without spaces, has '\x00' at byte 0`},
		{syncWith(func(m *SyncRequest) { m.Accounts = make([]*EpochAccount, 101) }), "accounts", "must have 0 to 100 elements, has 101"},
		{syncWith(func(m *SyncRequest) { m.Accounts[0].Grants = make([]*GrantAccount, 1001) }), "accounts[0].grants", "must have 0 to 1000 elements, has 1001"},

		{policyWith(func(p *Policy) { p.Operation = "" }), "operation", "must have 1 to 128 bytes, has 0"},
		{policyWith(func(p *Policy) { p.Rule = nil }), "rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency"},
		{policyWith(func(p *Policy) { p.Rule = &Policy_TokenBucket{} }), "rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = -1 }), "token_bucket.capacity_tokens", "must be 0 to 1000000000000000000, is -1"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = 1e18 + 1 }), "token_bucket.capacity_tokens", "must be 0 to 1000000000000000000, is 1000000000000000001"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().RefillTokens = -1 }), "token_bucket.refill_tokens", "must be 0 or more, is -1"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().RefillIntervalNs = 0 }), "token_bucket.refill_interval_ns", "must be 1 or more where refill_tokens is, is 0"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().RefillIntervalNs = -1 }), "token_bucket.refill_interval_ns", "must be 1 to 31622400000000000 (366 days), is -1"},
		{policyWith(func(p *Policy) { p.GetTokenBucket().RefillIntervalNs = int64(MaxRefillInterval) + 1 }), "token_bucket.refill_interval_ns", "must be 1 to 31622400000000000 (366 days), is 31622400000000001"},
		{policyWith(func(p *Policy) { p.DefaultCostTokens = -1 }), "default_cost_tokens", "must be 1 or more, is -1"},
		{policyWith(func(p *Policy) { p.DefaultCostTokens = 0 }), "default_cost_tokens", "must be 1 or more, is 0; only allow_zero_cost permits that"},
		{policyWith(func(p *Policy) { p.MaxCostTokens = -1 }), "max_cost_tokens", "must be 0 or more, is -1"},
		{policyWith(func(p *Policy) { p.DefaultCostTokens, p.MaxCostTokens = 6, 5 }), "default_cost_tokens", "must be at most max_cost_tokens, 5, is 6"},
		{policyWith(func(p *Policy) { p.MaxSharePercent = -1 }), "max_share_percent", "must be 1 to 100, or 0 for 100, is -1"},
		{policyWith(func(p *Policy) { p.MaxSharePercent = 101 }), "max_share_percent", "must be 1 to 100, or 0 for 100, is 101"},
		{policyWith(func(p *Policy) { p.Reclaim = 3 }), "reclaim", "must be RECLAIM_PROOF or RECLAIM_DEADLINE, is the unknown value 3"},
		{policyWith(func(p *Policy) { p.Reclaim = -1 }), "reclaim", "must be RECLAIM_PROOF or RECLAIM_DEADLINE, is the unknown value -1"},
		{policyWith(func(p *Policy) { p.MaxStalenessNs = -1 }), "max_staleness_ns", "must be 5000000000 to 31622400000000000 (366 days), is -1"},
		{policyWith(func(p *Policy) { p.MaxStalenessNs = 5e9 - 1 }), "max_staleness_ns", "must be 5000000000 to 31622400000000000 (366 days), is 4999999999"},
		{deadlineWith(func(p *Policy) { p.MaxStalenessNs = 366*24*3600*1e9 + 1 }), "max_staleness_ns", "must be 5000000000 to 31622400000000000 (366 days), is 31622400000000001"},
		{deadlineWith(func(p *Policy) { p.MaxStalenessNs = 0 }), "max_staleness_ns", "must be set where reclaim is RECLAIM_DEADLINE"},
		{deadlineWith(func(p *Policy) { p.ReclaimMarginNs = 0 }), "reclaim_margin_ns", "must be 1000000000 to 31622400000000000 (366 days), is 0"},
		{deadlineWith(func(p *Policy) { p.ReclaimMarginNs = 1e9 - 1 }), "reclaim_margin_ns", "must be 1000000000 to 31622400000000000 (366 days), is 999999999"},
		{deadlineWith(func(p *Policy) { p.ReclaimMarginNs = 366*24*3600*1e9 + 1 }), "reclaim_margin_ns", "must be 1000000000 to 31622400000000000 (366 days), is 31622400000000001"},
		{deadlineWith(func(p *Policy) { p.Reclaim = Reclaim_RECLAIM_PROOF }), "reclaim_margin_ns", "must be 0 unless reclaim is RECLAIM_DEADLINE"},
		{deadlineWith(func(p *Policy) { p.Reclaim = 0 }), "reclaim_margin_ns", "must be 0 unless reclaim is RECLAIM_DEADLINE"},
		{deadlineWith(func(p *Policy) { p.Postpaid = true }), "reclaim", "must be RECLAIM_PROOF with postpaid: what a silent holder owes would be lost"},
		{deadlineWith(func(p *Policy) { p.Rule = slotsWith(3).Rule }), "reclaim", "must be RECLAIM_PROOF with concurrency: no deadline ends the work that holds a slot"},
		{policyWith(func(p *Policy) { p.OnUnavailable = -1 }), "on_unavailable", "must be UNAVAILABILITY_REJECT or UNAVAILABILITY_LOCAL, is the unknown value -1"},
		{localWith(func(p *Policy) { p.OnUnavailable = 3 }), "on_unavailable", "must be UNAVAILABILITY_REJECT or UNAVAILABILITY_LOCAL, is the unknown value 3"},
		{policyWith(func(p *Policy) { p.Rule = &Policy_FixedWindow{} }), "rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency"},
		{policyWith(func(p *Policy) { p.Rule = &Policy_RollingWindow{} }), "rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency"},
		{policyWith(func(p *Policy) { p.Rule = &Policy_Concurrency{} }), "rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency"},
		{windowWith(func(w *FixedWindow) { w.LimitTokens = -1 }), "fixed_window.limit_tokens", "must be 0 to 1000000000000000000, is -1"},
		{windowWith(func(w *FixedWindow) { w.LimitTokens = 1e18 + 1 }), "fixed_window.limit_tokens", "must be 0 to 1000000000000000000, is 1000000000000000001"},
		{windowWith(func(w *FixedWindow) { w.Period = 0 }), "fixed_window.period", "must be set"},
		{windowWith(func(w *FixedWindow) { w.Period = 6 }), "fixed_window.period", "must be a period from PERIOD_MINUTE to PERIOD_MONTH, is the unknown value 6"},
		{windowWith(func(w *FixedWindow) { w.Period = -1 }), "fixed_window.period", "must be a period from PERIOD_MINUTE to PERIOD_MONTH, is the unknown value -1"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Local" }), "fixed_window.time_zone", "must not be Local, which is another zone on another machine"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe/Bärlin" }), "fixed_window.time_zone", "must be printable ASCII without spaces, has 'Ã' at byte 8"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe/Berlin " }), "fixed_window.time_zone", "must be printable ASCII without spaces, has ' ' at byte 13"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = strings.Repeat("Z", 65) }), "fixed_window.time_zone", "must have 1 to 64 bytes, has 65"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe/Bonn" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "utc" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "localtime" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "posix/Europe/Berlin" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe/../Europe/Berlin" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "/etc/localtime" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{windowWith(func(w *FixedWindow) { w.TimeZone = "Europe//Berlin" }), "fixed_window.time_zone", "must be the name of a time zone in the IANA database, such as Europe/Berlin"},
		{rollingWith(func(w *RollingWindow) { w.LimitTokens = -1 }), "rolling_window.limit_tokens", "must be 0 to 1000000000000000000, is -1"},
		{rollingWith(func(w *RollingWindow) { w.WindowNs = 0 }), "rolling_window.window_ns", "must be 1000000 to 31622400000000000 (366 days), is 0"},
		{rollingWith(func(w *RollingWindow) { w.WindowNs = 999_999 }), "rolling_window.window_ns", "must be 1000000 to 31622400000000000 (366 days), is 999999"},
		{rollingWith(func(w *RollingWindow) { w.WindowNs = 366*24*3600*1e9 + 1 }), "rolling_window.window_ns", "must be 1000000 to 31622400000000000 (366 days), is 31622400000000001"},
		{slotsWith(-1), "concurrency.slots", "must be 0 to 1000000000000000000, is -1"},
		{slotsWith(1e18 + 1), "concurrency.slots", "must be 0 to 1000000000000000000, is 1000000000000000001"},
		{policyWith(func(p *Policy) { p.HoldNs = -1 }), "hold_ns", "must be 1000000 to 31622400000000000 (366 days), is -1"},
		{policyWith(func(p *Policy) { p.HoldNs = 999_999 }), "hold_ns", "must be 1000000 to 31622400000000000 (366 days), is 999999"},
		{policyWith(func(p *Policy) { p.HoldNs = 366*24*3600*1e9 + 1 }), "hold_ns", "must be 1000000 to 31622400000000000 (366 days), is 31622400000000001"},
		{func() *Policy { p := slotsWith(3); p.Postpaid = true; return p }(), "postpaid", "must not be set with concurrency: a slot costs nothing more"},
		{func() *Policy {
			p := slotsWith(3)
			p.OnUnavailable, p.Local = Unavailability_UNAVAILABILITY_LOCAL, &LocalAllowance{CapacityTokens: 1, ForNs: 1}
			return p
		}(), "local", "must not be set with concurrency: an allowance is spent, and a slot is held"},
		{policyWith(func(p *Policy) { p.DisabledBecause = "abuse" }), "disabled_because", "must be empty unless disabled is set"},
		{policyWith(func(p *Policy) { p.Disabled, p.DisabledBecause = true, strings.Repeat("b", 1025) }), "disabled_because", "must have 1 to 1024 bytes, has 1025"},
		{policyWith(func(p *Policy) { p.Disabled, p.DisabledBecause = true, "a\nb" }), "disabled_because", "must have no control characters, has U+000A at byte 1"},
		{policyWith(func(p *Policy) { p.Disabled, p.DisabledBecause = true, "  " }), "disabled_because", "must say something, has only blanks"},
		{localWith(func(p *Policy) { p.OnUnavailable = 0 }), "local", "must be unset unless on_unavailable is UNAVAILABILITY_LOCAL"},
		{localWith(func(p *Policy) { p.OnUnavailable = 1 }), "local", "must be unset unless on_unavailable is UNAVAILABILITY_LOCAL"},
		{localWith(func(p *Policy) { p.Local = nil }), "local", "must be set where on_unavailable is UNAVAILABILITY_LOCAL"},
		{localWith(func(p *Policy) { p.Local.CapacityTokens = 0 }), "local.capacity_tokens", "must be 1 to 1000000000000000000, is 0"},
		{localWith(func(p *Policy) { p.Local.CapacityTokens = 1e18 + 1 }), "local.capacity_tokens", "must be 1 to 1000000000000000000, is 1000000000000000001"},
		{localWith(func(p *Policy) { p.Local.RefillTokens = -1 }), "local.refill_tokens", "must be 0 or more, is -1"},
		{localWith(func(p *Policy) { p.Local.RefillIntervalNs = 0 }), "local.refill_interval_ns", "must be 1 or more where refill_tokens is, is 0"},
		{localWith(func(p *Policy) { p.Local.ForNs = 0 }), "local.for_ns", "must be 1 to 31622400000000000 (366 days), is 0"},
		{localWith(func(p *Policy) { p.Local.ForNs = 366*24*3600*1e9 + 1 }), "local.for_ns", "must be 1 to 31622400000000000 (366 days), is 31622400000000001"},

		{&ListBudgetsRequest{Account: "\t"}, "account", "must have no control characters, has U+0009 at byte 0"},
		{&ListBudgetsRequest{PageSize: 1001}, "page_size", "must be at most 1000, is 1001"},
		{&ListBudgetsRequest{PageToken: "\n"}, "page_token", "must have no control characters, has U+000A at byte 0"},
		{&ListGrantsRequest{Region: "a b"}, "region", "must be of letters, digits, '.', '_' and '-', has ' ' at byte 1"},
		{&ListGrantsRequest{Instance: ".."}, "instance", `must not be ".."`},
		{&ListGrantsRequest{State: 3}, "state", "must be GRANT_STATE_LIVE, GRANT_STATE_ORPHANED or unspecified, is the unknown value 3"},
		{&ListGrantsRequest{Operation: "\xff"}, "operation", "must be UTF-8, is not at byte 0"},
		{&ListHoldersRequest{Region: "/"}, "region", "must be of letters, digits, '.', '_' and '-', has '/' at byte 0"},
		{&ShowBudgetRequest{}, "key.account", "must have 1 to 256 bytes, has 0"},
		{&ShowGrantRequest{}, "grant_id", "must have 1 to 128 bytes, has 0"},
		{&ShowHolderRequest{}, "holder.region", "must have 1 to 64 bytes, has 0"},
		{&ResolveGrantRequest{GrantId: "g", Because: "b"}, "attested_by", "must have 1 to 128 bytes, has 0"},
		{&ResolveGrantRequest{GrantId: "g", AttestedBy: "a"}, "because", "must have 1 to 1024 bytes, has 0"},
		{&ResolveGrantRequest{AttestedBy: "a", Because: "b"}, "grant_id", "must have 1 to 128 bytes, has 0"},
		{&DeclareRestoreRequest{Nonce: "0123456789abcdef", DeclaredBy: "a", Because: "b"}, "replaced_generation", "must be the generation in force, 1 or more"},
		{&DeclareRestoreRequest{ReplacedGeneration: 1, Nonce: "short", DeclaredBy: "a", Because: "b"}, "nonce", "must have 16 to 64 bytes, has 5"},
		{&DeclareRestoreRequest{ReplacedGeneration: 1, Nonce: "0123456789abcdef", Because: "b"}, "declared_by", "must have 1 to 128 bytes, has 0"},
		{&DeclareRestoreRequest{ReplacedGeneration: 1, Nonce: "0123456789abcdef", DeclaredBy: "a", Because: " "}, "because", "must say something, has only blanks"},
		{&AttestRestoreRequest{Generation: 1, AttestedBy: "a", Because: "b"}, "generation", "must be one that a restore has started, 2 or more, is 1"},
		{&AttestRestoreRequest{Generation: 2, Because: "b"}, "attested_by", "must have 1 to 128 bytes, has 0"},
		{&AttestRestoreRequest{Generation: 2, AttestedBy: "a"}, "because", "must have 1 to 1024 bytes, has 0"},
	}
	for _, test := range tests {
		name := fmt.Sprintf("%s/%s/%.40s", test.in.ProtoReflect().Descriptor().Name(), test.field, test.problem)
		t.Run(name, func(t *testing.T) {
			var fault *FieldError
			if err := test.in.Validate(); !errors.As(err, &fault) {
				t.Fatalf("Validate() = %v, want a *FieldError", err)
			}
			if fault.Field != test.field || fault.Problem != test.problem {
				t.Errorf("Validate() = %q %q\nwant         %q %q", fault.Field, fault.Problem, test.field, test.problem)
			}
		})
	}
}
