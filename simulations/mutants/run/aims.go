package main

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/simulations"
)

// aims adjust the worlds that are drawn, so that they lead to where a rule
// matters. An honest program passes all of them.
var aims = map[string]func(*simulations.Config){
	// Processes crash between any two steps, with closes and accounts that take
	// their time, under journals that prove what they drew.
	"crashes": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 3, Loss: 10, Slow: 20}
		c.IdleAfter = 200 * time.Millisecond
		journals(c, holder.JournalBlock)
	},
	// Processes spend at once, and crash while what they have closed is not heard of.
	"crashes-after-closes": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 2, Loss: 50}
		c.IdleAfter, c.Think = 200*time.Millisecond, 150*time.Millisecond
		journals(c, holder.JournalBlock)
		greedy(c)
	},
	// The store goes back to copies, with commits on their way.
	"restores": func(c *simulations.Config) {
		c.Faults.Restore, c.Faults.LoseSession, c.Faults.ForgetIdle = true, true, true
		c.Faults.Uncertain, c.Faults.Twice, c.Faults.Slow = 10, 20, 20
	},
	// Restores, while processes with credit stand still or have no network.
	"restores-over-sleepers": func(c *simulations.Config) {
		*c = simulations.Config{
			Seed: c.Seed, Brokers: 1, Policies: c.Policies[:1], Journals: c.Journals,
			Chaos: 3 * time.Minute, Think: 100 * time.Millisecond, IdleAfter: time.Minute,
			Faults: simulations.Faults{Restore: true, PauseHolder: true, Cut: true},
		}
		c.Rule(lease.TokenBucket)
		c.Policies[0].Rule.Capacity, c.Policies[0].Rule.Refill.Tokens = 4, 4
	},
	// Restores, while limits of windows go up and down.
	"restored-windows": func(c *simulations.Config) {
		c.Rule(lease.FixedWindow)
		c.Policies, c.Chaos = c.Policies[:1], 30*time.Second
		c.Faults = simulations.Faults{Restore: true, ChangePolicy: true, Crash: true}
		greedy(c)
	},
	// As crashes, and many journal writes fail.
	"failing-journals": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 3, JournalError: 40}
		journals(c, holder.JournalBlock)
	},
	// After many crashes the journal is not there, or another one is.
	"fresh-disks": func(c *simulations.Config) {
		c.Faults.Crash, c.Faults.FreshDisk, c.Faults.CrashPoint = true, 50, 2
		journals(c, holder.JournalBlock)
	},
	// Older copies of journals come back, which are to be recognised.
	"restored-disks": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Crash: true, OldDisk: 90, CrashPoint: 3}
		journals(c, holder.JournalConfirm)
	},
	// As restored-disks, under the default mode.
	"block-on-restored-disks": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Crash: true, OldDisk: 90, CrashPoint: 3}
		journals(c, holder.JournalBlock)
	},
	// Second processes of a name start while the first runs on.
	"rivals": func(c *simulations.Config) {
		c.Faults.Rival, c.Faults.Crash = true, true
		journals(c, holder.JournalBlock)
	},
	// Processes live long and spend at once, budgets go idle at once and come back,
	// and many messages are on their way.
	"reopened": reopened,
	// As reopened, with processes that are busy with many budgets.
	"busy": func(c *simulations.Config) {
		reopened(c)
		c.Think = 60 * time.Millisecond
	},
	// Processes stop in order, with requests on their way.
	"stops": func(c *simulations.Config) {
		c.Faults = simulations.Faults{Stop: true, Slow: 30, Duplicate: 20, Late: 5}
	},
	// Processes die, and the operator attests that at once.
	"attested": func(c *simulations.Config) {
		c.Faults.Crash, c.Faults.CrashPoint, c.Faults.Attest = true, 2, true
		journals(c, holder.JournalOff)
	},
	// A process spends what it has at once and dies with it unreported, which an
	// operator attests.
	"dead-with-all-spent": func(c *simulations.Config) {
		*c = simulations.Config{
			Seed: c.Seed, Brokers: 1, Policies: c.Policies[:1], Journals: c.Journals[:1], Greedy: []bool{true},
			Chaos: 4 * time.Minute, Think: 2 * time.Second, IdleAfter: 4 * time.Second, SyncInterval: 400 * time.Millisecond,
			Faults: simulations.Faults{CrashPoint: 5, Attest: true},
		}
		c.Rule(lease.TokenBucket)
		c.Policies[0].Rule.Refill.Tokens, c.Policies[0].Rule.Capacity = 3, 10
		journals(c, holder.JournalOff)
	},
	// Policies change over budgets that are mostly idle, and leave memory.
	"policies": func(c *simulations.Config) {
		*c = simulations.Config{
			Seed: c.Seed, Brokers: 1, Policies: c.Policies[:1], Journals: c.Journals[:1],
			Chaos: 4 * time.Minute, Think: 3 * time.Second, IdleAfter: 200 * time.Millisecond,
			Faults: simulations.Faults{ChangePolicy: true, ForgetIdle: true},
		}
		c.Rule(lease.TokenBucket)
	},
	// Ownership moves on and on, and owners notice late.
	"fail-overs": func(c *simulations.Config) {
		c.Brokers = 3
		c.Faults.LoseSession, c.Faults.PauseBroker, c.Faults.CrashBroker = true, true, true
	},
	// Owners are replaced and notice late, and many requests still reach them.
	"stale-owners": func(c *simulations.Config) {
		c.Brokers, c.Shards, c.Think = 3, 1, 100*time.Millisecond
		c.Faults = simulations.Faults{LoseSession: true, Astray: 50, Slow: 10}
		journals(c, holder.JournalOff)
	},
	// Policies change over budgets that are used once in a while.
	"forgotten-policies": func(c *simulations.Config) {
		*c = simulations.Config{
			Seed: c.Seed, Brokers: 1, Policies: c.Policies[:1], Journals: c.Journals[:1],
			Chaos: 5 * time.Minute, Think: 12 * time.Second, IdleAfter: 200 * time.Millisecond,
			Faults: simulations.Faults{ChangePolicy: true, ForgetIdle: true},
		}
		c.Rule(lease.TokenBucket)
	},
	// Starts of a holder follow each other, and registrations arrive late.
	"late-registrations": func(c *simulations.Config) {
		c.Faults.Crash, c.Faults.Rival = true, true
		c.Faults.Slow, c.Faults.Late, c.Faults.Duplicate = 30, 10, 30
	},
	// Rolling windows, over a network that loses and delays.
	"windows": func(c *simulations.Config) {
		c.Rule(lease.RollingWindow)
		c.Faults = simulations.Faults{Loss: 10, Slow: 20, Duplicate: 10}
		greedy(c)
	},
	// Large windows that are spent one by one, all the time.
	"busy-windows": func(c *simulations.Config) {
		c.Rule(lease.RollingWindow)
		c.Faults = simulations.Faults{}
		c.Policies, c.Think, c.SyncInterval = c.Policies[:1], 30*time.Millisecond, 60*time.Millisecond
		c.Policies[0].Rule.Capacity, c.Policies[0].Rule.Window = 60, 4*time.Second
		greedy(c)
	},
	// Processes die with credit of windows, which is attested at once.
	"attested-windows": func(c *simulations.Config) {
		c.Rule(lease.RollingWindow, lease.FixedWindow)
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 3, Attest: true}
		journals(c, holder.JournalOff)
		greedy(c)
	},
	// Windows get longer and shorter, larger and smaller.
	"window-policies": func(c *simulations.Config) {
		c.Rule(lease.RollingWindow)
		c.Faults = simulations.Faults{ChangePolicy: true, ForgetIdle: true}
		greedy(c)
	},
	// Fixed windows, with owners whose clocks differ, step, and take turns.
	"stepping-clocks": func(c *simulations.Config) {
		c.Rule(lease.FixedWindow)
		c.Brokers = 3
		c.Faults = simulations.Faults{StepWall: true, Skew: 2 * time.Minute, LoseSession: true, CrashBroker: true, Slow: 10}
		greedy(c)
	},
	// Likewise, with budgets that are used once in a while, and leave memory.
	"idle-calendars": func(c *simulations.Config) {
		c.Rule(lease.FixedWindow)
		c.Brokers = 3
		c.Faults = simulations.Faults{StepWall: true, Skew: 2 * time.Minute, LoseSession: true, ForgetIdle: true}
		c.Think, c.IdleAfter = 2*time.Second, 200*time.Millisecond
		for i := range c.Policies {
			c.Policies[i].Rule.Period, c.Policies[i].Rule.Zone = lease.Minute, "UTC"
		}
	},
	// The period and the time zone of fixed windows change.
	"calendars": func(c *simulations.Config) {
		c.Rule(lease.FixedWindow)
		c.Faults = simulations.Faults{ChangePolicy: true, Skew: 5 * time.Second}
		greedy(c)
	},
	// Rules change to those of other kinds.
	"kinds": func(c *simulations.Config) {
		c.Rule(lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency)
		c.Faults = simulations.Faults{ChangePolicy: true, Slow: 10}
		greedy(c)
	},
	// Windows are used once in a while, and leave memory.
	"idle-windows": func(c *simulations.Config) {
		c.Rule(lease.RollingWindow)
		c.Faults = simulations.Faults{ForgetIdle: true}
		c.Think, c.IdleAfter = 2*time.Second, 200*time.Millisecond
	},
	// Processes crash between any two steps while their work goes on.
	"slots": func(c *simulations.Config) {
		c.Rule(lease.Concurrency)
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 2, Loss: 5, Slow: 20, Rival: c.Seed%2 == 0}
		c.Work = 3 * time.Second
		journals(c, holder.JournalBlock)
	},
	// Processes crash while their work goes on, and an operator attests what he can.
	"attested-slots": func(c *simulations.Config) {
		c.Rule(lease.Concurrency)
		c.Faults = simulations.Faults{Crash: true, CrashPoint: 2, Attest: true}
		c.Work = 5 * time.Second
		journals(c, holder.JournalOff)
	},
	// Processes stop in order, and are replaced, while their work goes on.
	"stopped-slots": func(c *simulations.Config) {
		c.Rule(lease.Concurrency)
		c.Faults = simulations.Faults{Stop: true, Rival: true, Slow: 10}
		c.Work = 5 * time.Second
	},
	// As stopped-slots, and older copies of journals come back, which are to be
	// recognised.
	"kept-slots": func(c *simulations.Config) {
		c.Rule(lease.Concurrency)
		c.Faults = simulations.Faults{Stop: true, Crash: true, OldDisk: 90, CrashPoint: 1}
		c.Work = 5 * time.Second
		journals(c, holder.JournalConfirm)
	},
	// Work takes longer than the time that it has.
	"long-work": func(c *simulations.Config) {
		c.Rule(lease.Concurrency)
		c.Faults = simulations.Faults{Slow: 10}
		c.Work = 4 * time.Second
		for i := range c.Policies {
			c.Policies[i].Hold = 1500 * time.Millisecond
		}
	},
	// Rules change to those of other kinds while something is held.
	"kinds-over-holds": func(c *simulations.Config) {
		c.Rule(lease.TokenBucket, lease.Concurrency)
		c.Faults = simulations.Faults{ChangePolicy: true}
		c.Reserve, c.Work, c.Think = 70, 4*time.Second, 60*time.Millisecond
	},
	// Processes sleep, stand still and are cut off for longer than they may spend what
	// they have.
	"deadlines": deadlines,
	// As deadlines, and checks reserve.
	"deadlines-of-reservations": func(c *simulations.Config) {
		deadlines(c)
		c.Reserve, c.Work = 90, time.Second
	},
	// As deadlines, while owners take turns and leave what is idle.
	"deadlines-and-owners": func(c *simulations.Config) {
		deadlines(c)
		c.Brokers = 3
		c.Faults.LoseSession, c.Faults.CrashBroker, c.Faults.ForgetIdle, c.Faults.ChangePolicy = true, true, true, true
	},
	// As deadlines, which change, over a network that repeats and delays.
	"deadlines-and-policies": func(c *simulations.Config) {
		deadlines(c)
		c.Policies = c.Policies[:1]
		c.Faults.ChangePolicy, c.Faults.Duplicate, c.Faults.Slow, c.Faults.Late = true, 30, 20, 5
	},
	// Deadlines change, and most answers are lost, over budgets that are used once in a
	// while.
	"deadlines-that-are-not-heard-of": func(c *simulations.Config) {
		deadlines(c)
		c.Policies, c.Think, c.IdleAfter, c.Chaos = c.Policies[:1], 2*time.Second, time.Hour, 2*time.Minute
		c.Faults = simulations.Faults{Cut: true, ChangePolicy: true, Loss: 70}
		if c.Seed%3 == 1 { // some bounds are much longer than others
			c.Bounds = simulations.Bounds{Most: 20 * time.Second, Margin: 2 * time.Second}
			c.Policies[0].MaxStaleness, c.Policies[0].ReclaimMargin = c.Bounds.Most, c.Bounds.Margin
		}
		for i := range c.Greedy {
			c.Greedy[i] = false
		}
	},
	// Most checks reserve, and use some of it, over buckets and windows.
	"reservations": func(c *simulations.Config) {
		c.Rule(lease.TokenBucket, lease.RollingWindow)
		c.Faults = simulations.Faults{Loss: 5, Slow: 20}
		c.Reserve, c.Work = 80, 3*time.Second
	},
}

func deadlines(c *simulations.Config) {
	c.Rule(lease.TokenBucket, lease.RollingWindow)
	c.Bound()
	c.Faults = simulations.Faults{PauseHolder: true, Freeze: true, Cut: true, Stall: 10, StepWall: true, Skew: 2 * time.Minute}
	greedy(c)
}

func reopened(c *simulations.Config) {
	c.Rule(lease.TokenBucket)
	c.IdleAfter, c.SyncInterval, c.ListEvery = 150*time.Millisecond, 60*time.Millisecond, 300*time.Millisecond
	c.Think = 400 * time.Millisecond
	c.Faults = simulations.Faults{Slow: 40, Duplicate: 20, Loss: 5, Late: c.Faults.Late, ForgetIdle: c.Faults.ForgetIdle}
	greedy(c)
}

// greedy lets all sites spend what they have at once.
func greedy(c *simulations.Config) {
	for i := range c.Greedy {
		c.Greedy[i] = true
	}
}

// journals gives all sites one journal mode.
func journals(c *simulations.Config, mode holder.Journal) {
	for i := range c.Journals {
		c.Journals[i] = mode
	}
}
