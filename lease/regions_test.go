package lease_test

import "github.com/tokenlease/tokenlease/lease"

// fault is one way to break the protocol around the ledger.
type fault int

const (
	noFault          fault = iota
	clockRunsDouble        // ledger time is faster than real time
	gapIsCounted           // a new owner adds the time in which nobody was
	roomEarlier            // an account lets the time before it fill the room that it makes
	attestIsBurst          // attested credit becomes available at once
	silenceIsProof         // a crashed holder's credit counts as unspent
	drawnIsForgotten       // a journal tells of less than was drawn
	returnTooEarly         // a holder goes on spending what it said that it returned
	spendsAfterClose       // a holder goes on with a grant that it closed
	answersAddUp           // a holder adds what a repeated answer says
	staleAnswer            // a holder takes up a grant that it has closed
	faults
)

// regions is a budget with three holders which spend as greedily as they can, and
// a network that may lose, repeat, delay and reorder anything.
type regions struct {
	draw    func(n int) int // a number from 0 to n-1
	fault   fault
	ledger  lease.Ledger
	judge   *judge
	now     int64 // real time
	lag     int64 // how far ledger time is behind
	ids     uint64
	holders [3]region
	mail    []func() error // all messages ever sent: each may arrive at any time, any number of times
}

// region is one holder with its current epoch.
type region struct {
	holder          lease.Holder
	epoch           uint64
	id              lease.GrantID // of the grant in use; zero for none
	issued          int64         // as far as it was received
	spent, returned int64
	closed          map[lease.GrantID]bool
}

func newRegions(rule lease.Rule, f fault, draw func(n int) int) *regions {
	r := &regions{draw: draw, fault: f, ledger: newLedger(rule), judge: newJudge(rule)}
	for i, h := range []lease.Holder{eu, us, ap} {
		r.holders[i] = region{holder: h, epoch: 1, closed: map[lease.GrantID]bool{}}
	}
	return r
}

// ledgerTime is the broker's clock; at times a slow request still has an
// earlier one.
func (r *regions) ledgerTime() lease.Time {
	now := r.now - r.lag
	if r.fault == clockRunsDouble {
		now = 2 * r.now
	}
	if r.draw(4) == 0 {
		now -= int64(r.draw(2))
	}
	return lease.Time(max(0, now))
}

// step is one event. It returns the first breach of the cap or of an invariant.
func (r *regions) step() error {
	before := r.ledger.Clone()
	if err := r.event(&r.holders[r.draw(len(r.holders))]); err != nil {
		return err
	}
	return lease.CheckStep(&before, &r.ledger)
}

func (r *regions) event(h *region) error {
	switch r.draw(15) {
	case 0:
		r.now += int64(r.draw(4))
	case 1: // another owner takes over; the gap earns nothing
		gap := int64(r.draw(3))
		r.now += gap
		if r.fault != gapIsCounted {
			r.lag += gap
		} else {
			r.lag -= gap
		}
	case 2, 3:
		return r.grant(h)
	case 4, 5, 6, 7:
		return r.deliver()
	case 8, 9:
		return r.spend(h)
	case 10, 11, 12:
		return r.report(h)
	case 13:
		return r.close(h)
	case 14:
		if r.draw(3) == 0 {
			return r.crash(h)
		}
	}
	return nil
}

// deliver hands over one of the messages, mostly a new one.
func (r *regions) deliver() error {
	if len(r.mail) == 0 {
		return nil
	}
	among := len(r.mail)
	if r.draw(4) > 0 {
		among = min(among, 4)
	}
	return r.mail[len(r.mail)-1-r.draw(among)]()
}

// grant is the broker's answer to a request for credit; it may arrive at once,
// later or never.
func (r *regions) grant(h *region) error {
	now := r.ledgerTime()
	most := int(r.ledger.Headroom(now, h.holder))
	tokens := int64(most - r.draw(most+1)/2)
	g := r.ledger.Live(h.holder, h.epoch)
	if g == nil {
		r.ids++
		if err := r.ledger.Open(now, grantID(r.ids), h.holder, h.epoch, tokens); err != nil {
			panic(err)
		}
	} else if err := r.ledger.TopUp(now, g.ID, tokens); err != nil {
		panic(err)
	}
	g = r.ledger.Live(h.holder, h.epoch)
	epoch, id, issued := h.epoch, g.ID, g.Issued
	r.mail = append(r.mail, func() error {
		if h.epoch == epoch {
			r.receive(h, id, issued)
		}
		return nil
	})
	if r.draw(4) > 0 {
		r.receive(h, id, issued)
		return r.spend(h)
	}
	return nil
}

func (r *regions) receive(h *region, id lease.GrantID, issued int64) {
	switch {
	case h.closed[id] && r.fault != staleAnswer:
	case h.id == id && r.fault == answersAddUp:
		h.issued += issued
	case h.id == id:
		h.issued = max(h.issued, issued)
	case h.id.IsZero():
		h.id, h.issued, h.spent, h.returned = id, issued, 0, 0
	}
}

// spend admits checks with what is held, mostly with all.
func (r *regions) spend(h *region) error {
	held := h.issued - h.spent - h.returned
	if r.draw(3) == 0 && held > 0 {
		held = int64(r.draw(int(held) + 1))
	}
	if held <= 0 {
		return nil
	}
	h.spent += held
	return r.judge.admit(r.now, held)
}

// report sends the counters, perhaps after a return.
func (r *regions) report(h *region) error {
	if h.id.IsZero() {
		return nil
	}
	id, spent, returned := h.id, h.spent, h.returned
	if held := h.issued - h.spent - h.returned; held > 0 && r.draw(2) == 0 {
		returned += int64(r.draw(int(held) + 1))
	}
	if r.fault != returnTooEarly {
		h.returned = returned
	}
	return r.send(func(now lease.Time) error { return r.ledger.Account(now, id, spent, returned, 0) })
}

// close ends the grant in use, or one that never arrived.
func (r *regions) close(h *region) error {
	id := h.id
	if id.IsZero() {
		if g := r.ledger.Live(h.holder, h.epoch); g != nil && !h.closed[g.ID] {
			id = g.ID
			h.issued, h.spent, h.returned = 0, 0, 0
		}
	}
	if id.IsZero() {
		return nil
	}
	spent, returned := h.spent, h.returned
	h.closed[id] = true
	if r.fault != spendsAfterClose {
		h.issued = spent + returned
	}
	h.id = lease.GrantID{}
	return r.send(func(now lease.Time) error { return r.ledger.Close(now, id, spent, returned, 0) })
}

// crash ends the holder's epoch. Its journal or an operator tells of it, at some
// time.
func (r *regions) crash(h *region) error {
	holder, epoch, used := h.holder, h.epoch, h.id
	drawn := h.spent
	if held := h.issued - h.spent; held > 0 {
		drawn += int64(r.draw(int(held) + 1)) // blocks are drawn ahead
	}
	if r.fault == drawnIsForgotten {
		drawn = 0
	}
	closed := h.closed
	h.epoch, h.id, h.issued, h.spent, h.returned = epoch+1, lease.GrantID{}, 0, 0, 0
	h.closed = map[lease.GrantID]bool{}
	proof := r.draw(2) == 0
	return r.send(func(now lease.Time) error {
		g := r.ledger.Live(holder, epoch)
		switch {
		case g == nil:
			return lease.ErrGone
		case r.fault == silenceIsProof:
			return r.ledger.Close(now, g.ID, g.Spent, g.Returned, 0)
		case proof && g.ID == used:
			return r.ledger.CloseProven(now, g.ID, drawn)
		case proof && !closed[g.ID]: // never received, so never drawn
			return r.ledger.CloseProven(now, g.ID, 0)
		case r.fault == attestIsBurst:
			return r.ledger.Close(now, g.ID, 0, 0, 0)
		default:
			_, err := r.ledger.Attest(now, g.ID)
			return err
		}
	})
}

// send puts a message to the broker in the mail, from where it may arrive at
// once, and again. A late one may find the grant gone.
func (r *regions) send(deliver func(now lease.Time) error) error {
	sent := lease.Time(r.now - r.lag) // the broker's clock is read after the message has come
	message := func() error {
		now := max(sent, r.ledgerTime())
		if r.fault == roomEarlier {
			defer r.ledger.Advance(now)
			now = 0
		}
		err := deliver(now)
		if err == lease.ErrGone || r.fault != noFault {
			return nil
		}
		return err
	}
	r.mail = append(r.mail, message)
	if r.draw(2) == 0 {
		return message()
	}
	return nil
}
