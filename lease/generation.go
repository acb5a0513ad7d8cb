package lease

import "math"

// A store that was restored from an older copy has lost grants, closes, returns,
// epochs and time, so what it says of any of them may be wrong. The declaration
// of a restore starts a new generation: epochs and grant IDs of it are told from
// all earlier ones by their numbers alone, and every budget begins anew, with its
// earlier life reserved as one grant of unknown credit (contract C6).

// epochBits is how many epochs, as a power of two, a holder has in a generation.
const epochBits = 32

// EpochFloor is below every epoch of the generation, the first of which is 1
// above it, and above every epoch of the generations before.
func EpochFloor(generation uint32) uint64 {
	if generation <= 1 {
		return 0
	}
	return uint64(generation-1) << epochBits
}

// EpochCeiling is the last epoch of the generation.
func EpochCeiling(generation uint32) uint64 {
	return EpochFloor(generation) + math.MaxUint32
}

// GenerationOf is the generation that the epoch is of.
func GenerationOf(epoch uint64) uint32 { return uint32(epoch>>epochBits) + 1 }

// UnknownHolder holds what is unknown of a budget since a restore was declared.
// No limiter can have these names: they are not of the letters that names are
// made of.
var UnknownHolder = Holder{Region: "(unknown)", Instance: "(before-the-restore)"}

// NewUnknown is a budget whose earlier life is unknown: nothing is available, and
// the capacity is reserved under one grant, of sequence 0, which no other grant
// has. There is no room, so nothing is refilled either.
func NewUnknown(key Key, rule Rule, now Time, generation, shard uint32) Ledger {
	return Ledger{Key: key, Rule: rule, Updated: now, Grants: []Grant{{
		ID:     GrantID{Generation: generation, Shard: shard},
		Holder: UnknownHolder, Epoch: max(1, EpochFloor(generation)), Issued: rule.Capacity, Opened: now,
	}}}
}

// NewSpent is a budget whose earlier life is over and counts as spent at now:
// NewUnknown after its attestation. It has what refill earns, or what windows let
// go, from now on. Slots are free: their work has ended.
//
// The history that was lost may have had a larger limit than the copy, and spent all
// of that. So in a window as much counts as any limit can be: a limit that is raised
// before it has ended finds nothing free.
func NewSpent(key Key, rule Rule, now Time) Ledger {
	l := Ledger{Key: key, Updated: now}
	l.convert(rule)
	l.settle(MaxCapacity - rule.Capacity)
	l.clamp()
	return l
}
