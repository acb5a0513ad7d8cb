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
		{"list without selection", &ListGrantsRequest{}},
		{"capacity zero", policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = 0 })},
		{"largest capacity", policyWith(func(p *Policy) { p.GetTokenBucket().CapacityTokens = 1e18 })},
		{"largest refill", policyWith(func(p *Policy) { p.GetTokenBucket().RefillTokens = math.MaxInt64 })},
		{"fixed quota", policyWith(func(p *Policy) { p.Rule = &Policy_TokenBucket{TokenBucket: &TokenBucket{CapacityTokens: 1}} })},
		{"a year", policyWith(func(p *Policy) { p.GetTokenBucket().RefillIntervalNs = int64(MaxRefillInterval) })},
		{"no share", policyWith(func(p *Policy) { p.MaxSharePercent = 0 })},
		{"cost zero allowed", policyWith(func(p *Policy) { p.DefaultCostTokens, p.AllowZeroCost = 0, true })},
		{"cost equal to the most", policyWith(func(p *Policy) { p.DefaultCostTokens, p.MaxCostTokens = 7, 7 })},
		{"cost above the capacity", policyWith(func(p *Policy) { p.DefaultCostTokens, p.MaxCostTokens = 99, 0 })},
		{"counters at the end of their range", syncWith(func(m *SyncRequest) {
			m.Budgets[0].SpentTokens, m.Budgets[0].ReturnedTokens = math.MaxInt64-1, 1
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
		{syncWith(func(m *SyncRequest) { m.Budgets[1].Key.Account = "" }), "budgets[1].key.account", "must have 1 to 256 bytes, has 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].Sequence = 0 }), "budgets[0].sequence", "must be 1 or more, is 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].SpentTokens = -1 }), "budgets[0].spent_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].ReturnedTokens = -1 }), "budgets[0].returned_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].WantTokens = -1 }), "budgets[0].want_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].NeedTokens = -1 }), "budgets[0].need_tokens", "must be 0 or more, is -1"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].SpentTokens = math.MaxInt64 }), "budgets[0].returned_tokens", "must fit in 64 bits together with spent_tokens, 9223372036854775807, is 2"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId = "" }), "budgets[0].grant_id", "must be set where spent_tokens or returned_tokens is not 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId, m.Budgets[0].SpentTokens = "", 0 }), "budgets[0].grant_id", "must be set where spent_tokens or returned_tokens is not 0"},
		{syncWith(func(m *SyncRequest) { m.Budgets[0].GrantId, m.Budgets[0].ReturnedTokens = "", 0 }), "budgets[0].grant_id", "must be set where spent_tokens or returned_tokens is not 0"},
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
		{policyWith(func(p *Policy) { p.Rule = nil }), "token_bucket", "must be set: a policy needs a rule"},
		{policyWith(func(p *Policy) { p.Rule = &Policy_TokenBucket{} }), "token_bucket", "must be set: a policy needs a rule"},
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
		{policyWith(func(p *Policy) { p.Reclaim = 2 }), "reclaim", "must be RECLAIM_PROOF, is the unknown value 2"},
		{policyWith(func(p *Policy) { p.OnUnavailable = -1 }), "on_unavailable", "must be UNAVAILABILITY_REJECT, is the unknown value -1"},

		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies = nil }), "policies", "must have 1 to 50 elements, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies = make([]*Policy, 51) }), "policies", "must have 1 to 50 elements, has 51"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies[1].GetTokenBucket().CapacityTokens = -4 }), "policies[1].token_bucket.capacity_tokens", "must be 0 to 1000000000000000000, is -4"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Policies[1].Operation = "report.create" }), "policies[1].operation", "must be unique, repeats that of policies[0]"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.AppliedBy = "" }), "applied_by", "must have 1 to 128 bytes, has 0"},
		{applyWith(func(m *ApplyPoliciesRequest) { m.Because = strings.Repeat("b", 1025) }), "because", "must have 0 to 1024 bytes, has 1025"},

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
