// Package turns keeps those that wait for one budget in line.
//
// Each key has a line of its own, which exists while somebody stands in it. Only
// the first of a line may try to spend; whoever leaves makes room for the next,
// whether it was served or has given up.
//
// # Order
//
// Within a priority, first come, first served. High goes before normal, and takes
// the first place from a normal one that stands there. While both wait, after
// [Floor]-1 high ones that were served it is the turn of a normal one, which then
// keeps the first place until one of them was served. So normal gets one turn in
// [Floor] at least.
//
// # Concurrency
//
// [Lines] may be used concurrently. A [Turn] belongs to one goroutine.
package turns
