package shard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// logged is a rig whose log is kept.
func logged(t *testing.T) (*rig, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return newRig(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), &log
}

// registers puts another registration of eu in force.
func (r *rig) registers(epoch uint64, retired bool) {
	r.t.Helper()
	r.put(layout.Holder(eu), record.Registration{Region: eu.Region, Instance: eu.Instance, Epoch: epoch, StartNonce: "n", Retired: retired})
	r.shard.HolderChanged(eu)
}

// speaks sends an empty request of the epoch, which must be answered as fenced or not,
// and requires so many that were heard though it was attested that there would be none.
func (r *rig) speaks(epoch uint64, fenced bool, heard int64) {
	r.t.Helper()
	a, _ := r.send(&pb.SyncRequest{Holder: wire(eu), Epoch: epoch})
	r.settle()
	if got := a.requireOne(r.t); got.GetFenced() != fenced {
		r.t.Errorf("epoch %d is fenced: %v", epoch, got.GetFenced())
	}
	if got := r.shard.Stats().RetiredHeard; got != heard {
		r.t.Errorf("after a request of epoch %d: %d were counted, want %d", epoch, got, heard)
	}
}

// A limiter that speaks although its epoch was retired is counted, and logged once in a
// minute; one whose epoch was only replaced is not.
func TestRetiredEpochSpeaks(t *testing.T) {
	r, log := logged(t)
	r.speaks(1, false, 0)
	r.registers(2, false)
	r.speaks(1, true, 0) // it was replaced
	r.speaks(2, false, 0)
	r.registers(2, true)
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
	for i := range int64(10) {
		r.speaks(2, true, i+1)
	}
	if got := strings.Count(log.String(), "\n"); got != 1 {
		t.Errorf("%d lines within a second: %s", got, log)
	}
	for _, want := range []string{"level=ERROR", "the attestation was wrong", "holder=eu/limiter-0", "epoch=2", "tokenlease audit list"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
	r.pass(59 * time.Second)
	r.speaks(2, true, 11)
	if got := strings.Count(log.String(), "\n"); got != 1 {
		t.Errorf("%d lines within a minute: %s", got, log)
	}
	r.pass(time.Second)
	r.speaks(1, true, 12) // an attestation speaks for all epochs before
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "epoch=1 so_far=12") {
		t.Errorf("a minute later: %s", got)
	}
	r.registers(3, false)
	r.speaks(3, false, 12)
	r.speaks(2, true, 13) // also once the holder has started again
	r.speaks(3, false, 13)
	if c := r.shard.fence(us); c.attested != 0 {
		t.Errorf("of another holder epoch %d is attested to be gone", c.attested)
	}
}

// Who takes the shard over knows what was attested, and so does one who attests what was
// orphaned, without that the epoch had to be retired.
func TestAttestationsAreRemembered(t *testing.T) {
	r, _ := logged(t)
	a, _ := r.send(asking(eu, "acme", 1, 10))
	r.settle()
	id, err := lease.ParseGrantID(a.requireOne(t).GetBudgets()[0].GetGrantId())
	if err != nil {
		t.Fatal(err)
	}
	r.registers(2, false)
	r.speaks(2, false, 0)
	r.speaks(1, true, 0)
	var resolved error
	r.shard.Resolve(Resolution{GrantID: id, Key: lease.Key{Account: "acme", Operation: operation}, Word: record.Audit{By: "ann", Because: "test"}}, func(_ Resolved, err error) { resolved = err })
	r.settle()
	if resolved != nil {
		t.Fatal(resolved)
	}
	r.speaks(1, true, 1)
	r.own()
	r.settle()
	r.speaks(2, false, 0)
	r.speaks(1, true, 1)
}

// What lapses is logged at once, and then at most once in a second with the sum.
func TestLapsesFillNoLog(t *testing.T) {
	var log bytes.Buffer
	s := &Shard{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		at            time.Duration
		grants, lines int64
		says          string
	}{
		{0, 0, 0, ""},
		{0, 2, 1, "grants=2 tokens=20"},
		{500 * time.Millisecond, 3, 1, ""},
		{999 * time.Millisecond, 4, 1, ""},
		{time.Second, 0, 2, "grants=7 tokens=70"},
		{10 * time.Second, 0, 2, ""},
		{10 * time.Second, 1, 3, "grants=1 tokens=10"},
	} {
		s.moment.Mono = step.at
		s.stats.GrantsLapsed += step.grants
		s.stats.TokensLapsed += 10 * step.grants
		s.tellLapsed()
		if got := int64(bytes.Count(log.Bytes(), []byte("\n"))); got != step.lines || !strings.HasSuffix(strings.TrimSpace(log.String()), step.says) {
			t.Errorf("at %v, with %d more: %d lines, want %d that end with %q\n%s", step.at, step.grants, got, step.lines, step.says, log.String())
		}
	}
}
