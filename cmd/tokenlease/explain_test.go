package main

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tokenlease/tokenlease/broker/shard"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// requireExplained wants exactly one text of a kind for a code.
func requireExplained(t *testing.T, kind, code string) {
	t.Helper()
	found := 0
	for _, e := range explanations {
		if e.Kind == kind && e.Code == code {
			found++
			if len(e.Meaning) < 10 || !strings.HasSuffix(e.Meaning, ".") {
				t.Errorf("%s %s means %q", kind, code, e.Meaning)
			}
		}
	}
	if found != 1 {
		t.Errorf("%s %s has %d texts", kind, code, found)
	}
}

// countKind is how many texts of a kind there are: none must be of what is not there
// any more.
func countKind(kind string) (n int) {
	for _, e := range explanations {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestEverythingIsExplained(t *testing.T) {
	for _, enum := range []struct {
		kind, prefix string
		values       protoreflect.EnumDescriptor
	}{
		{kindReason, "REASON_", tokenleasev1.Reason(0).Descriptor()},
		{kindShortage, "SHORTAGE_", tokenleasev1.Shortage(0).Descriptor()},
		{kindEvidence, "EVIDENCE_", tokenleasev1.Evidence(0).Descriptor()},
		{kindState, "GRANT_STATE_", tokenleasev1.GrantState(0).Descriptor()},
	} {
		values := enum.values.Values()
		for i := 1; i < values.Len(); i++ { // 0 is unspecified
			name := string(values.Get(i).Name())
			requireExplained(t, enum.kind, strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, enum.prefix), "_", "-")))
			if got := explained(name); len(got) != 1 || got[0].Kind != enum.kind {
				t.Errorf("%s is explained as %v", name, got)
			}
		}
		if n := countKind(enum.kind); n != values.Len()-1 {
			t.Errorf("%d texts for %d of kind %s", n, values.Len()-1, enum.kind)
		}
	}
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		requireExplained(t, kindError, code.String())
	}
	for _, code := range []string{"0", "1", "2", "3", "4"} {
		requireExplained(t, kindExit, code)
	}
	for _, state := range []string{holderCurrent, holderRetired, holderFenced, holderUnknown} {
		requireExplained(t, kindHolder, state)
	}
	for _, word := range []string{"proof", "deadline", "max-staleness", "reclaim-margin", byClocks} {
		requireExplained(t, kindPolicy, word)
		if found := explained(word); len(found) != 1 || found[0].Kind != kindPolicy {
			t.Errorf("%s is explained as %v", word, found)
		}
	}
	for what := shard.Opened; what <= shard.Lapsed; what++ {
		requireExplained(t, kindEvent, what.String())
	}
	if n := countKind(kindError) + countKind(kindExit) + countKind(kindEvent); n != 16+5+int(shard.Lapsed)+1 {
		t.Errorf("there are %d texts of codes and events", n)
	}
}

// TestExitCodesAreExplained: the help of the root command and the texts are of the
// same codes.
func TestExitCodesAreExplained(t *testing.T) {
	for _, e := range explanations {
		if e.Kind == kindExit && !strings.Contains(rootLong, "\n    "+e.Code+"  ") {
			t.Errorf("the help does not name exit code %s", e.Code)
		}
	}
}
