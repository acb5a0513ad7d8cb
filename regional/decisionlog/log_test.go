package decisionlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
)

// rig is a log in a directory of its own.
type rig struct {
	*decisionlog.Log
	t    *testing.T
	path string
	reg  *prometheus.Registry
}

func open(t *testing.T, change ...func(*decisionlog.Config)) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "decisions.log"), reg: prometheus.NewRegistry()}
	cfg := decisionlog.Config{Path: r.path, Region: "eu", Instance: "gw-1", Sample: 1, Registerer: r.reg}
	for _, f := range change {
		f(&cfg)
	}
	r.path = cfg.Path
	var err error
	if r.Log, err = decisionlog.Open(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// record records n decisions.
func (r *rig) record(n int) {
	for range n {
		r.Record(entry())
	}
}

func entry() decisionlog.Entry {
	return decisionlog.Entry{
		What: decisionlog.Decision, Key: lease.Key{Account: "acme", Operation: "report.create"}, Epoch: 7, Cost: 5,
		Allowed: true, Reason: pb.Reason_REASON_ALLOWED, GrantID: "g1-000-00000001", DecisionID: "secret-id", Took: time.Microsecond,
		Policy: &lease.Policy{UpdatedUnixMs: 123, Rule: lease.Rule{
			Kind: lease.TokenBucket, Version: 3, Capacity: 40, Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 100,
		}},
	}
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// lines reads a file of the log.
func (r *rig) lines(path string) (lines []*decisionlog.Line) {
	r.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		l, err := decisionlog.Parse([]byte(text))
		if err != nil {
			r.t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

func (r *rig) metric(name string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tokenlease_limiter_decision_log_"+name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

func TestLinesSayEverything(t *testing.T) {
	r := open(t)
	r.record(2)
	r.close()
	lines := r.lines(r.path)
	if len(lines) != 3 || lines[0].What != decisionlog.Begin || r.metric("lines_total") != 2 {
		t.Fatalf("got %d lines", len(lines))
	}
	l := lines[2]
	l.Time, l.MonoNs = time.Time{}, 0
	want := decisionlog.Line{
		What: "decision", Log: lines[0].Log, Order: 2, Region: "eu", Instance: "gw-1", Epoch: 7, Sample: 1,
		Account: "acme", Operation: "report.create", Cost: 5, Allowed: true, Reason: "allowed", TookNs: 1000,
		PolicyVersion: 3, PolicyUnixMs: 123, Rule: l.Rule, Grant: "g1-000-00000001", DecisionHash: decisionlog.HashID("secret-id"),
	}
	if *l != want || *l.Rule != entry().Policy.Rule {
		t.Errorf("got %+v\nwant %+v", *l, want)
	}
	if data, _ := os.ReadFile(r.path); strings.Contains(string(data), "secret-id") {
		t.Error("the caller's ID is in the log")
	}
}

// Each start is a log of its own, behind the one before in the same file.
func TestRestartGoesOnBehind(t *testing.T) {
	dir := t.TempDir()
	at := func(c *decisionlog.Config) { c.Path = filepath.Join(dir, "log") }
	var r *rig
	for range 2 {
		r = open(t, at)
		r.record(1)
		r.close()
	}
	lines := r.lines(r.path)
	if len(lines) != 4 || lines[1].Log == lines[3].Log || lines[3].Order != 1 {
		t.Errorf("got %+v", lines)
	}
}

// What a crash has left of a line is cut off, and the rest stays.
func TestTornEndIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r := open(t, func(c *decisionlog.Config) { c.Path = path })
	r.record(1)
	r.close()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"what":"decision","log":"`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	r = open(t, func(c *decisionlog.Config) { c.Path = path })
	r.record(1)
	r.close()
	if lines := r.lines(path); len(lines) != 4 {
		t.Errorf("%d lines", len(lines))
	}
}

// A file that has grown to its bound is put aside, in place of the one before.
func TestRotation(t *testing.T) {
	r := open(t, func(c *decisionlog.Config) { c.MaxBytes, c.Buffer = decisionlog.MinMaxBytes, 100_000 })
	for range 20 { // several times what two files hold
		r.record(50)
	}
	r.record(1000)
	r.close()
	newer, older := r.lines(r.path), r.lines(r.path+".1")
	if newer[0].What != decisionlog.Begin || older[0].What != decisionlog.Begin {
		t.Error("a file does not begin with its beginning")
	}
	if last := newer[len(newer)-1].Order; last != 2000 || older[len(older)-1].Order+1 != newer[1].Order {
		t.Errorf("the last is %d, and the newer file begins at %d behind %d", last, newer[1].Order, older[len(older)-1].Order)
	}
	for _, path := range []string{r.path, r.path + ".1"} {
		if info, err := os.Stat(path); err != nil || info.Size() > decisionlog.MinMaxBytes+64<<10+1000 {
			t.Errorf("%s has %d bytes (%v)", path, info.Size(), err)
		}
	}
	if files, _ := os.ReadDir(filepath.Dir(r.path)); len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
}

// A full disk takes nothing: what is lost is counted, and told once there is room.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	failed := make(chan struct{}, 1)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	r := open(t, func(c *decisionlog.Config) { c.Path, c.Logger = path, notify(failed) })
	r.record(3)
	<-failed
	if err := os.Remove(path); err != nil { // now there is room
		t.Fatal(err)
	}
	r.record(2)
	r.close()
	var lost uint64
	orders := map[uint64]bool{}
	for _, l := range r.lines(path) {
		lost += l.Lost
		orders[l.Order] = true
	}
	if lost == 0 || float64(lost) != r.metric("lost_total") || !orders[5] || r.metric("lines_total")+float64(lost) != 5 {
		t.Errorf("%d are told as lost, %v are counted; %v", lost, r.metric("lost_total"), orders)
	}
}

// A disk that does not answer holds up nobody, and not the end either.
func TestStuckDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	letGo := stuckFile(t, path)
	r := open(t, func(c *decisionlog.Config) { c.Path, c.Buffer = path, 10 })
	r.record(1000) // would hang here
	if lost := r.metric("lost_total"); lost < 900 {
		t.Errorf("%v are lost of 1,000", lost)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.Close(ctx); err == nil || !strings.Contains(err.Error(), "cannot be written in time, its last lines are lost") {
		t.Errorf("got %v", err)
	}
	letGo()
	r.close()
}

func TestSampling(t *testing.T) {
	for _, share := range []float64{0.01, 0.5} {
		r := open(t, func(c *decisionlog.Config) { c.Sample = share })
		const n = 100_000
		got := 0
		for range n {
			if r.Sampled() {
				got++
			}
		}
		r.record(1)
		r.close()
		if low, high := share*n*0.8, share*n*1.2; float64(got) < low || float64(got) > high {
			t.Errorf("%d of %d are sampled at %v", got, n, share)
		}
		for _, l := range r.lines(r.path) {
			if l.Sample != share {
				t.Errorf("a line says it is a sample of %v, not of %v", l.Sample, share)
			}
		}
	}
}

func TestConfigFaults(t *testing.T) {
	good := decisionlog.Config{Path: "p", Region: "eu", Instance: "gw", Sample: 1}
	for _, tc := range []struct {
		change func(*decisionlog.Config)
		want   string
	}{
		{func(c *decisionlog.Config) { c.Path = "" }, "decisionlog: no file is named"},
		{func(c *decisionlog.Config) { c.Region = "" }, "decisionlog: the region or the instance is empty"},
		{func(c *decisionlog.Config) { c.Sample = 0 }, "decisionlog: a sample of 0 is not above 0 and at most 1: leave the log off to write nothing"},
		{func(c *decisionlog.Config) { c.Sample = 1.01 }, "decisionlog: a sample of 1.01 is not above 0 and at most 1: leave the log off to write nothing"},
		{func(c *decisionlog.Config) { c.MaxBytes = 10 }, "decisionlog: 10 bytes are below 65536, the least that a file may have"},
		{func(c *decisionlog.Config) { c.Buffer = -1 }, "decisionlog: the buffer is negative"},
	} {
		cfg := good
		tc.change(&cfg)
		if _, err := decisionlog.Open(cfg); err == nil || err.Error() != tc.want {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
}

// FuzzParse holds that what is read can be judged: no cost below 0, no number twice.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"what":"decision","log":"a","order":1,"time":"2026-03-03T12:00:00Z","region":"eu","instance":"gw","sample":1,"account":"a","operation":"o","cost":5}`))
	f.Add([]byte(`{"what":"lost","log":"a","time":"2026-03-03T12:00:00Z","region":"eu","instance":"gw","sample":0.5,"lost":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := decisionlog.Parse(text)
		if err != nil {
			return
		}
		if l.Cost < 0 || l.TookNs < 0 || l.HoldNs < 0 || l.Returned < 0 || l.Spent() && l.Rule == nil || !(l.Sample > 0) {
			t.Errorf("%s was read as %+v", text, l)
		}
		_ = fmt.Sprint(l.Key())
	})
}
