package lease

import (
	"cmp"
	"slices"
)

// Fence is what a shard knows of one holder: which of its epochs are served, and
// how far their journals were told to have come.
//
// A grant is orphaned when its epoch is below MinEpoch: its holder epoch is gone
// and has not accounted for it. That is derived, never stored with the grant,
// since one fence can orphan a hundred thousand grants at once. Nothing about
// the credit changes by it: it stays reserved.
type Fence struct {
	Holder   Holder
	MinEpoch uint64 // epochs below are fenced
	Told     []Told // in order of epoch
}

// Told is the highest journal write counter that an epoch has told.
type Told struct {
	Epoch   uint64 `json:"epoch"`
	Counter uint64 `json:"counter"`
}

// Clone shares nothing with f.
func (f Fence) Clone() Fence {
	f.Told = slices.Clone(f.Told)
	return f
}

// Fences says that requests of the epoch are refused, except accounts of its
// own grants.
func (f *Fence) Fences(epoch uint64) bool { return epoch < f.MinEpoch }

// Raise fences all epochs below lowest, and says whether that is news. Epochs are
// never unfenced.
func (f *Fence) Raise(lowest uint64) bool {
	if lowest <= f.MinEpoch {
		return false
	}
	f.MinEpoch = lowest
	return true
}

// Counter is the highest counter that the epoch has told; 0 for none.
func (f *Fence) Counter(epoch uint64) uint64 {
	if at, found := f.find(epoch); found {
		return f.Told[at].Counter
	}
	return 0
}

// Tell records a counter, merged by max, and says whether that is news.
func (f *Fence) Tell(epoch, counter uint64) bool {
	if counter <= f.Counter(epoch) {
		return false
	}
	at, found := f.find(epoch)
	if !found {
		f.Told = slices.Insert(f.Told, at, Told{Epoch: epoch})
	}
	f.Told[at].Counter = counter
	return true
}

// Forget drops the counter of an epoch that has no grants left and can get no
// more: it is fenced.
func (f *Fence) Forget(epoch uint64) bool {
	at, found := f.find(epoch)
	if !found || !f.Fences(epoch) {
		return false
	}
	f.Told = slices.Delete(f.Told, at, at+1)
	return true
}

func (f *Fence) find(epoch uint64) (at int, found bool) {
	return slices.BinarySearchFunc(f.Told, epoch, func(t Told, epoch uint64) int { return cmp.Compare(t.Epoch, epoch) })
}
