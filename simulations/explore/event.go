package explore

import (
	"slices"

	"github.com/tokenlease/tokenlease/lease"
)

// kind is a kind of event.
type kind uint8

const (
	checks       kind = iota // a check arrives at a process
	wakes                    // a process does what time has made due
	hinted                   // a hint arrives
	stops                    // a process is asked to stop
	answered                 // an answer arrives
	givesUp                  // a process waits no more for an answer
	written                  // a journal write is durable, and the process learns of it
	writeFails               // the process hears that the write failed
	crashes                  // a process ends as it is, and another starts
	rivals                   // another process starts on another disk
	serves                   // an owner takes a request
	alone                    // an owner does what time has made due
	attests                  // an operator resolves a grant
	hearsPolicy              // an owner reads the policies
	writesPolicy             // another version of the policy is written
	appliesLate              // a transaction reaches the store late
	failsOver                // the ownership goes to another broker
	ticks                    // time moves on
	starts                   // a start is registered

	kinds
)

// event is something that can happen in a state.
type event struct {
	kind    kind
	slot    uint8 // of the process
	n       uint8 // the owner, or the region
	fate    Fate
	durable bool // crashes, writeFails: the journal write on its way is on disk
	disk    int8 // crashes: 0 the same disk, -1 a fresh one, n the n-th older copy
	cost    int64
	id      uint64
	grant   lease.GrantID
	message *message
	late    *lateTxn
}

// events calls do with each event that can happen in the state, in a fixed order.
func (x *explorer) events(s *state, do func(event)) {
	x.processEvents(s, do)
	x.messageEvents(s, do)
	x.brokerEvents(s, do)
	for region := range regions {
		x.startEvents(s, region, do)
	}
	if int(s.used.ticks)+max(1, x.scope.Stride) <= x.scope.Ticks {
		do(event{kind: ticks})
	}
}

func (x *explorer) processEvents(s *state, do func(event)) {
	sc := &x.scope
	for i, p := range s.procs {
		if p == nil {
			continue
		}
		slot, region := uint8(i), regionOf(uint8(i))
		if int(s.used.checks[i]) < sc.Checks[region] {
			for _, cost := range sc.Costs {
				do(event{kind: checks, slot: slot, cost: cost})
			}
		}
		if p.proc.wakeAt <= mono(s.used.ticks) {
			do(event{kind: wakes, slot: slot})
		}
		if int(s.used.hints) < sc.Hints {
			do(event{kind: hinted, slot: slot})
		}
		if int(s.used.stops) < sc.Stops {
			do(event{kind: stops, slot: slot})
		}
		if int(s.used.giveUps) < sc.GiveUps {
			for _, id := range p.proc.open {
				if id <= uint64(sc.Requests[region]) {
					do(event{kind: givesUp, slot: slot, id: id})
				}
			}
		}
		if p.proc.writing != nil {
			do(event{kind: written, slot: slot})
			if int(s.used.badDisks) < sc.BadDisks {
				do(event{kind: writeFails, slot: slot})
				do(event{kind: writeFails, slot: slot, durable: true})
			}
		}
	}
}

func (x *explorer) messageEvents(s *state, do func(event)) {
	for _, m := range s.pool.all {
		if m.resp != nil {
			if s.procs[m.slot] != nil {
				do(event{kind: answered, slot: m.slot, id: m.id, message: m})
			}
			continue
		}
		for n, o := range s.owners {
			if o == nil {
				continue
			}
			do(event{kind: serves, n: uint8(n), slot: m.slot, message: m})
			if int(s.used.doubts) < x.scope.Doubts {
				for _, fate := range x.fates {
					do(event{kind: serves, n: uint8(n), slot: m.slot, message: m, fate: fate})
				}
			}
		}
	}
	for _, late := range s.late.all {
		do(event{kind: appliesLate, late: late})
	}
}

func (x *explorer) brokerEvents(s *state, do func(event)) {
	for n, o := range s.owners {
		if o == nil {
			continue
		}
		if due, ok := o.sh.WakeAt(); x.scope.Alone && ok && due <= mono(s.used.ticks) {
			do(event{kind: alone, n: uint8(n)})
		}
		if s.used.versions > 1 {
			do(event{kind: hearsPolicy, n: uint8(n)})
		}
		if int(s.used.attests) < x.scope.Attests && s.store.kept.ledger != nil {
			for _, g := range s.store.kept.ledger.Grants {
				region := int(g.Holder.Region[0] - 'a')
				if s.procs[slotOf(region, g.Epoch)] == nil {
					do(event{kind: attests, n: uint8(n), grant: g.ID})
				}
			}
		}
	}
	if int(s.used.owners) <= x.scope.FailOvers {
		do(event{kind: failsOver, n: s.used.owners})
	}
	if int(s.used.versions) <= len(x.scope.Capacities) {
		do(event{kind: writesPolicy})
	}
}

// startEvents are the further starts of a region's limiter.
func (x *explorer) startEvents(s *state, region int, do func(event)) {
	n := s.used.starts[region]
	if n == 0 || int(n) >= x.scope.Starts[region] {
		return
	}
	slot := slotOf(region, uint64(n))
	p, d := s.procs[slot], s.disks[slot]
	if x.scope.Rivals && p != nil {
		do(event{kind: rivals, slot: slot, n: uint8(region)})
	}
	if !x.scope.Crashes {
		return
	}
	outcomes := []bool{false}
	if p != nil && p.proc.writing != nil {
		outcomes = []bool{false, true}
	}
	for _, durable := range outcomes {
		do(event{kind: crashes, slot: slot, n: uint8(region), durable: durable})
		if d == nil {
			continue
		}
		if x.scope.Fresh {
			do(event{kind: crashes, slot: slot, n: uint8(region), durable: durable, disk: -1})
		}
		for i := range d.disk.older {
			do(event{kind: crashes, slot: slot, n: uint8(region), durable: durable, disk: int8(i + 1)})
		}
	}
}

// happen is the state after the event; ok is false for one that cannot happen
// after all. fail says what it broke.
func (x *explorer) happen(before *state, e event) (s state, ok bool, fail string) {
	s = *before
	switch e.kind {
	case checks, wakes, hinted, stops, answered, givesUp, written, writeFails:
		fail = x.processDoes(&s, e)
	case crashes, rivals:
		fail = x.restarts(&s, e)
	case serves, alone, attests, hearsPolicy:
		ok, fail = x.ownerDoes(&s, e)
		if !ok {
			return s, false, ""
		}
	case appliesLate, failsOver, writesPolicy:
		fail = x.storeChanges(&s, e)
	case ticks:
		s.used.ticks += uint8(max(1, x.scope.Stride))
	case starts, kinds:
		panic("explore: starts are part of other events")
	}
	if fail == "" {
		fail = x.check(&s)
	}
	if !x.scope.Repeats {
		x.dropOld(&s)
	}
	return s, true, fail
}

func (x *explorer) processDoes(s *state, e event) (fail string) {
	in := procInput{kind: e.kind, now: s.used.ticks, cost: e.cost, id: e.id, answer: e.message}
	p := s.procs[e.slot]
	switch e.kind {
	case checks:
		s.used.checks[e.slot]++
	case hinted:
		s.used.hints++
	case stops:
		s.used.stops++
	case givesUp:
		s.used.giveUps++
	case written:
		in.counter = x.write(s, e.slot)
	case writeFails:
		s.used.badDisks++
		if e.durable {
			x.write(s, e.slot)
		}
	}
	return x.became(s, e.slot, x.happens(p, in))
}

// write makes the journal write on its way durable.
func (x *explorer) write(s *state, slot uint8) (counter uint64) {
	p := s.procs[slot].proc
	d, counter := s.disks[slot].disk.write(p.epoch, p.writing, x.scope.Copies)
	s.disks[slot] = x.diskPart(d)
	return counter
}

// restarts ends the process of the slot, unless its rival leaves it alive, and
// starts the region's next.
func (x *explorer) restarts(s *state, e event) (fail string) {
	var d *disk
	if e.kind == crashes {
		if e.durable {
			x.write(s, e.slot)
		}
		if s.disks[e.slot] != nil && e.disk >= 0 {
			d = s.disks[e.slot].disk
			if e.disk > 0 {
				d = d.older[e.disk-1]
			}
		}
		s.procs[e.slot], s.disks[e.slot] = nil, nil
	}
	return x.begin(s, int(e.n), d)
}

func (x *explorer) ownerDoes(s *state, e event) (ok bool, fail string) {
	r := x.serves(s.owners[e.n], ownerInput{kind: e.kind, now: s.used.ticks, store: s.store, request: e.message, grant: e.grant, fate: e.fate})
	if e.fate != Applied {
		if !r.fated {
			return false, ""
		}
		s.used.doubts++
	}
	if e.kind == attests {
		s.used.attests++
	}
	s.owners[e.n] = r.next
	x.changed(s, r.store)
	if r.late != nil {
		s.late = s.late.with(&x.late, r.late)
	}
	if r.answer != nil {
		x.arrive(s, r.answer)
	}
	return true, r.fail
}

// arrive puts an answer on the network, if there is room for it.
func (x *explorer) arrive(s *state, answer *message) {
	n := 0
	for _, m := range s.pool.all {
		if m == answer {
			return
		}
		if m.resp != nil {
			n++
		}
	}
	if n < x.scope.Answers {
		s.pool = s.pool.with(&x.pools, answer)
	}
}

// dropOld drops the answers that nobody waits for.
func (x *explorer) dropOld(s *state) {
	for _, m := range s.pool.all {
		if m.resp != nil && (s.procs[m.slot] == nil || !slices.Contains(s.procs[m.slot].proc.open, m.id)) {
			s.pool = s.pool.without(&x.pools, m)
		}
	}
}

func (x *explorer) storeChanges(s *state, e event) (fail string) {
	in := storeInput{kind: e.kind, now: s.used.ticks, late: e.late}
	switch e.kind {
	case failsOver:
		in.arg = int(e.n)
		s.used.owners++
	case writesPolicy:
		s.used.versions++
		in.arg = int(s.used.versions)
		s.judge = x.judged(s.judge, judgeInput{now: s.used.ticks, version: in.arg}).next
	}
	r := x.befalls(s.store, in)
	if e.kind == failsOver {
		s.owners[e.n] = r.owner
	}
	x.changed(s, r.next)
	return r.fail
}
