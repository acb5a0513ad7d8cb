package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"go.yaml.in/yaml/v3"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func TestCell(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "-"}, {"acme", "acme"}, {"two words", "two words"}, {"größe", "größe"},
		{"a\tb", `"a\tb"`}, {"a\nb", `"a\nb"`}, {"\x1b[31mred", `"\x1b[31mred"`}, {"a\u202eb", `"a\u202eb"`},
	}
	for _, test := range tests {
		if got := cell(test.in); got != test.want {
			t.Errorf("cell(%q) = %s, want %s", test.in, got, test.want)
		}
	}
}

func TestPlainLines(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""}, {"größe: 1 \"kB\"", "größe: 1 \"kB\""}, {"a\nb", "a\nb"},
		{"\x1b]0;owned\x07\x1b[2J\u202eevil\r\t", `\x1b]0;owned\a\x1b[2J\u202eevil\r\t`}, {"a\xffb", "a\ufffdb"},
	}
	for _, test := range tests {
		if got := plainLines(test.in); got != test.want {
			t.Errorf("plainLines(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

// TestEncodeIsStable encodes one message many times: the library underneath
// varies its spaces on purpose.
func TestEncodeIsStable(t *testing.T) {
	m := &tokenleasev1.ShowGrantResponse{
		Grant: &tokenleasev1.Grant{GrantId: "g: {}\n# no\u2028comment", Budget: &tokenleasev1.BudgetKey{Account: "<&>", Operation: "true"},
			IssuedTokens: 9_007_199_254_740_993},
		Revision: 7,
	}
	for _, format := range []outputFormat{formatJSON, formatYAML} {
		first, err := encode(format, m)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if again, err := encode(format, m); err != nil || !bytes.Equal(again, first) {
				t.Fatalf("%s changed: %v\n%s\n%s", format, err, first, again)
			}
		}
		if !bytes.HasSuffix(first, []byte("\n")) {
			t.Errorf("%s does not end its last line", format)
		}
	}
}

// TestYAMLSaysWhatJSONSays compares the two forms after reading them.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	m := &tokenleasev1.ListGrantsResponse{Grants: []*tokenleasev1.Grant{
		{GrantId: "null"}, {GrantId: "0x10", Budget: &tokenleasev1.BudgetKey{Account: "- a: b #c"}}, {GrantId: " x "}, {GrantId: "a\nb\x01"},
	}}
	var fromJSON, fromYAML any
	data, err := encode(formatJSON, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if data, err = encode(formatYAML, m); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(fromJSON) != fmt.Sprint(fromYAML) {
		t.Errorf("JSON says %v\nYAML says %v", fromJSON, fromYAML)
	}
	if bytes.ContainsAny(data[:9], "{}") {
		t.Errorf("YAML is written as JSON: %s", data)
	}
}

func TestExitCodes(t *testing.T) {
	settings := &clientSettings{server: brokerServer, url: "http://b:1"}
	fromServer := func(code connect.Code) error {
		return settings.failed(connect.NewWireError(code, errors.New("the server's words")))
	}
	fromHere := func(code connect.Code) error {
		return settings.failed(connect.NewError(code, errors.New("dial tcp: refused")))
	}
	tests := []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{exitError{code: exitNo}, 1, ""},
		{usageErrorf("no"), 2, "no"},
		{errors.New("a file is missing"), 2, "a file is missing"},
		{fromServer(connect.CodeNotFound), 1, "the server's words"},
		{fromHere(connect.CodeNotFound), 4, "the broker at http://b:1 refused (not_found): dial tcp: refused"},
		{fromHere(connect.CodeUnavailable), 3, "cannot reach the broker at http://b:1: dial tcp: refused.\nIs it running? Name another with --broker URL or TOKENLEASE_BROKER"},
		{fromServer(connect.CodeUnavailable), 3, "the broker at http://b:1 cannot answer now: the server's words.\nTry again, or name another with --broker URL or TOKENLEASE_BROKER"},
		{fromServer(connect.CodeDeadlineExceeded), 3, "the broker at http://b:1 did not answer in time.\nGive it longer with --timeout, or name another with --broker URL or TOKENLEASE_BROKER"},
		{settings.failedAsking(&tokenleasev1.ApplyPoliciesRequest{}, connect.NewError(connect.CodeDeadlineExceeded, errors.New("late"))), 3, "the broker at http://b:1 did not answer in time.\nThe change may have been made all the same: `tokenlease policy history` tells.\nGive it longer with --timeout, or name another with --broker URL or TOKENLEASE_BROKER"},
		{settings.failedAsking(&tokenleasev1.RetireHolderRequest{}, connect.NewError(connect.CodeCanceled, context.Canceled)), 3, "interrupted before the broker at http://b:1 had answered.\nThe change may have been made all the same: `tokenlease audit list` tells"},
		{settings.failedAsking(&tokenleasev1.MoveShardRequest{}, connect.NewWireError(connect.CodeUnavailable, errors.New("busy"))), 3, "the broker at http://b:1 cannot answer now: busy.\nThe change may have been made all the same: `tokenlease audit list` tells.\nTry again, or name another with --broker URL or TOKENLEASE_BROKER"},
		{settings.failedAsking(&tokenleasev1.ApplyPoliciesRequest{DryRun: true}, connect.NewError(connect.CodeDeadlineExceeded, errors.New("late"))), 3, "the broker at http://b:1 did not answer in time.\nGive it longer with --timeout, or name another with --broker URL or TOKENLEASE_BROKER"},
		{settings.failedAsking(&tokenleasev1.ShowGrantRequest{}, connect.NewError(connect.CodeDeadlineExceeded, errors.New("late"))), 3, "the broker at http://b:1 did not answer in time.\nGive it longer with --timeout, or name another with --broker URL or TOKENLEASE_BROKER"},
		{settings.failed(connect.NewError(connect.CodeCanceled, context.Canceled)), 3, "interrupted before the broker at http://b:1 had answered"},
		{fromServer(connect.CodeInvalidArgument), 4, "the broker at http://b:1 refused (invalid_argument): the server's words"},
		{settings.failed(connect.NewWireError(connect.CodeInternal, errors.New("bad \x1b[2J\nand more"))), 4, "the broker at http://b:1 refused (internal): bad \\x1b[2J\nand more"},
		{fromServer(connect.CodePermissionDenied), 4, "the broker at http://b:1 refused (permission_denied): the server's words"},
		{fromHere(connect.CodeUnimplemented), 4, "what answers at http://b:1 does not know the request (dial tcp: refused).\nIs it a broker, and of this version? Name another with --broker URL or TOKENLEASE_BROKER"},
	}
	for _, test := range tests {
		if code := exitCode(test.err); code != test.code {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, code, test.code)
		}
		if test.err != nil && test.err.Error() != test.text {
			t.Errorf("text:\n got %q\nwant %q", test.err, test.text)
		}
	}
}

func TestInterrupt(t *testing.T) {
	clearSettings(t)
	server := serveFake()
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, stdout, stderr := newProgram()
	if code := p.run(ctx, []string{"check", "slow", "report.create", "--limiter", server.URL}); code != exitUnreachable {
		t.Errorf("exit code %d, want %d", code, exitUnreachable)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted before") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}
