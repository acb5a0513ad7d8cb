package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// refused runs a server that must not start, and wants its exit code and what
// its message says.
func refused(t *testing.T, code int, says []string, args ...string) {
	t.Helper()
	cmd := exec.Command("tokenlease", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its exit code is looked at below
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%v ended with %d, want %d:\n%s", args, got, code, errs.String())
	}
	if out.Len() > 0 {
		t.Errorf("%v wrote to stdout: %s", args, out.String())
	}
	for _, part := range says {
		if !strings.Contains(errs.String(), part) {
			t.Errorf("%v does not say %q:\n%s", args, part, errs.String())
		}
	}
}

func TestEndToEndWrongFlags(t *testing.T) {
	journal := t.TempDir()
	for name, test := range map[string]struct {
		says []string
		args []string
	}{
		"no store":         {[]string{"--data-dir", "--etcd-endpoints"}, []string{"broker"}},
		"both stores":      {[]string{"--data-dir", "--etcd-endpoints"}, []string{"broker", "--data-dir", "x", "--etcd-endpoints", "http://127.0.0.1:1"}},
		"no port":          {[]string{"--listen"}, []string{"broker", "--data-dir", "x", "--listen", "localhost"}},
		"any address":      {[]string{"--advertise"}, []string{"broker", "--data-dir", t.TempDir(), "--listen", "0.0.0.0:0", "--allow-plaintext"}},
		"unknown flag":     {[]string{"--shard"}, []string{"broker", "--shard", "4"}},
		"argument":         {[]string{"unexpected argument"}, []string{"broker", "start"}},
		"no region":        {[]string{"region"}, []string{"limiter", "--instance", "a", "--journal-dir", journal}},
		"no journal":       {[]string{"--journal-dir"}, []string{"limiter", "--region", "eu", "--instance", "a"}},
		"bad journal mode": {[]string{"block, confirm, off"}, []string{"limiter", "--region", "eu", "--instance", "a", "--journal", "on"}},
		"bad broker":       {[]string{"--brokers"}, []string{"limiter", "--region", "eu", "--instance", "a", "--journal-dir", journal, "--brokers", "broker:7600"}},
		"bad address":      {[]string{"--listen"}, []string{"dev", "--listen", "7600"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, exitUsage, test.says, test.args...) })
	}
}

func TestEndToEndBrokerThatCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	refused(t, exitUnreachable, []string{"in use", "--listen"},
		"broker", "--data-dir", t.TempDir(), "--listen", taken.Addr().String())

	nobody := freeAddress(t)
	refused(t, exitUnreachable, []string{nobody, "etcd"},
		"broker", "--etcd-endpoints", "http://"+nobody, "--listen", "127.0.0.1:0")

	foreign := t.TempDir()
	precious := filepath.Join(foreign, "precious.txt")
	if err := os.WriteFile(precious, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, exitUnreachable, []string{foreign}, "broker", "--data-dir", foreign, "--listen", "127.0.0.1:0")
	if kept, err := os.ReadFile(precious); err != nil || string(kept) != "mine" {
		t.Errorf("a foreign file was touched: %q, %v", kept, err)
	}

	data := t.TempDir()
	running := launch(t, freeAddress(t), "broker", "--data-dir", data, "--shards", "2")
	refused(t, exitUnreachable, []string{data, "in use"}, "broker", "--data-dir", data, "--listen", "127.0.0.1:0")
	verified(t, running.url)
}

func TestEndToEndLimiterThatCannotStart(t *testing.T) {
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "2")
	journal := t.TempDir()
	args := append(limiterArgs(broker.url, "eu", journal), "--listen", "127.0.0.1:0")
	running := launch(t, freeAddress(t), limiterArgs(broker.url, "eu", journal)...)
	refused(t, exitUnreachable, []string{"another limiter", journal}, args...)
	running.kill(syscall.SIGTERM)

	other := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "2")
	refused(t, exitUnreachable, []string{"another cluster"},
		append(limiterArgs(other.url, "eu", journal), "--listen", "127.0.0.1:0")...)

	corrupt := t.TempDir()
	file := filepath.Join(corrupt, "journal.db")
	garbage := bytes.Repeat([]byte("not a journal "), 4096)
	if err := os.WriteFile(file, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, exitUnreachable, []string{file, "grants resolve"},
		append(limiterArgs(broker.url, "us", corrupt), "--listen", "127.0.0.1:0")...)
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, garbage) {
		t.Errorf("the corrupt journal was touched: %v", err)
	}
}
