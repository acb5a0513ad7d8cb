package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
)

const (
	demoAccount   = "acme"
	demoOperation = "report.create"
	demoCapacity  = 40
	demoCost      = 5
	demoRefill    = 20 // a second, in the last act
	// demoPatience bounds how long the demo waits for something to become true.
	demoPatience = 15 * time.Second
)

// demoQuota is the worked example without refill, so that every token can be
// counted; demoBucket is the same with its refill.
const (
	demoQuota  = "policies:\n  - operation: report.create\n    token-bucket: {capacity: 40}\n    cost: 5\n"
	demoBucket = "policies:\n  - operation: report.create\n    token-bucket: {capacity: 40, refill: 20 per 1s}\n    cost: 5\n"
)

// demoCommand tells the worked example.
func (p *program) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Watch one budget survive a partition, in a few seconds",
		Long: `Tell the worked example on a real embedded etcd, a broker and three regions: 40
tokens are split into grants, a region is cut off, the others go on, the region is
killed and comes back with its journal. Every statement is checked as it is made;
the exit code is 1 if one was not so.`,
		Example: "  tokenlease demo",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runDemo(cmd.Context()) },
	}
}

// demo is a story with checks.
type demo struct {
	out      io.Writer
	ctx      context.Context //nolint:containedctx // one run
	trial    *trial
	regions  map[string]*region
	admitted map[string]int64 // tokens, since the start of the act
	wrong    int
}

func (p *program) runDemo(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tokenlease-demo-")
	if err != nil {
		return failure(err)
	}
	defer os.RemoveAll(dir)
	listener, err := listen("listen", "127.0.0.1:0")
	if err != nil {
		return failure(err)
	}
	d := &demo{out: p.stdout, ctx: ctx, regions: map[string]*region{}, admitted: map[string]int64{}}
	if err := d.start(dir, listener); err != nil {
		return failure(err)
	}
	err = d.tell()
	err = errors.Join(err, d.trial.close(d.alive()...))
	switch {
	case err != nil:
		return failure(err)
	case d.wrong > 0:
		return exitError{code: exitNo, text: fmt.Sprintf("%d statements of the demo were not so", d.wrong)}
	}
	d.say("\nAll of this was so. Next: tokenlease dev")
	return nil
}

func (d *demo) start(dir string, listener net.Listener) error {
	t, err := startTrial(d.ctx, dir, listener, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	d.trial = t
	if err := t.applyPolicies(d.ctx, demoQuota, "demo"); err != nil {
		return errors.Join(err, t.close())
	}
	for _, name := range []string{"eu", "us", "ap"} {
		r, err := t.startRegion(name)
		if err != nil {
			return errors.Join(err, t.close(d.alive()...))
		}
		d.regions[name] = r
	}
	return nil
}

func (d *demo) alive() []*region {
	var alive []*region
	for _, name := range []string{"eu", "us", "ap"} {
		if r := d.regions[name]; r != nil {
			alive = append(alive, r)
		}
	}
	return alive
}

func (d *demo) tell() error {
	for _, act := range []func() error{d.split, d.cutOff, d.killed, d.back, d.refill} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// split: two regions ask, and one budget becomes two grants.
func (d *demo) split() error {
	d.title("One budget, several regions")
	d.say("%s may spend %d tokens on %s, once; a report costs %d.", demoAccount, demoCapacity, demoOperation, demoCost)
	for _, name := range []string{"eu", "us"} {
		got := d.checkUntil(name, tokenleasev1.Reason_REASON_ALLOWED)
		d.claim(got == tokenleasev1.Reason_REASON_ALLOWED, "%s creates a report", name)
	}
	b, err := d.settled(d.total())
	if err != nil {
		return err
	}
	d.grants(b)
	d.claim(len(b.GetGrants()) == 2, "each holds a grant of its own, for what it may need next")
	d.claim(b.GetAvailableTokens()+b.GetReservedTokens()+d.total() == demoCapacity,
		"%d spent + %d reserved for regions + %d available = %d", d.total(), b.GetReservedTokens(), b.GetAvailableTokens(), demoCapacity)
	return nil
}

// cutOff: eu loses the broker and keeps its credit; the others use up the rest.
func (d *demo) cutOff() error {
	d.title("The network of eu is cut")
	d.regions["eu"].link.Cut()
	held, err := d.heldBy("eu")
	if err != nil {
		return err
	}
	got := d.checkUntil("ap", tokenleasev1.Reason_REASON_ALLOWED)
	d.claim(got == tokenleasev1.Reason_REASON_ALLOWED, "ap creates a report: its credit is called back from us, not from eu")
	d.spendAll("us", "ap")
	b, err := d.settled(d.total())
	if err != nil {
		return err
	}
	d.grants(b)
	after, err := d.heldBy("eu")
	if err != nil {
		return err
	}
	d.claim(after == held && held > 0, "us and ap spend all that is left, but not the %d tokens reserved for eu", held)
	d.claim(d.check("eu").Allowed, "eu, cut off, still admits a report from its own credit")
	d.claim(d.total() <= demoCapacity, "all regions together: %d of %d tokens", d.total(), demoCapacity)
	return nil
}

// killed: eu's process dies without a word.
func (d *demo) killed() error {
	d.title("eu is killed")
	eu := d.regions["eu"]
	eu.stop() // with its network cut, nothing it says arrives
	<-eu.ended
	delete(d.regions, "eu")
	held, err := d.heldBy("eu")
	if err != nil {
		return err
	}
	d.claim(held > 0, "nobody knows what eu spent: its %d tokens stay reserved, however long it is gone", held)
	got := d.checkUntil("us", tokenleasev1.Reason_REASON_EXHAUSTED)
	d.claim(got == tokenleasev1.Reason_REASON_EXHAUSTED, "us asks for more, and is told that the budget is used up")
	return nil
}

// back: eu starts again and its journal accounts for the credit.
func (d *demo) back() error {
	d.title("eu starts again, with its journal")
	r, err := d.trial.startRegion("eu")
	if err != nil {
		return err
	}
	d.regions["eu"] = r
	before := d.total()
	var b *tokenleasev1.Budget
	accounted := d.eventually(func() (bool, error) {
		b, err = d.budget()
		for _, g := range b.GetGrants() {
			if g.GetHolder().GetRegion() == "eu" && g.GetEpoch() < 2 {
				return false, err
			}
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	d.grants(b)
	back := b.GetAvailableTokens() + b.GetReservedTokens()
	d.claim(accounted && b.GetOrphanedTokens() == 0 && back > 0 && before+back <= demoCapacity,
		"the journal proves %d tokens unspent: they are available again; the rest counts as spent", back)
	d.spendAll("us", "ap", "eu")
	d.claim(d.total() <= demoCapacity, "all regions together, to the end: %d of %d tokens", d.total(), demoCapacity)
	return d.verify()
}

// refill: the policy gets its refill, and the bucket fills in two seconds.
func (d *demo) refill() error {
	d.title("Now with a refill of 20 tokens a second")
	if err := d.trial.applyPolicies(d.ctx, demoBucket, "demo"); err != nil {
		return err
	}
	start := time.Now()
	d.admitted = map[string]int64{}
	full := d.eventually(func() (bool, error) {
		b, err := d.budget()
		return b.GetAvailableTokens()+b.GetReservedTokens() == demoCapacity, err
	})
	d.claim(full, "the budget is full again after %.1f s", time.Since(start).Seconds())
	burst := time.Now()
	for time.Since(burst) < time.Second && d.ctx.Err() == nil {
		for _, name := range []string{"eu", "us", "ap"} {
			d.check(name)
		}
		d.pause(5 * time.Millisecond)
	}
	took := time.Since(burst)
	bound := demoCapacity + int64(took.Seconds()*demoRefill) + 1
	d.claim(d.total() >= demoCapacity/2 && d.total() <= bound,
		"in %.1f s of asking as fast as they can, all regions together get %d tokens, at most %d", took.Seconds(), d.total(), bound)
	return d.verify()
}

func (d *demo) verify() error {
	resp, err := d.trial.admin.Verify(d.ctx, connect.NewRequest(&tokenleasev1.VerifyRequest{}))
	if err != nil {
		return err
	}
	d.claim(len(resp.Msg.GetViolations()) == 0, "every invariant holds over all that is stored %s", strings.Join(resp.Msg.GetViolations(), "; "))
	return nil
}

// check asks a region for one report.
func (d *demo) check(name string) decision.Answer {
	got := d.regions[name].limiter.Check(d.ctx, demoAccount, demoOperation)
	if got.Allowed {
		d.admitted[name] += demoCost
	}
	return got
}

// checkUntil asks until the answer is as wanted, which takes a while when credit
// has to be called back first.
func (d *demo) checkUntil(name string, want tokenleasev1.Reason) tokenleasev1.Reason {
	var got tokenleasev1.Reason
	d.eventually(func() (bool, error) {
		got = d.check(name).Reason
		return got == want, nil
	})
	return got
}

// spendAll lets the regions create reports in turn until each has been told that
// the budget is used up, twice over.
func (d *demo) spendAll(names ...string) {
	denied := 0
	for limit := time.Now().Add(demoPatience); denied < 2*len(names) && time.Now().Before(limit) && d.ctx.Err() == nil; {
		for _, name := range names {
			got := d.check(name)
			switch got.Reason {
			case tokenleasev1.Reason_REASON_ALLOWED:
				denied = 0
			case tokenleasev1.Reason_REASON_EXHAUSTED:
				denied++
				d.pause(20 * time.Millisecond)
			}
		}
	}
}

func (d *demo) total() int64 {
	var sum int64
	for _, tokens := range d.admitted {
		sum += tokens
	}
	return sum
}

func (d *demo) budget() (*tokenleasev1.Budget, error) {
	resp, err := d.trial.admin.ShowBudget(d.ctx, connect.NewRequest(&tokenleasev1.ShowBudgetRequest{
		Key: &tokenleasev1.BudgetKey{Account: demoAccount, Operation: demoOperation},
	}))
	if connect.CodeOf(err) == connect.CodeNotFound {
		return &tokenleasev1.Budget{AvailableTokens: demoCapacity}, nil // full, with nothing out
	}
	if err != nil {
		return nil, err
	}
	return resp.Msg.GetBudget(), nil
}

// settled is the budget once the broker has heard of what was spent, by the
// regions that reach it.
func (d *demo) settled(spent int64) (*tokenleasev1.Budget, error) {
	var b *tokenleasev1.Budget
	var err error
	d.eventually(func() (bool, error) {
		b, err = d.budget()
		return b.GetAvailableTokens()+b.GetReservedTokens()+spent == demoCapacity, err
	})
	return b, err
}

func (d *demo) heldBy(name string) (int64, error) {
	b, err := d.budget()
	var held int64
	for _, g := range b.GetGrants() {
		if g.GetHolder().GetRegion() == name {
			held += g.GetOutstandingTokens()
		}
	}
	return held, err
}

// eventually tries until it is so, an error occurs, or patience ends.
func (d *demo) eventually(so func() (bool, error)) bool {
	for limit := time.Now().Add(demoPatience); ; d.pause(25 * time.Millisecond) {
		ok, err := so()
		if ok || err != nil || time.Now().After(limit) || d.ctx.Err() != nil {
			return ok && err == nil
		}
	}
}

func (d *demo) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.ctx.Done():
	}
}

func (d *demo) title(text string) { fmt.Fprintf(d.out, "\n%s\n", text) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// claim tells something and whether it was so.
func (d *demo) claim(so bool, format string, args ...any) {
	mark := "ok   "
	if !so {
		mark = "WRONG"
		d.wrong++
	}
	fmt.Fprintf(d.out, "  %s  %s\n", mark, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// grants shows who holds what.
func (d *demo) grants(b *tokenleasev1.Budget) {
	for _, g := range b.GetGrants() {
		state := strings.ToLower(strings.TrimPrefix(g.GetState().String(), "GRANT_STATE_"))
		d.say("        %s  %-2s  epoch %d  issued %2d  spent %2d  returned %2d  outstanding %2d  %s", g.GetGrantId(),
			g.GetHolder().GetRegion(), g.GetEpoch(), g.GetIssuedTokens(), g.GetSpentTokens(), g.GetReturnedTokens(), g.GetOutstandingTokens(), state)
	}
	d.say("        available %d, reserved %d", b.GetAvailableTokens(), b.GetReservedTokens())
}
