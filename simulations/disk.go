package simulations

import (
	"errors"
	"slices"

	"github.com/tokenlease/tokenlease/regional/holder"
)

var errDisk = errors.New("simulations: the journal could not be written")

// disk is a journal file: what it holds survives crashes.
type disk struct {
	id     int
	last   uint64 // the newest epoch that was begun on it
	epochs []diskEpoch
	lock   *process // who has it open
	copies []disk   // as it stood after each write, newest last
}

// diskEpoch is what the journal has of one epoch.
type diskEpoch struct {
	epoch, counter uint64
	drawn          []holder.Draw
}

// maxCopies is how many older states of a disk are kept.
const maxCopies = 20

func (w *World) newDisk() *disk {
	w.disks++
	return &disk{id: w.disks}
}

func (e diskEpoch) clone() diskEpoch {
	e.drawn = slices.Clone(e.drawn)
	return e
}

// state is a copy of what the disk holds.
func (d *disk) state() disk {
	c := disk{id: d.id, last: d.last}
	for _, e := range d.epochs {
		c.epochs = append(c.epochs, e.clone())
	}
	return c
}

// wrote keeps the state that a write has left.
func (d *disk) wrote() {
	if len(d.copies) == maxCopies {
		d.copies = slices.Delete(d.copies, 0, 1)
	}
	d.copies = append(d.copies, d.state())
}

// begin records the start of an epoch, before its first draw.
func (d *disk) begin(epoch uint64) {
	d.last = max(d.last, epoch)
	d.epochs = append(d.epochs, diskEpoch{epoch: epoch, counter: 1})
	d.wrote()
}

// write raises drawn figures and forgets grants, and is the new counter.
func (d *disk) write(epoch uint64, write *holder.JournalWrite) uint64 {
	at := slices.IndexFunc(d.epochs, func(e diskEpoch) bool { return e.epoch == epoch })
	if at < 0 {
		return 0 // finished: the real journal refuses
	}
	e := &d.epochs[at]
	e.counter++
	for _, draw := range write.Draws {
		i := slices.IndexFunc(e.drawn, func(o holder.Draw) bool { return o.GrantID == draw.GrantID })
		if i < 0 {
			e.drawn = append(e.drawn, draw)
		} else {
			e.drawn[i].Tokens = max(e.drawn[i].Tokens, draw.Tokens)
		}
	}
	e.drawn = slices.DeleteFunc(e.drawn, func(o holder.Draw) bool { return slices.Contains(write.Forget, o.GrantID) })
	d.wrote()
	return e.counter
}

// finish drops an epoch whose account is confirmed.
func (d *disk) finish(epoch uint64) {
	d.epochs = slices.DeleteFunc(d.epochs, func(e diskEpoch) bool { return e.epoch == epoch })
	d.wrote()
}

// past is what the journal proves.
func (d *disk) past() []holder.PastEpoch {
	var past []holder.PastEpoch
	for _, e := range d.epochs {
		past = append(past, holder.PastEpoch{Epoch: e.epoch, Counter: e.counter, Drawn: slices.Clone(e.drawn)})
	}
	return past
}

// older is an earlier state of the disk, as a disk of its own.
func (w *World) older(d *disk) *disk {
	if len(d.copies) == 0 {
		return d
	}
	c := d.copies[w.rng.IntN(len(d.copies))].state()
	return &c
}
