// Package replay remembers what was decided under an ID, so that the same request,
// sent again, gets the same answer instead of a second decision.
//
// # What is promised
//
// Within the horizon, a request of the same key and the same payload gets the value
// that was recorded; with another payload it is a conflict. One that arrives while
// the first is still being decided waits for it.
//
// # What is not
//
// Memory is bounded: when the table is full, the oldest record is forgotten before
// its horizon, and counted. Nothing survives the process. An ID that is forgotten
// is decided anew, and spends again. So a repetition may count twice, and never not
// at all.
//
// # Units and concurrency
//
// Times are monotonic, from any origin. A [Table] may be used concurrently.
package replay
