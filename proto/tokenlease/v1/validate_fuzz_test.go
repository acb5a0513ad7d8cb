package tokenleasev1

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// FuzzValidate decodes bytes as each kind of message. No check may panic, and a
// refusal stays short and printable whatever it is about.
func FuzzValidate(f *testing.F) {
	kinds := validMessages()
	for i, m := range kinds {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4096 {
			f.Add(uint8(i), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		m := kinds[int(kind)%len(kinds)].ProtoReflect().New().Interface().(validator)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		err := m.Validate()
		if err == nil {
			requireModel(t, m)
			return
		}
		var fault *FieldError
		if !errors.As(err, &fault) || fault.Field == "" || fault.Problem == "" {
			t.Fatalf("%T: the error %v names no field", m, err)
		}
		text := err.Error()
		if len(text) > 256 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
			t.Fatalf("%T: the error is %d bytes or unprintable: %q", m, len(text), text)
		}
	})
}

// FuzzDuplicateKey compares the search for duplicates with a map.
func FuzzDuplicateKey(f *testing.F) {
	f.Add("a,o a,p b,o")
	f.Add("a,o b,o a,o")
	f.Add("a,b b,a ab, ,ab")
	f.Fuzz(func(t *testing.T, text string) {
		var reports []*BudgetReport
		seen := map[[2]string]int{}
		wantFirst, wantSecond, want := 0, 0, false
		for i, word := range strings.Fields(text) {
			if i == MaxSyncBudgets {
				break
			}
			account, operation, _ := strings.Cut(word, ",")
			reports = append(reports, &BudgetReport{Key: &BudgetKey{Account: account, Operation: operation}})
			if j, ok := seen[[2]string{account, operation}]; ok && !want {
				wantFirst, wantSecond, want = j, i, true
			} else if !ok {
				seen[[2]string{account, operation}] = i
			}
		}
		first, second, found := duplicateKey(reports)
		if first != wantFirst || second != wantSecond || found != want {
			t.Errorf("duplicateKey(%q) = %d, %d, %v, want %d, %d, %v", text, first, second, found, wantFirst, wantSecond, want)
		}
	})
}

// requireModel says the most important rules again, in the plainest way.
func requireModel(t *testing.T, m validator) {
	t.Helper()
	if sync, ok := m.(*SyncRequest); ok {
		seen := map[[2]string]bool{}
		for _, b := range sync.GetBudgets() {
			key := [2]string{b.GetKey().GetAccount(), b.GetKey().GetOperation()}
			if seen[key] || b.GetSpentTokens() < 0 || b.GetReturnedTokens() < 0 || b.GetHeldTokens() < 0 || b.GetOwedTokens() < 0 ||
				b.GetSpentTokens()+b.GetReturnedTokens() < 0 || b.GetSpentTokens()+b.GetReturnedTokens()+b.GetHeldTokens() < 0 {
				t.Fatalf("accepted %v", sync)
			}
			seen[key] = true
		}
	}
	if check, ok := m.(*CheckRequest); ok {
		keys := map[[2]string]bool{{check.GetKey().GetAccount(), check.GetKey().GetOperation()}: true}
		for _, p := range check.GetAlso() {
			keys[[2]string{p.GetKey().GetAccount(), p.GetKey().GetOperation()}] = true
		}
		if len(keys) != 1+len(check.GetAlso()) || len(keys) > 16 || strings.ContainsAny(check.GetDecisionId(), " \x7f\n") {
			t.Fatalf("accepted %v", check)
		}
	}
	if p, ok := m.(*Policy); ok {
		requirePolicyModel(t, p)
	}
}

// requirePolicyModel is requireModel for policies. An unknown time zone would
// panic where periods are made.
func requirePolicyModel(t *testing.T, p *Policy) {
	t.Helper()
	rules := 0
	for _, set := range []bool{p.GetTokenBucket() != nil, p.GetFixedWindow() != nil, p.GetRollingWindow() != nil, p.GetConcurrency() != nil} {
		if set {
			rules++
		}
	}
	least := min(p.GetTokenBucket().GetCapacityTokens(), p.GetFixedWindow().GetLimitTokens(), p.GetRollingWindow().GetLimitTokens(), p.GetConcurrency().GetSlots())
	switch {
	case rules != 1, least < 0, p.GetDefaultCostTokens() < 1 && !p.GetAllowZeroCost(),
		p.GetRollingWindow() != nil && p.GetRollingWindow().GetWindowNs() < 1, p.GetHoldNs() < 0,
		(p.GetLocal() != nil) != (p.GetOnUnavailable() == Unavailability_UNAVAILABILITY_LOCAL),
		!p.GetDisabled() && p.GetDisabledBecause() != "",
		p.GetMaxStalenessNs() < 0, p.GetReclaimMarginNs() < 0,
		(p.GetReclaimMarginNs() > 0) != (p.GetReclaim() == Reclaim_RECLAIM_DEADLINE),
		p.GetReclaimMarginNs() > 0 && (p.GetMaxStalenessNs() == 0 || p.GetConcurrency() != nil):
		t.Fatalf("accepted %v", p)
	}
	if _, err := time.LoadLocation(p.GetFixedWindow().GetTimeZone()); err != nil {
		t.Fatalf("accepted %v: %v", p, err)
	}
}
