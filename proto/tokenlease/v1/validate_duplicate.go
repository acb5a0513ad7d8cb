package tokenleasev1

import "hash/maphash"

// duplicateSlots is a power of two and at least twice MaxSyncBudgets, so that
// chains in the table below stay short.
const duplicateSlots = 2048

// duplicateKey finds two reports of one key. The caller has checked that there
// are at most MaxSyncBudgets.
//
// It is a set with open addressing that lives on the stack: a map would be
// allocated for every request, and comparing all pairs takes half a million
// steps. The seed is new each time, so that no client can choose its keys to
// collide.
func duplicateKey(reports []*BudgetReport) (first, second int, found bool) {
	if len(reports) < 2 {
		return 0, 0, false
	}
	var slots [duplicateSlots]uint16 // index of a report plus 1, 0 for free
	seed := maphash.MakeSeed()
	for i, r := range reports {
		slot := hashKey(seed, r.GetKey())
		for ; slots[slot] != 0; slot = (slot + 1) % duplicateSlots {
			if j := int(slots[slot]) - 1; sameKey(reports[j].GetKey(), r.GetKey()) {
				return j, i, true
			}
		}
		slots[slot] = uint16(i + 1)
	}
	return 0, 0, false
}

// hashKey is where a key's chain begins.
func hashKey(seed maphash.Seed, key *BudgetKey) uint64 {
	// The factor keeps (a, b) and (b, a) apart.
	account := maphash.String(seed, key.GetAccount())
	return (account*31 + maphash.String(seed, key.GetOperation())) % duplicateSlots
}

// sameKey says whether two keys name one budget.
func sameKey(a, b *BudgetKey) bool {
	return a.GetAccount() == b.GetAccount() && a.GetOperation() == b.GetOperation()
}
