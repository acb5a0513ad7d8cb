// Package measure has what simulated runs are measured by, the same for all
// strategies: a [Recorder] is told what happens, and makes a [Result] of it, and
// [Check] holds results against what a scenario expects.
//
// Times are since the scenario began. Spans of time are half open: what happens at
// their end is outside. A balance at a moment is that just before what happens at
// it, and is taken exactly where an expectation asks for it; a series has it at the
// ends of its bins.
//
// A Recorder belongs to one run and one goroutine. Results are read by anyone once
// they are made.
package measure
