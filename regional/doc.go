// Package regional is the limiter of one region: it answers checks from the
// credit that it holds, at memory speed, and keeps itself supplied by the broker.
//
// # Use
//
//	limiter, err := regional.New(regional.Config{Region: "eu", Instance: "gw-1", Brokers: urls, JournalDir: dir})
//	go limiter.Run(ctx)              // registers, syncs, and on the end of ctx hands credit back
//	budget := limiter.Budget("acme", "report.create")
//	answer := budget.Check(ctx)      // waits for a first grant if there is none yet
//	ok := budget.Allow()             // never waits
//	answer = budget.Wait(ctx, 5)     // waits for its turn
//
// [Limiter] is a [decision.Decider] and a [decision.Reserver], for what a gateway
// asks: with decision IDs, over several budgets, of costs that are not known yet.
//
// # Units
//
// Costs and limits are whole tokens. Durations are time.Duration. Retry times
// inside are points on the monotonic clock, so an answer that is replayed later
// tells the wait that is left then.
//
// # What an answer means
//
// Allowed: the cost was spent from a grant of this limiter's epoch. Exhausted:
// the broker has said that the budget is used up, for this cost, until the retry
// time. Unavailable: no safe authority answered; it never means permission.
// Overloaded: this process sheds checks to protect itself. A denial has spent
// nothing. See the reasons of the protocol for the others.
//
// Two policies admit more than their rule, and their answers say so by NotStrict
// beside the reason: one in shadow mode admits what it would deny as exhausted, above
// the capacity or unavailable, and does not make anybody wait for a turn; one with a
// local allowance admits that much, as fallback, of a budget of which no authority is
// reached: syncs have failed, or a check has waited for Config.FirstGrantWait without
// any word of the broker. The allowance is one bucket over all outages: what one has
// used of it comes back by its refill alone, so one without refill is used once. (A
// limiter that is not registered, stops or is fenced has none, nor has a budget whose
// policy is not known here. One that nobody uses for Config.IdleAfter leaves memory,
// and its policy and allowance with it, unless a handle keeps it.) Postpaid is the
// third: a settlement may be above its reservation, up to the policy's max-cost or
// without one what the rule can ever admit, and leaves a debt. It is reported at once,
// and the broker collects it before it hands out more of the budget to any region. A
// crash before the report loses it.
//
// # Decision IDs
//
// For Config.ReplayFor, a request of the same ID, account and operation gets the
// answer that was recorded, or waits for it while it is being decided; with other
// costs or budgets it is invalid. Recorded is what was spent, also if the caller was
// gone by then, and that a budget was used up. What else was answered has spent
// nothing and may have passed when the caller asks again, so it is decided anew.
//
// A reservation is told again while it is open. Once it was settled or its time is
// over, the same ID is invalid: nothing is held for it any more.
//
// The record is bounded and in memory: an ID that was forgotten early, that was
// recorded by another limiter, or by this one before it crashed, is decided anew and
// spends again. An admission is never counted as none.
//
// # Several budgets
//
// All are spent or none, by holds that are given back: see the type several for why
// that cannot over-admit. The reason of the answer is the gravest of its parts, and
// its wait the longest.
//
// # Waiting
//
// There are two waits. For the broker's word a check waits at most
// Config.FirstGrantWait. For its turn it waits as long as the request lets it, in a
// line of its key: first come, first served, high priority before normal, which keeps
// one turn in eight. Only the first in line tries. What does not wait stands in no
// line, and may take credit that one in line waits for. Both waits are bounded in
// number, and end with the caller's context.
//
// # Reservations
//
// What is reserved is neither spent nor free until it is settled, at any cost up to
// the bound. What is not settled in the policy's hold time counts as spent; slots are
// released then. Reservations are known to the limiter that made them alone. After a
// crash what they held is as any credit of a crash: the journal counts drawn credit
// as spent, and slots in use stay reserved until it is attested that the work has
// ended.
//
// # Concurrency
//
// All methods of [Limiter], [Budget] and reservations may be called concurrently, by
// any number of goroutines; [Limiter.Run] is called once.
//
// Package holder has the protocol and the argument why the hot path cannot
// over-admit, package journal what a crash leaves behind, package replay the record
// of decisions, package turns the order in line.
package regional
