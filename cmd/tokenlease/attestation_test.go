package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// atTerminal runs a command at a terminal at which something is typed.
func atTerminal(ctx context.Context, t *testing.T, typed io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	clearSettings(t)
	server := serveFake()
	t.Cleanup(server.Close)
	p, out, errs := newProgram()
	p.stdin, p.screen, p.clock = typed, &fakeConsole{asks: true, width: 80, height: 24}, frameClock
	code = p.run(ctx, append(args, "--broker", server.URL))
	return code, out.String(), errs.String()
}

func TestRetireIsConfirmedByTyping(t *testing.T) {
	retire := []string{"holders", "retire", "eu/limiter-0", "--because", "burned", "--by", "bob"}
	code, stdout, stderr := atTerminal(t.Context(), t, strings.NewReader("eu/limiter-0\n"), retire...)
	if code != exitYes || strings.Count(stdout, "resolved") != 2 {
		t.Errorf("typed well: %d, %s, %s", code, stdout, stderr)
	}
	for _, part := range []string{
		"Cluster c0ffee: eu/limiter-0, epoch 3,", "18 tokens are out. What is out counts as spent at that moment", "g-eu-limiter-0-3-1 ",
		"Type eu/limiter-0 to retire it: ", "Retired: 2 grants resolved",
	} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr does not say %q:\n%s", part, stderr)
		}
	}
	for _, typed := range []string{"yes\n", "\n", "", "eu/limiter-1\n", "EU/limiter-0\n"} {
		code, stdout, stderr := atTerminal(t.Context(), t, strings.NewReader(typed), retire...)
		if code != exitNo || stdout != "" || !strings.Contains(stderr, "nothing was changed") || strings.Contains(stderr, "Retired:") {
			t.Errorf("typed %q: %d, %q, %s", typed, code, stdout, stderr)
		}
	}
}

func TestRetireNeedsAReasonAtATerminalToo(t *testing.T) {
	code, _, stderr := atTerminal(t.Context(), t, strings.NewReader("eu/limiter-0\n"), "holders", "retire", "eu/limiter-0")
	if code != exitUsage || !strings.Contains(stderr, "--because is required") {
		t.Errorf("%d, %s", code, stderr)
	}
}

func TestResolveIsConfirmedByTheWholeID(t *testing.T) {
	resolve := []string{"grants", "resolve", "g-us", "--because", "burned", "--retire-epoch", "--force"}
	code, _, stderr := atTerminal(t.Context(), t, strings.NewReader("g-us-limiter-0-1-1\n"), resolve...)
	if code != exitYes || !strings.Contains(stderr, "Type g-us-limiter-0-1-1 to attest this: ") {
		t.Errorf("%d, %s", code, stderr)
	}
	code, _, stderr = atTerminal(t.Context(), t, strings.NewReader("g-us\n"), resolve...)
	if code != exitNo || !strings.Contains(stderr, `"g-us" is not g-us-limiter-0-1-1: nothing was changed`) {
		t.Errorf("%d, %s", code, stderr)
	}
}

// silentReader is a terminal at which nothing is typed. It says when it is read.
type silentReader struct {
	reading func()
	ended   chan struct{}
}

func (r silentReader) Read([]byte) (int, error) {
	r.reading()
	<-r.ended
	return 0, io.EOF
}

func TestConfirmationIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer close(ended)
	code, stdout, stderr := atTerminal(ctx, t, silentReader{cancel, ended}, "holders", "retire", "eu/limiter-0", "--because", "burned")
	if code != exitNo || stdout != "" || !strings.Contains(stderr, "interrupted: nothing was changed") {
		t.Errorf("%d, %q, %s", code, stdout, stderr)
	}
}

func TestRestoreIsDeclaredByTypingTheCluster(t *testing.T) {
	declare := []string{"restore", "declare", "--because", "the backup of Monday", "--by", "bob"}
	code, stdout, stderr := atTerminal(t.Context(), t, strings.NewReader("c0ffee\n"), declare...)
	if code != exitYes || !strings.Contains(stdout, "the backup of Monday") || !strings.Contains(stderr, "Type c0ffee to declare the restore: ") {
		t.Errorf("typed well: %d, %s, %s", code, stdout, stderr)
	}
	for _, typed := range []string{"yes\n", "", "C0FFEE\n"} {
		code, stdout, stderr := atTerminal(t.Context(), t, strings.NewReader(typed), declare...)
		if code != exitNo || stdout != "" || !strings.Contains(stderr, "nothing was changed") || strings.Contains(stderr, "Declared:") {
			t.Errorf("typed %q: %d, %q, %s", typed, code, stdout, stderr)
		}
	}
}

// Who was heard is what tells a healthy cluster from a restored one.
func TestRestoreTellsWhoWasHeard(t *testing.T) {
	const now = 1_790_000_000_000
	holder := func(agoMs, grants int64) *tokenleasev1.HolderStatus {
		return &tokenleasev1.HolderStatus{LastHeardUnixMs: now - agoMs, LiveGrants: grants, LiveTokens: 5 * grants}
	}
	healthy := restoreOutlook{clusterID: "c", unixMs: now, holders: []*tokenleasev1.HolderStatus{
		holder(59_999, 2), holder(60_000, 1), holder(0, 0), {OrphanedGrants: 1, OrphanedTokens: 7, Fenced: true},
	}}
	denied := restoreOutlook{clusterID: "c", unknown: errors.New("no certificate")}
	for _, test := range []struct {
		told string
		want string
	}{
		{declaring(7)(healthy), "That fences 3 holders with credit. In the last minute 2 of all 4 holders were heard.\nThey work with this store now"},
		{declaring(7)(denied), "Which holders were heard lately is not known: no certificate"},
		{declaring(7)(restoreOutlook{offline: true}), "No broker was asked, so it is not known which holders were heard lately."},
		{attesting(7)(healthy), "That has 22 tokens in 4 grants of 3 holders"},
		{attesting(7)(healthy), "Of all 4 holders, 1 have not started again since, and 2 were heard in the last minute."},
		{attesting(7)(denied), "Which holders have started again is not known: no certificate"},
		{attesting(7)(restoreOutlook{offline: true}), "No broker was asked, so it is not known which holders have started again."},
	} {
		if !strings.Contains(test.told, test.want) {
			t.Errorf("%q does not say %q", test.told, test.want)
		}
	}
}
