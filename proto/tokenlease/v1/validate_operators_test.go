package tokenleasev1

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func retireWith(change func(*RetireHolderRequest)) *RetireHolderRequest {
	m := &RetireHolderRequest{Holder: validHolder(), Epoch: 7, AttestedBy: "ann", Because: "the machine was scrapped", Force: true}
	change(m)
	return m
}

func moveWith(change func(*MoveShardRequest)) *MoveShardRequest {
	m := &MoveShardRequest{Shard: 3, ToBrokerId: "broker-0", MovedBy: "ann", Because: "a new kernel"}
	change(m)
	return m
}

// operatorMessages are the valid messages by which operators see and act.
func operatorMessages() []validator {
	return []validator{
		&ListBudgetsRequest{Search: "acm"},
		&ListGrantsRequest{MinAgeMs: 60_000, GrantIdPrefix: "g1-003-"},
		retireWith(func(*RetireHolderRequest) {}),
		&RetireHolderRequest{Holder: validHolder(), DryRun: true},
		&ExplainGrantRequest{GrantId: "g1-003-0000002a"},
		&TopBudgetsRequest{Order: BudgetOrder_BUDGET_ORDER_STARVED, Limit: 100},
		&ListShardsRequest{},
		moveWith(func(*MoveShardRequest) {}),
		moveWith(func(m *MoveShardRequest) { m.ToBrokerId, m.Because = "", "" }),
		&ListAuditRequest{SinceUnixMs: 1, UntilUnixMs: 2, Action: "holders.retire", By: "ann", PageSize: 1000, PageToken: "next", OldestFirst: true},
		&ShowClusterRequest{},
	}
}

func TestOperatorEdges(t *testing.T) {
	for _, m := range append(operatorMessages(),
		&TopBudgetsRequest{},
		&ListAuditRequest{},
		&ListAuditRequest{SinceUnixMs: math.MaxInt64},
		&ListBudgetsRequest{Search: strings.Repeat("s", 256)},
		&ListGrantsRequest{GrantIdPrefix: strings.Repeat("g", 64), MinAgeMs: math.MaxInt64},
		retireWith(func(m *RetireHolderRequest) { m.AttestedBy = strings.Repeat("a", 128) }),
		retireWith(func(m *RetireHolderRequest) { m.DryRun, m.Epoch, m.AttestedBy, m.Because = true, 0, "", "" }),
		moveWith(func(m *MoveShardRequest) { m.Shard = 4095 }),
	) {
		if err := m.Validate(); err != nil {
			t.Errorf("%T %v: %v", m, m, err)
		}
	}
}

func TestCase29InvalidOperators(t *testing.T) {
	tests := []struct {
		in      validator
		field   string
		problem string
	}{
		{&ListBudgetsRequest{Search: strings.Repeat("s", 257)}, "search", "must have 0 to 256 bytes, has 257"},
		{&ListBudgetsRequest{Search: "\xff"}, "search", "must be UTF-8, is not at byte 0"},
		{&ListGrantsRequest{MinAgeMs: -1}, "min_age_ms", "must be 0 or more, is -1"},
		{&ListGrantsRequest{GrantIdPrefix: "g 1"}, "grant_id_prefix", "must be printable ASCII without spaces, has ' ' at byte 1"},
		{&ListGrantsRequest{GrantIdPrefix: strings.Repeat("g", 65)}, "grant_id_prefix", "must have 1 to 64 bytes, has 65"},
		{retireWith(func(m *RetireHolderRequest) { m.Holder = nil }), "holder.region", "must have 1 to 64 bytes, has 0"},
		{retireWith(func(m *RetireHolderRequest) { m.Holder.Instance = "a/b" }), "holder.instance", "must be of letters, digits, '.', '_' and '-', has '/' at byte 1"},
		{retireWith(func(m *RetireHolderRequest) { m.Epoch = 0 }), "epoch", "must be the current one, as a dry run tells it"},
		{retireWith(func(m *RetireHolderRequest) { m.AttestedBy = "" }), "attested_by", "must have 1 to 128 bytes, has 0"},
		{retireWith(func(m *RetireHolderRequest) { m.Because = " " }), "because", "must say something, has only blanks"},
		{retireWith(func(m *RetireHolderRequest) { m.DryRun, m.Because = true, "\n" }), "because", "must have no control characters, has U+000A at byte 0"},
		{retireWith(func(m *RetireHolderRequest) { m.DryRun, m.AttestedBy = true, strings.Repeat("a", 129) }), "attested_by", "must have 0 to 128 bytes, has 129"},
		{&ExplainGrantRequest{}, "grant_id", "must have 1 to 128 bytes, has 0"},
		{&TopBudgetsRequest{Order: 3}, "order", "must be BUDGET_ORDER_BUSIEST, BUDGET_ORDER_STARVED or unspecified, is the unknown value 3"},
		{&TopBudgetsRequest{Limit: 101}, "limit", "must be at most 100, is 101"},
		{moveWith(func(m *MoveShardRequest) { m.Shard = 4096 }), "shard", "must be at most 4095, is 4096"},
		{moveWith(func(m *MoveShardRequest) { m.ToBrokerId = "a b" }), "to_broker_id", "must be printable ASCII without spaces, has ' ' at byte 1"},
		{moveWith(func(m *MoveShardRequest) { m.ToBrokerId = strings.Repeat("b", 129) }), "to_broker_id", "must have 1 to 128 bytes, has 129"},
		{moveWith(func(m *MoveShardRequest) { m.MovedBy = "" }), "moved_by", "must have 1 to 128 bytes, has 0"},
		{moveWith(func(m *MoveShardRequest) { m.Because = strings.Repeat("b", 1025) }), "because", "must have 0 to 1024 bytes, has 1025"},
		{&ListAuditRequest{SinceUnixMs: -1}, "since_unix_ms", "must be 0 or more, is -1"},
		{&ListAuditRequest{UntilUnixMs: -1}, "until_unix_ms", "must be 0 or more, is -1"},
		{&ListAuditRequest{SinceUnixMs: 5, UntilUnixMs: 5}, "until_unix_ms", "must be after since_unix_ms, or 0"},
		{&ListAuditRequest{Action: strings.Repeat("a", 65)}, "action", "must have 0 to 64 bytes, has 65"},
		{&ListAuditRequest{By: "a\tb"}, "by", "must have no control characters, has U+0009 at byte 1"},
		{&ListAuditRequest{PageSize: 1001}, "page_size", "must be at most 1000, is 1001"},
	}
	for _, test := range tests {
		before := proto.Clone(test.in)
		var fault *FieldError
		if err := test.in.Validate(); !errors.As(err, &fault) {
			t.Errorf("%v: %v, want %s: %s", test.in, err, test.field, test.problem)
		} else if fault.Field != test.field || fault.Problem != test.problem {
			t.Errorf("%v: %v, want %s: %s", test.in, fault, test.field, test.problem)
		}
		if !proto.Equal(before, test.in) {
			t.Errorf("%v was changed", before)
		}
	}
}
