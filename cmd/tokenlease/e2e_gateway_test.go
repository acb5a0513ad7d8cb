package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	envoyratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoyservice "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// session is what a README shows: commands and what they print.
type session struct {
	command string
	shown   []string
}

// sessionsOf reads the blocks of a page that call curl, from a heading on.
func sessionsOf(t *testing.T, file, heading string) []session {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(page), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	var all []session
	fenced, inside := false, false // in any block, in one that may be a session
	running, open := false, false  // a command has been met in it, and goes on
	for line := range strings.SplitSeq(part, "\n") {
		command, begins := strings.CutPrefix(line, "$ curl ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			inside, running = fenced && line == "```", false
		case !inside || line == "":
		case begins:
			all = append(all, session{command: "curl " + command})
			running, open = true, unfinished(command)
		case !running:
		case open:
			last := &all[len(all)-1]
			last.command = strings.TrimSuffix(last.command, "\\") + strings.TrimSpace(line)
			open = unfinished(last.command)
		default:
			last := &all[len(all)-1]
			last.shown = append(last.shown, line)
		}
	}
	return all
}

// unfinished says that a command goes on in the next line.
func unfinished(command string) bool {
	return strings.HasSuffix(command, "\\") || strings.Count(command, "'")%2 == 1
}

// words splits a command as a shell does, with single quotes alone.
func words(command string) (all []string) {
	quoted := false
	word, open := "", false
	for _, r := range command {
		switch {
		case r == '\'':
			quoted, open = !quoted, true
		case r == ' ' && !quoted:
			if open {
				all = append(all, word)
			}
			word, open = "", false
		default:
			word, open = word+string(r), true
		}
	}
	if open {
		all = append(all, word)
	}
	return all
}

// curl does what curl would with a command of the README, and prints what it would.
func curl(t *testing.T, command string, urls map[string]string) string {
	t.Helper()
	args := words(command)
	if args[0] != "curl" {
		t.Fatalf("%q does not call curl", command)
	}
	method, target, body, include := http.MethodGet, "", "", false
	header := http.Header{}
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-i":
			include = true
		case "-X":
			i++
			method = args[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			header.Add(name, value)
		case "-d":
			i++
			body, method = args[i], http.MethodPost
		default:
			target = args[i]
			for shown, here := range urls {
				target = strings.Replace(target, shown, here, 1)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !include {
		return string(text)
	}
	var head strings.Builder
	head.WriteString(resp.Proto + " " + resp.Status + "\n")
	if err := resp.Header.Write(&head); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(head.String(), "\r", "") + "\n" + string(text)
}

// moving are the numbers that depend on when something happened.
var moving = regexp.MustCompile(`(;r=|;t=|Retry-After: |retry_after_seconds":|"remaining":)\d+`)

// The README's session with the example gateway is what a real `dev` answers.
func TestReadmeGatewaySession(t *testing.T) {
	dev := devOf(t)
	sessions := sessionsOf(t, "../../README.md", "## Gateways")
	if len(sessions) < 6 {
		t.Fatalf("%d commands", len(sessions))
	}
	for _, s := range sessions {
		got := moving.ReplaceAllString(curl(t, s.command, map[string]string{"http://127.0.0.1:7800": dev["gateway"]}), "${1}N")
		for _, line := range s.shown {
			if want := moving.ReplaceAllString(line, "${1}N"); !strings.Contains(got+"\n", want+"\n") {
				t.Errorf("$ %s\nis said to print\n%s\nand prints\n%s", s.command, line, got)
			}
		}
	}
}

// devOf runs `dev` on free ports, and tells where each part is that it names.
func devOf(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("tokenlease", "dev", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	watch := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer watch.Stop()
	parts := map[string]string{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Interrupt to stop") {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return parts
		}
		if fields := strings.Fields(lines.Text()); len(fields) == 2 || len(fields) == 3 {
			parts[strings.Join(fields[:len(fields)-1], " ")] = fields[len(fields)-1]
		}
	}
	t.Fatal("dev has ended before it was ready")
	return nil
}

// Envoy's own client and a caller of the example gateway spend the same budget, and
// each is told when it is used up. A descriptor that matches nothing is denied, and
// counted.
func TestCase46EnvoyClientOnTheSameBudget(t *testing.T) {
	dev := devOf(t)
	conn, err := grpc.NewClient(dev["for Envoy"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := envoyservice.NewRateLimitServiceClient(conn)
	ask := func(operation string, hits uint32) *envoyservice.RateLimitResponse {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		resp, err := client.ShouldRateLimit(ctx, &envoyservice.RateLimitRequest{
			Domain: "api", HitsAddend: hits,
			Descriptors: []*envoyratelimit.RateLimitDescriptor{{
				Entries: []*envoyratelimit.RateLimitDescriptor_Entry{{Key: "operation", Value: operation}, {Key: "account", Value: "acme"}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	report := "curl -i -X POST -H 'X-Account: acme' http://127.0.0.1:7800/reports"
	if resp := ask("report.create", 35); resp.GetOverallCode() != envoyservice.RateLimitResponse_OK {
		t.Fatalf("35 of 40: %v", resp)
	}
	if got := curl(t, report, map[string]string{"http://127.0.0.1:7800": dev["gateway"]}); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("the gateway, with 5 left: %s", got)
	}
	if resp := ask("report.create", 40); resp.GetOverallCode() != envoyservice.RateLimitResponse_OVER_LIMIT || resp.GetStatuses()[0].GetDurationUntilReset() == nil {
		t.Errorf("40 at once of a used-up budget: %v", resp)
	}
	if resp := ask("report.create", 41); resp.GetOverallCode() != envoyservice.RateLimitResponse_OVER_LIMIT || resp.GetStatuses()[0].GetDurationUntilReset() != nil {
		t.Errorf("41 of 40, which never fits: %v", resp)
	}
	if resp := ask("not.in.the.mapping", 1); resp.GetOverallCode() != envoyservice.RateLimitResponse_OVER_LIMIT {
		t.Errorf("what matches nothing: %v", resp)
	}
}

// fresh are the fields of answers that are new in every cluster.
var fresh = regexp.MustCompile(`"(head|clusterId|reservationId|expiresInNs|grantId)":"([^"]*)"`)

// remaining depends on when the limiter was last answered.
var remaining = regexp.MustCompile(`"remainingTokens":"[^"]*"`)

// compacted is an answer in JSON as this test compares it: without blanks, and
// without what is new every time. Policies are left out, as the page leaves them out.
func compacted(t *testing.T, text string) string {
	t.Helper()
	text = strings.ReplaceAll(text, "{...}", "{}")
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var trim func(any)
	trim = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["policy"]; ok {
				v["policy"] = map[string]any{}
			}
			for _, inner := range v {
				trim(inner)
			}
		case []any:
			for _, inner := range v {
				trim(inner)
			}
		}
	}
	trim(value)
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return remaining.ReplaceAllString(string(out), `"remainingTokens":"N"`)
}

// What proto/README.md shows is what a real `dev` answers, with the identities and
// positions of this cluster in the place of the page's.
func TestProtoReadmeSessions(t *testing.T) {
	dev := devOf(t)
	urls := map[string]string{"http://127.0.0.1:7700": dev["region eu"], "http://127.0.0.1:7600": dev["broker"]}
	sessions := sessionsOf(t, "../../proto/README.md", "## Ask a limiter")
	if len(sessions) < 10 {
		t.Fatalf("%d commands", len(sessions))
	}
	known := map[string]string{} // by what the page shows
	for _, s := range sessions {
		command := s.command
		for shown, value := range known {
			command = strings.ReplaceAll(command, `"`+shown+`"`, `"`+value+`"`)
		}
		got, want := compacted(t, curl(t, command, urls)), compacted(t, strings.Join(s.shown, ""))
		news, shown := fresh.FindAllStringSubmatch(got, -1), fresh.FindAllStringSubmatch(want, -1)
		for i := range min(len(news), len(shown)) {
			known[shown[i][2]] = news[i][2]
		}
		if got, want = fresh.ReplaceAllString(got, `"$1":""`), fresh.ReplaceAllString(want, `"$1":""`); got != want {
			t.Errorf("$ %s\nis said to answer\n%s\nand answers\n%s", s.command, want, got)
		}
	}
}
