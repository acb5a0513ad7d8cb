package lease_test

import (
	"slices"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
)

func TestFenceRaise(t *testing.T) {
	f := lease.Fence{Holder: eu}
	for _, tc := range []struct {
		min    uint64
		news   bool
		served []uint64 // of the epochs 0 to 5
	}{
		{0, false, []uint64{0, 1, 2, 3, 4, 5}},
		{3, true, []uint64{3, 4, 5}},
		{3, false, []uint64{3, 4, 5}},
		{1, false, []uint64{3, 4, 5}}, // never unfenced
		{5, true, []uint64{5}},
	} {
		if got := f.Raise(tc.min); got != tc.news {
			t.Errorf("raise to %d is news: %v", tc.min, got)
		}
		var served []uint64
		for epoch := range uint64(6) {
			if !f.Fences(epoch) {
				served = append(served, epoch)
			}
		}
		if !slices.Equal(served, tc.served) {
			t.Errorf("after a raise to %d epochs %v are served, want %v", tc.min, served, tc.served)
		}
	}
}

func TestFenceTell(t *testing.T) {
	f := lease.Fence{Holder: eu}
	for i, tc := range []struct {
		epoch, counter uint64
		news           bool
		told           []lease.Told
	}{
		{4, 0, false, nil},
		{4, 10, true, []lease.Told{{Epoch: 4, Counter: 10}}},
		{4, 10, false, []lease.Told{{Epoch: 4, Counter: 10}}},
		{4, 9, false, []lease.Told{{Epoch: 4, Counter: 10}}},
		{2, 7, true, []lease.Told{{Epoch: 2, Counter: 7}, {Epoch: 4, Counter: 10}}},
		{4, 11, true, []lease.Told{{Epoch: 2, Counter: 7}, {Epoch: 4, Counter: 11}}},
		{5, 1, true, []lease.Told{{Epoch: 2, Counter: 7}, {Epoch: 4, Counter: 11}, {Epoch: 5, Counter: 1}}},
	} {
		if got := f.Tell(tc.epoch, tc.counter); got != tc.news {
			t.Errorf("step %d: news is %v", i+1, got)
		}
		if !slices.Equal(f.Told, tc.told) {
			t.Errorf("step %d: told %v, want %v", i+1, f.Told, tc.told)
		}
		if got := f.Counter(tc.epoch); got < tc.counter {
			t.Errorf("step %d: counter %d is below %d", i+1, got, tc.counter)
		}
	}
	if got := f.Counter(3); got != 0 {
		t.Errorf("epoch 3 never told anything, and its counter is %d", got)
	}
}

func TestFenceForget(t *testing.T) {
	f := lease.Fence{Holder: eu, MinEpoch: 4, Told: []lease.Told{{Epoch: 2, Counter: 7}, {Epoch: 3, Counter: 8}, {Epoch: 4, Counter: 9}}}
	for i, tc := range []struct {
		epoch uint64
		news  bool
		left  []uint64
	}{
		{4, false, []uint64{2, 3, 4}}, // still served
		{1, false, []uint64{2, 3, 4}}, // never told
		{2, true, []uint64{3, 4}},
		{2, false, []uint64{3, 4}},
		{3, true, []uint64{4}},
	} {
		if got := f.Forget(tc.epoch); got != tc.news {
			t.Errorf("step %d: news is %v", i+1, got)
		}
		var left []uint64
		for _, told := range f.Told {
			left = append(left, told.Epoch)
		}
		if !slices.Equal(left, tc.left) {
			t.Errorf("step %d: %v left, want %v", i+1, left, tc.left)
		}
	}
}

func TestFenceCloneSharesNothing(t *testing.T) {
	f := lease.Fence{Holder: eu, MinEpoch: 2, Told: []lease.Told{{Epoch: 1, Counter: 5}, {Epoch: 2, Counter: 5}}}
	copied := f.Clone()
	f.Tell(2, 6)
	f.Forget(1)
	f.Raise(9)
	if copied.MinEpoch != 2 || copied.Counter(1) != 5 || copied.Counter(2) != 5 {
		t.Errorf("the copy changed too: %+v", copied)
	}
}
