// Package judge decides whether what was admitted of a budget conforms to its
// policy. It knows nothing of how the budget is shared.
//
// # What each kind of rule allows
//
// A bucket: in any interval of length T at most B + R*T. A rolling window: at most L
// in every interval (t-W, t]. A fixed window: at most L in each period, where a
// period lasts until the ledger of record has turned to the next one: what a region
// spends before that belongs to the period before. Slots: at no moment more than L
// held by work that has not ended, wherever it was started and whatever has become
// of its process.
//
// # When the policy changes
//
// A version is in force from when it is written, and binds once the ledger has it
// and no more than its capacity is out; until then the versions before are the
// guarantee (contract C8). So there is one bound for each run of versions, from one
// that binds to the newest, and all of them hold. Within a run the highest limit
// counts that was in force in the interval; the refill is at each moment the highest
// so far, and the window the shortest so far. A longer window therefore holds for
// windows that begin after it binds.
//
// Another period, or another time zone, takes over what the period before has
// admitted.
//
// # When the kind changes
//
// Another kind starts as if all that is not out had been spent at that moment. What
// is out at most is what the rule before would still have let be admitted at once.
// So a run goes on with a bound of the new kind that lacks all but that. Slots are
// given out anew, and may all be out when the kind changes once more.
//
// # What is let off
//
// When the refill's interval changes, what is below a nanosecond's refill. After a
// restore, intervals that span both it and a change of kind or of the calendar.
package judge
