// Package regional is the limiter of one region: it answers checks from the
// credit that it holds, at memory speed, and keeps itself supplied by the broker.
//
// # Use
//
//	limiter, err := regional.New(regional.Config{Region: "eu", Instance: "gw-1", Brokers: urls, JournalDir: dir})
//	go limiter.Run(ctx)              // registers, syncs, and on the end of ctx hands credit back
//	budget := limiter.Budget("acme", "report.create")
//	decision := budget.Check(ctx)    // waits for a first grant if there is none yet
//	ok := budget.Allow()             // never waits
//
// # Units
//
// Costs and limits are whole tokens. Durations are time.Duration. Retry times
// inside are points on the monotonic clock, so a decision that is rendered later
// tells the wait that is left then.
//
// # What a decision means
//
// Allowed: the cost was spent from a grant of this limiter's epoch. Exhausted:
// the broker has said that the budget is used up, for this cost, until the retry
// time. Unavailable: no safe authority answered; it never means permission. A
// denial has spent nothing.
//
// # Concurrency
//
// [Limiter.Budget], [Limiter.Check] and the methods of [Budget] may be called
// concurrently, by any number of goroutines. [Limiter.Run] is called once.
//
// Package holder has the protocol and the argument why the hot path cannot
// over-admit, package journal what a crash leaves behind.
package regional
