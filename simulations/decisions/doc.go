// Package decisions judges the decision logs of all regions together: whether what
// they admitted of each budget conforms to its policy. It is exact where the logs are,
// and where they are not it accuses nobody: what it reports as a violation is one,
// whatever the logs leave open.
//
// # What is judged
//
// Each budget (account and operation) by itself, by package judge: a bucket, a rolling
// window, a fixed window or slots. An admission counts at the moment of its line,
// which is right after its credit was taken. A reservation of tokens counts when it is
// settled, by what its work has cost: until then its tokens are out, and neither spent
// nor free. One whose time ran out unsettled counts for nothing. Slots count from
// their line until they are settled, or their time is over.
//
// What was admitted beside the credit is counted apart, and is no violation: shadow
// mode, local allowances, and debt of a postpaid policy.
//
// # Clocks
//
// Lines are put in order by the wall clocks of their limiters. Each may be off by as
// much as Options.MaxClockError, and an admission was made up to its "took" before its
// line was. So two lines are apart by as much as they say, give or take twice the error
// and the longest that any took for that budget: the slack. A bucket may have refilled
// for so much longer, a window be so much shorter, a boundary between periods be that
// far off, and slots have been free that much earlier. A violation is reported only if
// it is one in spite of the slack.
//
// # Policies that change
//
// A version may have been in force since it was applied, by the broker's clock, or
// since its first line, whichever is earlier; until its first line the versions before
// may have been, too. So between the two the more generous of both counts. A version
// with less capacity binds once the log proves that no more than that can be out any
// more. Fewer slots never bind by a log: it does not tell which are out. A change of
// kind, of period or of time zone starts anew, with the higher of both limits.
//
// What was out of an earlier version when the logs begin is not known: begin them
// before a capacity is lowered.
//
// # What is missing
//
// Whatever is missing can only hide a violation, and never make one. A log that is
// sampled, or lacks lines, cannot be proven clean: [Report.Complete] says which it is.
// Whether a limiter is missing altogether nobody can tell: compare [Report.Logs] with
// the limiters that ran.
//
// # Memory
//
// Logs are read as streams, in any order, with lines in any order and repeated. What
// does not fit is sorted in temporary files. Memory grows with budgets, policy versions
// and open reservations, and of rolling windows with what they have admitted; not with
// lines.
package decisions
