// Package report tells people and programs what simulated runs measured: a
// summary for the terminal ([Text]), a document for programs ([JSON]) and one
// page to be read in a browser or printed ([HTML]).
//
// A [Run] is one scenario under several strategies. What it measured is in the
// words of package measure. All three outputs have the strategies in the order
// that the run has them in, and the same runs give the same bytes.
//
// What stands in a scenario's file may come from anyone. On a terminal it is
// quoted where it has what a terminal would obey, and on the page it is escaped.
//
// Nothing here reads a clock, and nothing is kept between calls: all functions
// may be called concurrently, also with the same runs.
package report
