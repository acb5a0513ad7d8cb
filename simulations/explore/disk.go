package explore

import (
	"slices"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// disk is what a journal holds. Values are never changed: each write makes
// another.
type disk struct {
	last   uint64 // the newest epoch that was begun on it
	epochs []diskEpoch
	older  []*disk // as it stood before each write, oldest first; kept where the scope restores copies
}

// diskEpoch is what the journal has of one epoch.
type diskEpoch struct {
	epoch, counter uint64
	drawn          []holder.Draw
}

// next is a copy to change. With keep, the state before stays to be restored.
func (d *disk) next(keep bool) *disk {
	n := &disk{last: d.last, epochs: slices.Clone(d.epochs)}
	for i := range n.epochs {
		n.epochs[i].drawn = slices.Clone(n.epochs[i].drawn)
	}
	if keep {
		n.older = append(slices.Clone(d.older), &disk{last: d.last, epochs: d.epochs})
	}
	return n
}

// begin records the start of an epoch, before its first draw.
func (d *disk) begin(epoch uint64, keep bool) *disk {
	n := d.next(keep && len(d.epochs) > 0)
	n.last = max(n.last, epoch)
	n.epochs = append(n.epochs, diskEpoch{epoch: epoch, counter: 1})
	return n
}

// write raises drawn figures and forgets grants; counter is the new one.
func (d *disk) write(epoch uint64, w *holder.JournalWrite, keep bool) (n *disk, counter uint64) {
	n = d.next(keep)
	at := slices.IndexFunc(n.epochs, func(e diskEpoch) bool { return e.epoch == epoch })
	if at < 0 {
		return d, 0 // finished: the real journal refuses
	}
	e := &n.epochs[at]
	e.counter++
	for _, draw := range w.Draws {
		i := slices.IndexFunc(e.drawn, func(o holder.Draw) bool { return o.GrantID == draw.GrantID })
		if i < 0 {
			e.drawn = append(e.drawn, draw)
		} else {
			e.drawn[i].Tokens = max(e.drawn[i].Tokens, draw.Tokens)
		}
	}
	e.drawn = slices.DeleteFunc(e.drawn, func(o holder.Draw) bool { return slices.Contains(w.Forget, o.GrantID) })
	return n, e.counter
}

// finish drops the epochs whose accounts are confirmed.
func (d *disk) finish(epochs []uint64, keep bool) *disk {
	n := d.next(keep)
	n.epochs = slices.DeleteFunc(n.epochs, func(e diskEpoch) bool { return slices.Contains(epochs, e.epoch) })
	return n
}

// past is what the journal proves.
func (d *disk) past() []holder.PastEpoch {
	var past []holder.PastEpoch
	for _, e := range d.epochs {
		past = append(past, holder.PastEpoch{Epoch: e.epoch, Counter: e.counter, Drawn: slices.Clone(e.drawn)})
	}
	return past
}
