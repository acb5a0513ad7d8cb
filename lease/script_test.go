package lease_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// The named holders of all tables.
var (
	eu = lease.Holder{Region: "eu", Instance: "a"}
	us = lease.Holder{Region: "us", Instance: "b"}
	ap = lease.Holder{Region: "ap", Instance: "c"}
)

// The named instants of all tables.
const (
	t0    = 0 * time.Millisecond
	t50ms = 50 * time.Millisecond
	t1s   = 1 * time.Second
	t2s   = 2 * time.Second
	t3s   = 3 * time.Second
	t9s   = 9 * time.Second
)

// perSecond is a token bucket without a cap on one holder's share.
func perSecond(version, capacity, tokens int64) lease.Rule {
	return lease.Rule{
		Kind: lease.TokenBucket, Version: version, Capacity: capacity,
		Refill: lease.Rate{Tokens: tokens, Interval: time.Second}, MaxSharePercent: 100,
	}
}

// worked is the worked example of the design: 40, refilled at 20/s.
func worked() lease.Rule { return perSecond(1, 40, 20) }

func budgetKey() lease.Key { return lease.Key{Account: "acme", Operation: "report.create"} }

func newLedger(rule lease.Rule) lease.Ledger { return lease.NewLedger(budgetKey(), rule, 0) }

func grantID(sequence uint64) lease.GrantID {
	return lease.GrantID{Generation: 1, Shard: 3, Sequence: sequence}
}

// act is one transition of a script.
type act func(l *lease.Ledger, now lease.Time) error

func advance() act {
	return func(l *lease.Ledger, now lease.Time) error { l.Advance(now); return nil }
}

func open(id uint64, h lease.Holder, tokens int64) act { return openEpoch(id, h, 1, tokens) }

func openEpoch(id uint64, h lease.Holder, epoch uint64, tokens int64) act {
	return func(l *lease.Ledger, now lease.Time) error { return l.Open(now, grantID(id), h, epoch, tokens) }
}

func topUp(id uint64, tokens int64) act {
	return func(l *lease.Ledger, now lease.Time) error { return l.TopUp(now, grantID(id), tokens) }
}

func account(id uint64, spent, returned int64) act { return accountOwed(id, spent, returned, 0) }

func accountOwed(id uint64, spent, returned, owed int64) act {
	return func(l *lease.Ledger, now lease.Time) error {
		return l.Account(now, grantID(id), spent, returned, owed)
	}
}

func closeGrant(id uint64, spent, returned int64) act {
	return func(l *lease.Ledger, now lease.Time) error { return l.Close(now, grantID(id), spent, returned, 0) }
}

func closeHeld(id uint64, spent, returned, held int64) act {
	return func(l *lease.Ledger, now lease.Time) error {
		return l.CloseHeld(now, grantID(id), spent, returned, 0, held)
	}
}

// turn tells a fixed window that a period began at that instant of the wall clock,
// in milliseconds, and has left to go.
func turn(began int64, left time.Duration) act {
	return func(l *lease.Ledger, now lease.Time) error { l.Turn(now, began, left); return nil }
}

func closeProven(id uint64, drawn int64) act {
	return func(l *lease.Ledger, now lease.Time) error { return l.CloseProven(now, grantID(id), drawn) }
}

// attest also requires the amount that it counts as spent.
func attest(id uint64, want int64) act {
	return func(l *lease.Ledger, now lease.Time) error {
		counted, err := l.Attest(now, grantID(id))
		if err == nil && counted != want {
			return fmt.Errorf("attested %d, want %d", counted, want)
		}
		return err
	}
}

func install(rule lease.Rule) act {
	return func(l *lease.Ledger, now lease.Time) error { return l.Install(now, rule) }
}

// errAbove stands for any *lease.AboveIssuedError in a script.
var errAbove = errors.New("above issued")

// step is one line of a script: at this time do this, and then so much is free
// (available) and so much is out (reserved).
type step struct {
	at   time.Duration
	do   act
	err  error
	free int64
	out  int64
}

// script is a story of one budget that starts full at time 0.
type script struct {
	name  string
	rule  lease.Rule
	steps []step
}

func runScripts(t *testing.T, scripts []script) {
	t.Helper()
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			l := newLedger(s.rule)
			for i, step := range s.steps {
				if err := runStep(&l, step); err != nil {
					t.Fatalf("step %d at %v: %v", i+1, step.at, err)
				}
			}
		})
	}
}

// runStep checks the result of one step, all invariants, and that an error has
// changed nothing but the clock and the refill that is due anyway.
func runStep(l *lease.Ledger, s step) error {
	before, now := l.Clone(), lease.Time(s.at)
	err := s.do(l, now)
	var above *lease.AboveIssuedError
	switch {
	case s.err == errAbove && !errors.As(err, &above):
		return fmt.Errorf("error %v, want an account above issued", err)
	case s.err != errAbove && !errors.Is(err, s.err):
		return fmt.Errorf("error %v, want %v", err, s.err)
	}
	if err != nil {
		aged := before.Clone()
		aged.Advance(now)
		if !same(*l, before) && !same(*l, aged) {
			return fmt.Errorf("an error changed %v to %v", &before, l)
		}
	}
	if l.Available != s.free || l.Reserved() != s.out {
		return fmt.Errorf("%d free and %d out, want %d and %d", l.Available, l.Reserved(), s.free, s.out)
	}
	return lease.CheckStep(&before, l)
}

// same says that the ledgers are equal in every field.
func same(a, b lease.Ledger) bool {
	if len(a.Grants) != len(b.Grants) {
		return false
	}
	for i := range a.Grants {
		if a.Grants[i] != b.Grants[i] {
			return false
		}
	}
	return a.Key == b.Key && a.Rule == b.Rule && a.Updated == b.Updated &&
		a.Available == b.Available && a.Debt == b.Debt && a.Remainder == b.Remainder && a.Cut == b.Cut && a.CutFor == b.CutFor &&
		slices.Equal(a.Recovering, b.Recovering) && a.Used == b.Used && a.Began == b.Began
}
