package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	"github.com/tokenlease/tokenlease/proto/identity/tlsfiles"
)

// trialCertificates runs `certs dev`, and returns the directory and what it says to
// try: each command in one line, without the name of the program.
func trialCertificates(t *testing.T, args ...string) (dir string, advice []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	cmd := exec.Command("tokenlease", append([]string{"certs", "dev", "--dir", dir}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("certs dev: %v: %s", err, &said)
	}
	for line := range strings.Lines(strings.ReplaceAll(said.String(), "\\\n", "")) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			advice = append(advice, strings.TrimPrefix(strings.TrimSpace(command), "tokenlease "))
		}
	}
	return dir, advice
}

// launchTLS is launch for a server with certificates. Whoever waits for it needs
// none.
func launchTLS(t *testing.T, dir, address string, args ...string) *process {
	t.Helper()
	p := launchUnready(t, address, args...)
	p.url = "https://" + address
	files, err := tlsfiles.Open(tlsfiles.Config{Use: "test", CAFile: filepath.Join(dir, "ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	client := newTLSClient(files)
	t.Cleanup(client.CloseIdleConnections)
	eventually(t, "it is ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("%v has ended:\n%s", p.cmd.Args, p.log)
		default:
		}
		resp, err := client.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// serverFiles are the flags of a server with the certificate of that name.
func serverFiles(dir, name string) []string {
	return []string{"--tls-cert", filepath.Join(dir, name+".pem"), "--tls-key", filepath.Join(dir, name+"-key.pem"), "--tls-client-ca", filepath.Join(dir, "ca.pem")}
}

// showing makes every command of the test show the certificate of that name.
func showing(t *testing.T, dir, name string) {
	t.Helper()
	t.Setenv("TOKENLEASE_CA", filepath.Join(dir, "ca.pem"))
	t.Setenv("TOKENLEASE_CERT", filepath.Join(dir, name+".pem"))
	t.Setenv("TOKENLEASE_KEY", filepath.Join(dir, name+"-key.pem"))
}

// scraper is a client that shows the viewer's certificate, whoever the server is.
func scraper(t *testing.T, dir string) *http.Client {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "viewer.pem"), filepath.Join(dir, "viewer-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// wants runs a command, and wants an exit code and a text on either output.
func wants(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	wantsOneOf(t, []int{code}, want, args...)
}

func wantsOneOf(t *testing.T, codes []int, want string, args ...string) {
	t.Helper()
	cmd := exec.Command("tokenlease", args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); !slices.Contains(codes, got) || !strings.Contains(string(out), want) {
		t.Errorf("%v ended with %d, want one of %d and %q:\n%s", args, got, codes, want, out)
	}
}

// What `certs dev` says to try works as it stands, but for the ports: a broker, a
// limiter, and the commands of an operator and a gateway.
func TestEndToEndTrialCertificates(t *testing.T) {
	dir, advice := trialCertificates(t)
	if len(advice) != 6 {
		t.Fatalf("certs dev says to try %q", advice)
	}
	brokerAt, limiterAt := freeAddress(t), freeAddress(t)
	ports := strings.NewReplacer("127.0.0.1:7600", brokerAt, "127.0.0.1:7700", limiterAt, "tokenlease-data", t.TempDir(), "tokenlease-journal", t.TempDir())
	for i := range advice {
		advice[i] = ports.Replace(advice[i])
	}
	launchTLS(t, dir, brokerAt, strings.Fields(advice[0])...)
	launchTLS(t, dir, limiterAt, strings.Fields(advice[1])...)
	for _, line := range advice[2:4] {
		for pair := range strings.FieldsSeq(strings.TrimPrefix(line, "export ")) {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
	}
	wants(t, exitYes, "eu/limiter-0", strings.Fields(advice[4])...)
	wants(t, exitNo, "no-policy", strings.Fields(advice[5])...)
	wants(t, exitYes, "policy op: new", "policy", "apply", policyFile(t, 40, "20 per 1s", 5))
	wants(t, exitYes, "allowed", "check", "acme", "op", "--cert", filepath.Join(dir, "gateway.pem"), "--key", filepath.Join(dir, "gateway-key.pem"))
	wants(t, exitYes, "spiffe://tokenlease.local/tokenlease/operator/operator", "audit", "list")
}

// Each command is let in by the certificate that it shows, and a limiter only under
// its own name.
func TestEndToEndRoles(t *testing.T) {
	dir, _ := trialCertificates(t, "--holder", "eu/l0,us/l0")
	broker := launchTLS(t, dir, freeAddress(t), append([]string{"broker", "--data-dir", t.TempDir(), "--shards", "4", "--plain-config"}, serverFiles(dir, "broker")...)...)
	t.Setenv("TOKENLEASE_BROKER", broker.url)
	showing(t, dir, "operator")
	wants(t, exitYes, "", "policy", "apply", policyFile(t, 100, "0", 1))
	eu := launchTLS(t, dir, freeAddress(t), append(limiterArgs(broker.url, "eu", t.TempDir()), serverFiles(dir, "limiter-eu-l0")...)...)
	t.Setenv("TOKENLEASE_LIMITER", eu.url)
	impostor := launchUnready(t, freeAddress(t), append(limiterArgs(broker.url, "us", t.TempDir()), serverFiles(dir, "limiter-eu-l0")...)...)

	wants(t, exitRefused, `"Check" needs the role gateway, and "spiffe://tokenlease.local/tokenlease/operator/operator" has operator`, "check", "acme", "op")
	showing(t, dir, "gateway")
	wants(t, exitYes, "allowed", "check", "acme", "op")
	wants(t, exitRefused, `"ListHolders" needs the role viewer or operator, and "spiffe://tokenlease.local/tokenlease/gateway/gateway" has gateway`, "holders", "list")
	showing(t, dir, "viewer")
	wants(t, exitYes, "eu/l0", "holders", "list")
	wants(t, exitRefused, `"DisableOperation" needs the role operator`, "policy", "disable", "op", "--because", "test")
	wants(t, exitNo, "100 -> 200", "policy", "diff", policyFile(t, 200, "0", 1))
	wants(t, exitYes, "Nothing was changed", "policy", "apply", "--dry-run", policyFile(t, 200, "0", 1))
	wants(t, exitRefused, `"ApplyPolicies" needs the role operator`, "policy", "apply", policyFile(t, 200, "0", 1))
	showing(t, dir, "limiter-us-l0")
	wants(t, exitRefused, "has holder", "holders", "list")
	t.Setenv("TOKENLEASE_CERT", "")
	t.Setenv("TOKENLEASE_KEY", "")
	wants(t, exitRefused, "no client certificate was shown", "holders", "list")
	t.Setenv("TOKENLEASE_CA", "")
	wants(t, exitUnreachable, "Name the file of its authorities with --ca or TOKENLEASE_CA", "holders", "list")
	// Its answer in clear text may be lost by the reset that follows it.
	wantsOneOf(t, []int{exitRefused, exitUnreachable}, "Does it want https?", "holders", "list", "--broker", strings.Replace(broker.url, "https", "http", 1))

	// What people and programs ask for without RPC.
	viewer, nobody := scraper(t, dir), &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(nobody.CloseIdleConnections)
	for _, test := range []struct {
		client       *http.Client
		method, path string
		want         int
	}{
		{nobody, http.MethodGet, "/healthz", http.StatusOK},
		{nobody, http.MethodGet, "/metrics", http.StatusUnauthorized},
		{nobody, http.MethodGet, "/ui/", http.StatusUnauthorized},
		{viewer, http.MethodGet, "/ui/", http.StatusOK},
		{viewer, http.MethodGet, "/v1/config/limits?account=acme", http.StatusOK},
		{viewer, http.MethodPost, "/v1/config/plan", http.StatusForbidden},
		{viewer, http.MethodGet, "/debug/pprof/", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, broker.url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := test.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, resp.StatusCode, test.want)
		}
	}

	showing(t, dir, "operator")
	refused := func() bool {
		resp, err := viewer.Get(broker.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var page bytes.Buffer
		_, err = page.ReadFrom(resp.Body)
		return err == nil && strings.Contains(page.String(), `tokenlease_identity_refused_total{code="permission_denied",method="Register"}`)
	}
	eventually(t, "the impostor is refused", refused)
	impostor.kill(syscall.SIGTERM)
	if log := impostor.log.String(); !strings.Contains(log, `may act as [eu/l0], and the request is of \"us\"/\"l0\"`) {
		t.Errorf("a limiter under the name of another says:\n%s", log)
	}
	if out, _ := tokenlease(t, "holders", "list"); strings.Contains(out, "us/l0") {
		t.Errorf("it has registered all the same:\n%s", out)
	}
}

// A file of authorities that changes is in force without a restart, for the next
// request; a broken one changes nothing.
func TestEndToEndAuthoritiesAreReadAgain(t *testing.T) {
	dir, _ := trialCertificates(t)
	broker := launchTLS(t, dir, freeAddress(t), append([]string{"broker", "--data-dir", t.TempDir(), "--shards", "4"}, serverFiles(dir, "broker")...)...)
	t.Setenv("TOKENLEASE_BROKER", broker.url)
	mine := filepath.Join(t.TempDir(), "mine") // the client keeps its copies
	if err := os.CopyFS(mine, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	showing(t, mine, "operator")
	wants(t, exitYes, "HOLDER", "holders", "list")

	authorities := filepath.Join(dir, "ca.pem")
	replace := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(authorities, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := broker.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	other, err := localca.New("another", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	replace([]byte("half a certif"))
	viewer := scraper(t, mine)
	eventually(t, "the failure is counted", func() bool {
		return metricBy(t, viewer, broker.url, `tokenlease_tls_reload_ok{use="server"}`) == 0
	})
	wants(t, exitYes, "HOLDER", "holders", "list")

	replace(other.CertificatePEM)
	eventually(t, "the authority is removed", func() bool {
		out, code := tokenlease(t, "holders", "list")
		return code == exitRefused && out == ""
	})
	wants(t, exitRefused, "is not valid: x509: certificate signed by unknown authority", "holders", "list")
}

// What one broker passes on to another is recorded under the name of who has asked,
// not under that of the broker.
func TestEndToEndPassedOnInTheNameOfTheCaller(t *testing.T) {
	etcd, err := etcdstore.StartEmbedded(t.Context(), etcdstore.EmbeddedConfig{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	dir, _ := trialCertificates(t, "--holder", "eu/l0")
	args := append([]string{"broker", "--etcd-endpoints", etcd.Endpoints()[0], "--session-ttl", "2s", "--shards", "8"}, serverFiles(dir, "broker")...)
	first := launchTLS(t, dir, freeAddress(t), args...)
	launchTLS(t, dir, freeAddress(t), args...)
	t.Setenv("TOKENLEASE_BROKER", first.url)
	showing(t, dir, "operator")
	wants(t, exitYes, "", "policy", "apply", policyFile(t, 100, "0", 1))
	eu := launchTLS(t, dir, freeAddress(t), append([]string{"limiter", "--brokers", first.url, "--region", "eu", "--instance", "l0", "--journal", "off"}, serverFiles(dir, "limiter-eu-l0")...)...)
	for _, accounts := range []string{"abcdef", "ghijkl"} { // some in shards of each broker; fast, since what is idle goes back
		check := []string{"check", "x", "op", "--limiter", eu.url, "--cert", filepath.Join(dir, "gateway.pem"), "--key", filepath.Join(dir, "gateway-key.pem")}
		for _, account := range accounts {
			check = append(check, "--also", string(account)+",op")
		}
		wants(t, exitYes, "allowed", check...)
	}
	eu.kill(syscall.SIGKILL)

	var listed struct {
		Grants []struct {
			ID string `json:"grant_id"`
		}
	}
	read := func(into any, args ...string) {
		t.Helper()
		out, code := tokenlease(t, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(out), into); err != nil || code != exitYes {
			t.Fatalf("%v ended with %d: %v: %s", args, code, err, out)
		}
	}
	read(&listed, "grants", "list")
	if len(listed.Grants) < 6 { // the first ones may have gone back on a slow machine
		t.Fatalf("there are %d grants, want 13", len(listed.Grants))
	}
	for _, g := range listed.Grants {
		wants(t, exitYes, "", "grants", "resolve", g.ID, "--retire-epoch", "--force", "--because", "killed", "--by", "somebody", "--yes")
	}
	var audit struct {
		Entries []struct {
			Action, By string
			Verified   bool
		}
	}
	read(&audit, "audit", "list", "--action", "grants.resolve")
	if len(audit.Entries) != len(listed.Grants) {
		t.Errorf("there are %d entries, want %d", len(audit.Entries), len(listed.Grants))
	}
	for _, e := range audit.Entries {
		if e.By != "spiffe://tokenlease.local/tokenlease/operator/operator" || !e.Verified {
			t.Errorf("%s was done by %q, verified %v", e.Action, e.By, e.Verified)
		}
	}
	if n := metricBy(t, scraper(t, dir), first.url, "tokenlease_broker_forwarded_total"); n == 0 {
		t.Error("nothing was passed on: the test has shown nothing")
	}
}
