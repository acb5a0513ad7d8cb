package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/etcdstore"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// patience bounds every wait of these tests; they end as soon as they can.
const patience = 60 * time.Second

// process is a server of the real program.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bytes.Buffer
	done chan struct{}
	url  string
}

// launch starts the program with these arguments, listening at a free port, and
// waits until it is ready.
func launch(t *testing.T, address string, args ...string) *process {
	t.Helper()
	p := launchUnready(t, address, args...)
	p.waitReady()
	return p
}

func launchUnready(t *testing.T, address string, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: &bytes.Buffer{}, done: make(chan struct{}), url: "http://" + address}
	p.cmd = exec.Command("tokenlease", append(args, "--listen", address)...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(p.log, lines.Text())
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of %v:\n%s", p.cmd.Args, p.log)
		}
	})
	return p
}

func (p *process) waitReady() {
	p.t.Helper()
	eventually(p.t, "it is ready", func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("%v has ended:\n%s", p.cmd.Args, p.log)
		default:
		}
		resp, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (p *process) kill(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal)
	<-p.done
}

// eventually polls a condition of another process.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for limit := time.Now().Add(patience); !so(); <-poll.C {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tokenlease runs a command of the program and returns its stdout and exit code.
func tokenlease(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command("tokenlease", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Logf("%v: %s", args, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// policyFile writes one policy for op with the given capacity, refill and cost.
func policyFile(t *testing.T, capacity int64, refill string, cost int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	text := fmt.Sprintf("policies:\n  - operation: op\n    token-bucket:\n      capacity: %d\n      refill: %s\n    cost: %d\n", capacity, refill, cost)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func apply(t *testing.T, broker, file string) {
	t.Helper()
	if out, code := tokenlease(t, "policy", "apply", file, "--broker", broker); code != 0 {
		t.Fatalf("policy apply ended with %d: %s", code, out)
	}
}

// verified is what verify says, which must be clean.
func verified(t *testing.T, broker string) (reserved, orphaned int64) {
	t.Helper()
	out, code := tokenlease(t, "verify", "--broker", broker, "-o", "json")
	if code != 0 {
		t.Fatalf("verify ended with %d: %s", code, out)
	}
	var answer struct {
		Reserved string `json:"reserved_tokens"`
		Orphaned string `json:"orphaned_tokens"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	reserved, _ = strconv.ParseInt(answer.Reserved, 10, 64)
	orphaned, _ = strconv.ParseInt(answer.Orphaned, 10, 64)
	return reserved, orphaned
}

// region asks one limiter.
type regionClient struct {
	t      *testing.T
	client tokenleasev1connect.LimiterClient
}

func ask1(t *testing.T, url string) regionClient {
	return regionClient{t, tokenleasev1connect.NewLimiterClient(http.DefaultClient, url)}
}

func (r regionClient) check(account string) *tokenleasev1.CheckResponse {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	resp, err := r.client.Check(ctx, connect.NewRequest(&tokenleasev1.CheckRequest{
		Key: &tokenleasev1.BudgetKey{Account: account, Operation: "op"},
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Msg
}

// drain spends until the budget is known to be used up, and says how much.
func (r regionClient) drain(account string, cost int64) (spent int64) {
	r.t.Helper()
	eventually(r.t, "the budget is used up", func() bool {
		for {
			got := r.check(account)
			if !got.GetAllowed() {
				return got.GetReason() == tokenleasev1.Reason_REASON_EXHAUSTED
			}
			spent += cost
		}
	})
	return spent
}

func limiterArgs(broker, region, journal string) []string {
	return []string{"limiter", "--brokers", broker, "--region", region, "--instance", "l0", "--journal-dir", journal}
}

func TestEndToEndKilledLimiterAccountsByItsJournal(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "4")
	apply(t, broker.url, policyFile(t, 100, "0", 5))
	journal, address := t.TempDir(), freeAddress(t)
	eu := launch(t, address, limiterArgs(broker.url, "eu", journal)...)

	var spent int64
	for range 6 {
		if !ask1(t, eu.url).check("acme").GetAllowed() {
			t.Fatal("denied")
		}
		spent += 5
	}
	eu.kill(syscall.SIGKILL)
	reserved, _ := verified(t, broker.url)
	if reserved == 0 {
		t.Fatal("nothing stays reserved for the killed limiter")
	}
	out, _ := tokenlease(t, "grants", "list", "--broker", broker.url)
	if !strings.Contains(out, "eu") {
		t.Errorf("grants list does not show it: %s", out)
	}

	eu = launch(t, address, limiterArgs(broker.url, "eu", journal)...)
	eventually(t, "the dead epoch is accounted for", func() bool {
		reserved, orphaned := verified(t, broker.url)
		return reserved == 0 && orphaned == 0
	})
	spent += ask1(t, eu.url).drain("acme", 5)
	if spent > 100 {
		t.Errorf("%d spent of 100", spent)
	}
	if spent < 60 {
		t.Errorf("only %d of 100 could be spent: too little was handed back", spent)
	}
	eu.kill(syscall.SIGTERM)
	if code := eu.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("an orderly stop ended with %d", code)
	}
	if reserved, _ := verified(t, broker.url); reserved != 0 {
		t.Errorf("%d are reserved after an orderly stop", reserved)
	}
	for _, name := range []string{"grants_opened_total", "grants_ended_total", "tokens_issued_total", "commit_seconds_count"} {
		if n := metric(t, broker.url, "tokenlease_broker_"+name); n < 1 {
			t.Errorf("%s is %v", name, n)
		}
	}
}

// metric is the value of a metric without labels.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	return metricBy(t, http.DefaultClient, url, name)
}

// metricBy is metric for a client of its own.
func metricBy(t *testing.T, client *http.Client, url, name string) float64 {
	t.Helper()
	resp, err := client.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s at %s", name, url)
	return 0
}

func TestEndToEndKilledBrokerKeepsItsPromises(t *testing.T) {
	data, address := t.TempDir(), freeAddress(t)
	args := []string{"broker", "--data-dir", data, "--session-ttl", "2s", "--shards", "4"}
	broker := launch(t, address, args...)
	apply(t, broker.url, policyFile(t, 100, "0", 1))
	eu := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", t.TempDir())...)
	us := launch(t, freeAddress(t), limiterArgs(broker.url, "us", t.TempDir())...)

	spent := int64(0)
	for _, r := range []*process{eu, us} {
		if !ask1(t, r.url).check("acme").GetAllowed() {
			t.Fatal("denied")
		}
		spent++
	}
	broker.kill(syscall.SIGKILL)
	for _, r := range []*process{eu, us} { // what is held is spent, and nothing else
		for ask1(t, r.url).check("acme").GetAllowed() {
			spent++
		}
		if got := ask1(t, r.url).check("acme").GetReason(); got != tokenleasev1.Reason_REASON_UNAVAILABLE {
			t.Errorf("without a broker: %v", got)
		}
	}
	if spent > 100 {
		t.Fatalf("%d spent of 100", spent)
	}
	broker = launch(t, address, args...)
	for _, r := range []*process{eu, us} {
		spent += ask1(t, r.url).drain("acme", 1)
	}
	if spent != 100 {
		t.Errorf("%d spent of 100 in all", spent)
	}
	verified(t, broker.url)
}

func TestEndToEndOneOfTwoBrokersIsKilled(t *testing.T) {
	etcd, err := etcdstore.StartEmbedded(t.Context(), etcdstore.EmbeddedConfig{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	const ttl = 2 * time.Second
	args := []string{"broker", "--etcd-endpoints", etcd.Endpoints()[0], "--session-ttl", ttl.String(), "--shards", "8"}
	first := launch(t, freeAddress(t), args...)
	second := launch(t, freeAddress(t), args...)
	apply(t, first.url, policyFile(t, 1_000_000, "100000 per 1s", 1))
	eu := launch(t, freeAddress(t), limiterArgs(first.url+","+second.url, "eu", t.TempDir())...)

	accounts := make([]string, 16) // some on each broker
	for i := range accounts {
		accounts[i] = fmt.Sprintf("account-%d", i)
		for n, left := 0, int64(0); n < 20 || left < 2 && n < 1000; n++ { // until there is credit here
			got := ask1(t, eu.url).check(accounts[i])
			if !got.GetAllowed() {
				t.Fatalf("before the kill: %v", got)
			}
			left = got.GetRemainingTokens()
		}
	}
	first.kill(syscall.SIGKILL)
	killed := time.Now()
	for _, account := range accounts { // credit is here: no check misses
		if got := ask1(t, eu.url).check(account); !got.GetAllowed() {
			t.Errorf("with credit, right after the kill: %v", got)
		}
	}
	fresh := 0
	eventually(t, "the other broker serves every shard", func() bool {
		fresh++
		for i := range 16 {
			if !ask1(t, eu.url).check(fmt.Sprintf("fresh-%d-%d", fresh, i)).GetAllowed() {
				return false
			}
		}
		return true
	})
	took := time.Since(killed)
	t.Logf("all shards served again after %v, with a session of %v", took, ttl)
	verified(t, second.url)
	second.kill(syscall.SIGTERM)
	if code := second.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("an orderly stop ended with %d", code)
	}
}

func TestEndToEndDevAndDemo(t *testing.T) {
	out, code := tokenlease(t, "demo")
	if code != 0 || strings.Contains(out, "WRONG") || !strings.Contains(out, "All of this was so") {
		t.Errorf("demo ended with %d:\n%s", code, out)
	}
}
