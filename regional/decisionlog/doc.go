// Package decisionlog writes a limiter's decisions to a file, one JSON object a line,
// and reads such files.
//
// # It never stands in the way
//
// A decision hands its entry over through a bounded buffer and goes on. Where the
// buffer is full, since the disk is slow, or the disk refuses, since it is full,
// entries are lost: they are counted, and the log itself says how many as soon as it
// can be written again. No decision waits for the log, and none depends on it.
//
// # What a log tells of itself
//
// Every line names the log that it is of: one start of one limiter. Decisions are
// numbered within it, from 1 on without a gap, so a reader sees what is missing. A log
// of which only a sample is written says so in every line.
//
// # Files
//
// A file that would grow beyond its bound is renamed with ".1" behind its name, in
// place of the one before it. A limiter that starts again goes on behind what is
// there.
//
// # Units
//
// Costs are whole tokens. Time is that of the limiter's wall clock, in nanoseconds,
// when the entry was made: right after the decision. "took" is how long before that
// the decision began at the earliest to take what it took, by the monotonic clock.
package decisionlog
