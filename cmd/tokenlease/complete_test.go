package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// completed is what the shell is offered for a command line.
func completed(t *testing.T, broker string, args ...string) []string {
	t.Helper()
	clearSettings(t)
	t.Setenv("TOKENLEASE_BROKER", broker) // settings count here as well
	p, stdout, _ := newProgram()
	if code := p.run(t.Context(), append([]string{"__completeNoDesc"}, args...)); code != exitYes {
		t.Fatalf("%v ended with %d", args, code)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if last := len(lines) - 1; !strings.HasPrefix(lines[last], ":") {
		t.Fatalf("%v: no directive: %q", args, lines)
	} else if lines[last] != ":4" {
		t.Errorf("%v: the directive is %s: file names are offered", args, lines[last])
	}
	return lines[:len(lines)-1]
}

func TestCompletionOfLiveNames(t *testing.T) {
	server := serveFake()
	t.Cleanup(server.Close)
	const longID = "g-eu-limiter-0-2-1-with-an-id-that-is-long-enough-to-tempt-a-table"
	for _, test := range []struct {
		args string
		want []string
	}{
		{"grants show g-eu", []string{longID}}, // a page has one
		{"grants show zebra", nil},
		{"grants explain g-us", []string{"g-us-limiter-0-1-1"}},
		{"grants resolve g-us", []string{"g-us-limiter-0-1-1"}},
		{"grants list --state ", []string{"live", "orphaned"}},
		{"grants list --holder e", []string{"eu/limiter-0"}},
		{"grants list --region ", []string{"eu"}},
		{"grants list --id g-us", []string{"g-us-limiter-0-1-1"}},
		{"holders show ", []string{"eu/limiter-0"}},
		{"holders retire eu/", []string{"eu/limiter-0"}},
		{"budgets show ", []string{"acme"}},
		{"budgets show acme r", nil}, // no policies are applied
		{"budgets list --account a", []string{"acme"}},
		{"shards move ", []string{"7", "8", "9"}},
		{"shards move 7 --to ", []string{"a", "b"}},
		{"audit list --by b", []string{"bob"}},
		{"top --order s", []string{"starved"}},
		{"explain data", []string{"data_loss"}},
		{"accounts show a", []string{"acme"}},
		{"policy enable ", nil},
		{"check ", []string{"acme"}}, // of a broker, though a limiter is asked
		{"check acme r", nil},
		{"check acme r x", nil},
		{"reserve a", []string{"acme"}},
		{"settle ", []string{"acme"}},
	} {
		args := strings.Fields(test.args)
		if strings.HasSuffix(test.args, " ") {
			args = append(args, "")
		}
		if got := completed(t, server.URL, args...); !slices.Equal(got, test.want) {
			t.Errorf("%q offers %q, want %q", test.args, got, test.want)
		}
	}
}

// TestCompletionFailsInSilence: a shell shows what is printed here in the middle of
// what somebody types.
func TestCompletionFailsInSilence(t *testing.T) {
	gone := serveFake()
	gone.Close()
	for _, args := range [][]string{{"grants", "show", ""}, {"shards", "move", "7", "--to", ""}, {"budgets", "list", "--account", ""}, {"check", ""}} {
		if got := completed(t, gone.URL, args...); len(got) > 0 {
			t.Errorf("%v offers %q", args, got)
		}
	}
	for _, args := range [][]string{{"grants", "show", ""}, {"check", ""}} {
		if got := completed(t, "no URL at all", args...); len(got) > 0 {
			t.Errorf("%v with a wrong setting: %q", args, got)
		}
	}
}

// TestCompletionAsksNobodyAtRandom: names for a limiter's commands are asked of a broker
// that somebody has named, and of none where nobody has.
func TestCompletionAsksNobodyAtRandom(t *testing.T) {
	for _, url := range []string{"", "http://127.0.0.1:7"} {
		t.Setenv(environmentName(brokerServer), url)
		var asked []string
		p := &program{stdout: io.Discard, stderr: io.Discard}
		settings := &clientSettings{server: limiterServer, timeout: time.Second}
		cmd := &cobra.Command{Use: "check"}
		cmd.Flags().String(configFlag, "", "")
		addSettings(cmd, settings.registerURL)
		complete := p.completeAtBroker(settings, func(_ context.Context, at *clientSettings, _ string) ([]string, error) {
			asked = append(asked, at.url)
			return nil, nil
		})
		complete(cmd, nil, "")
		if got := strings.Join(asked, " "); got != url {
			t.Errorf("with the broker %q, %q is asked", url, got)
		}
	}
}
