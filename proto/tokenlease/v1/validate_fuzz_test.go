package tokenleasev1

import (
	"errors"
	"strings"
	"testing"
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
			if seen[key] || b.GetSpentTokens() < 0 || b.GetReturnedTokens() < 0 || b.GetSpentTokens()+b.GetReturnedTokens() < 0 {
				t.Fatalf("accepted %v", sync)
			}
			seen[key] = true
		}
	}
	if p, ok := m.(*Policy); ok {
		if p.GetDefaultCostTokens() < 1 && !p.GetAllowZeroCost() || p.GetTokenBucket().GetCapacityTokens() < 0 {
			t.Fatalf("accepted %v", p)
		}
	}
}
