package lease_test

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// slip is one way to break the protocol around a ledger of any kind.
type slip int

const (
	noSlip           slip = iota
	readBefore            // what comes is applied at a time that was read before it came
	toldLate              // a window is told of its period after it was changed
	periodAgain           // a period that had ended is entered again
	restartsFull          // a rule of another kind starts as if nothing had been spent
	forgetsWindow         // what counts in a window is lost when the owner changes
	slotTooEarly          // a slot is given back before its work has ended
	heldIsForgotten       // a close does not tell of slots that are in use
	drawnIsLost           // a journal tells of less than was drawn
	attestedTooEarly      // it is attested that work has ended, which goes on
	goesOnAfterClose      // a holder goes on with a grant that it has closed
	clockIsDouble         // ledger time is faster than real time
	grantsTooMuch         // a grant of more than is available
	debtIsForgotten       // what is owed is lost when the owner changes
	owedAddsUp            // each copy of a report is owed again
	owesOnAfterClose      // what is owed of a grant that has ended is told of the next one, too
	slips
)

// unit is what all times of a fleet are multiples of.
const unit = 100 * time.Microsecond

// fleet is a budget with three processes that use it as greedily as they can, under
// policies of every kind, a wall clock that is set back and ahead, and a network
// that may lose, repeat, delay and reorder anything.
type fleet struct {
	draw      func(n int) int
	slip      slip
	ledger    lease.Ledger
	court     *court
	now       int64 // real time
	lag       int64 // how far ledger time is behind
	skew      int64 // of the owner's wall clock
	told      int64 // the latest time of the wall clock that the ledger was told, as long as it knows of it
	read      int64 // ledger time, or that of a while ago
	recalls   bool  // the owner tells periods by the latest time that it ever read
	latest    int64 // that time
	dropped   bool  // the record went in this step
	ids       uint64
	wrong     error                   // a charge that is not what was used
	beyond    map[lease.GrantID]int64 // what was truly used beyond the reservations of each grant
	processes [3]*process
	mail      []func() error // each may arrive at any time, any number of times
}

// process is one epoch of a holder.
type process struct {
	holder          lease.Holder
	epoch           uint64
	id              lease.GrantID // of the grant in use; zero for none
	kind            lease.Kind    // that it is used under
	issued          int64         // as far as it was received
	spent, returned int64
	owed            int64 // used beyond reservations, which no grant covers
	working         int64 // slots in use
	closed          map[lease.GrantID]bool
}

func newFleet(s slip, draw func(n int) int) *fleet {
	f := &fleet{draw: draw, slip: s, skew: int64(1000 * unit), recalls: draw(2) == 0}
	rule := f.rule(1)
	f.ledger, f.court, f.beyond = newLedger(rule), newCourt(rule), map[lease.GrantID]int64{}
	for i, h := range []lease.Holder{eu, us, ap} {
		f.processes[i] = &process{holder: h, epoch: 1, closed: map[lease.GrantID]bool{}}
	}
	return f
}

// rule is a small rule of any kind.
func (f *fleet) rule(version int64) lease.Rule {
	rule := lease.Rule{Version: version, Capacity: int64(f.draw(9)), MaxSharePercent: 100}
	if f.draw(4) == 0 {
		rule.MaxSharePercent = 50
	}
	switch rule.Kind = []lease.Kind{lease.TokenBucket, lease.RollingWindow, lease.FixedWindow, lease.Concurrency}[f.draw(4)]; rule.Kind {
	case lease.TokenBucket:
		rule.Refill = lease.Rate{Tokens: int64(f.draw(4)), Interval: time.Duration(1+f.draw(5)) * unit}
	case lease.RollingWindow:
		rule.Window = time.Duration(10+f.draw(20)) * unit
	case lease.FixedWindow:
		rule.Zone, rule.Period = "UTC", []lease.Period{lease.Minute, lease.Hour}[f.draw(2)]
	case lease.Concurrency:
	}
	return rule
}

// period is the number of the period of the rule that a wall clock's time lies in,
// and its length. They have a length of their own here.
func (f *fleet) period(wall int64) (number, length int64) {
	length = int64(9 * unit)
	if f.ledger.Rule.Period == lease.Hour {
		length = int64(25 * unit)
	}
	return wall / length, length
}

// wall is the time by which the owner tells periods. The ledger enters none twice as
// long as it has a record; an owner that drops records has to recall the latest time.
func (f *fleet) wall() int64 {
	wall := f.now + f.skew
	if f.latest = max(f.latest, wall); f.recalls {
		return f.latest
	}
	return wall
}

// turn tells the ledger in which period now lies.
func (f *fleet) turn() {
	wall := f.wall()
	f.told = max(f.told, wall)
	number, length := f.period(wall)
	f.ledger.Turn(f.time(), number*length, time.Duration((number+1)*length-wall))
}

// time is the owner's ledger time.
func (f *fleet) time() lease.Time {
	if f.slip == clockIsDouble {
		return lease.Time(2 * f.now)
	}
	if f.slip == readBefore {
		return lease.Time(f.read)
	}
	return lease.Time(f.now - f.lag)
}

// step is one event. It returns the first breach of a promise or of an invariant.
func (f *fleet) step() error {
	before := f.ledger.Clone()
	if err := f.event(f.processes[f.draw(len(f.processes))]); err != nil {
		return err
	}
	if err := lease.CheckStep(&before, &f.ledger); err != nil && !f.dropped {
		return err
	}
	if f.dropped = false; f.wrong != nil {
		return f.wrong
	}
	return f.court.look(f.now, &f.ledger)
}

func (f *fleet) event(p *process) error {
	switch f.draw(22) {
	case 0, 1:
		f.now += int64(f.draw(8)) * int64(unit)
		if f.draw(2) == 0 {
			f.read = f.now - f.lag
		}
	case 2:
		f.takeOver()
	case 3:
		f.set(int64(f.draw(60)-30) * int64(unit))
	case 4, 5, 6:
		return f.grant(p)
	case 7, 8, 9, 10:
		return f.deliver()
	case 11, 12:
		return f.use(p)
	case 13:
		f.finish(p)
	case 14, 15, 16:
		return f.report(p)
	case 17:
		return f.close(p)
	case 18:
		if f.draw(3) == 0 {
			return f.crash(p)
		}
	case 19:
		if f.draw(4) == 0 {
			return f.install()
		}
	case 20:
		f.workEnds()
	case 21:
		f.drop()
	}
	return nil
}

// takeOver is another owner; the gap earns nothing.
func (f *fleet) takeOver() {
	gap := int64(f.draw(3)) * int64(unit)
	f.now += gap
	f.lag += gap
	switch f.slip {
	case forgetsWindow:
		if l := &f.ledger; l.Rule.Kind == lease.RollingWindow {
			l.Recovering, l.Available = nil, max(0, l.Rule.Capacity-l.Reserved())
		}
	case periodAgain:
		f.ledger.Began = min(f.ledger.Began, 1)
	case debtIsForgotten:
		f.ledger.Debt = 0
	}
}

// set sets the owner's wall clock, which it reads before and after.
func (f *fleet) set(by int64) {
	f.turn()
	f.skew += by
	f.turn()
}

// deliver hands over one of the messages, mostly a new one.
func (f *fleet) deliver() error {
	if len(f.mail) == 0 {
		return nil
	}
	among := len(f.mail)
	if f.draw(4) > 0 {
		among = min(among, 4)
	}
	return f.mail[len(f.mail)-1-f.draw(among)]()
}

// grant is the broker's answer to a request for credit.
func (f *fleet) grant(p *process) error {
	f.turn()
	now := f.time()
	most := int(f.ledger.Headroom(now, p.holder))
	tokens := int64(most - f.draw(most+1)/2)
	g := f.ledger.Live(p.holder, p.epoch)
	if g == nil {
		f.ids++
		if err := f.ledger.Open(now, grantID(f.ids), p.holder, p.epoch, tokens); err != nil {
			return err
		}
	} else if err := f.ledger.TopUp(now, g.ID, tokens); err != nil {
		return err
	}
	g = f.ledger.Live(p.holder, p.epoch)
	if f.slip == grantsTooMuch && f.draw(20) == 0 {
		g.Issued++
	}
	epoch, id, issued, kind := p.epoch, g.ID, g.Issued, f.ledger.Rule.Kind
	answer := func() error {
		if p.epoch != epoch {
			return nil
		}
		return f.receive(p, id, issued, kind)
	}
	f.mail = append(f.mail, answer)
	if f.draw(4) > 0 {
		if err := answer(); err != nil {
			return err
		}
		return f.use(p)
	}
	return nil
}

// receive takes over an answer. A grant that was taken under another kind is closed
// first.
func (f *fleet) receive(p *process, id lease.GrantID, issued int64, kind lease.Kind) error {
	if !p.id.IsZero() && p.kind != kind {
		if err := f.close(p); err != nil {
			return err
		}
	}
	switch {
	case p.closed[id]:
	case p.id == id:
		p.issued = max(p.issued, issued)
	case p.id.IsZero():
		p.id, p.kind, p.issued, p.spent, p.returned, p.working = id, kind, issued, 0, 0, 0
		if f.slip != owesOnAfterClose {
			p.owed = 0
		}
	}
	return nil
}

func (p *process) free() int64 { return p.issued - p.spent - p.returned - p.working }

// use admits what is asked, mostly with all that there is.
func (f *fleet) use(p *process) error {
	free := p.free()
	if f.draw(2) == 0 && free > 0 {
		free = int64(f.draw(int(free) + 1))
	}
	switch {
	case free <= 0:
	case p.kind == lease.Concurrency:
		for range free {
			p.working++
			if err := f.court.start(f.now, p.id); err != nil {
				return err
			}
		}
	default:
		p.spent += free
		// By the owner's clock: one that is set back does not lead back.
		number, _ := f.period(max(f.told, f.wall()))
		return f.court.admit(f.now, free, number)
	}
	return nil
}

// finish ends some of the work of the grant in use; its slots are free again.
func (f *fleet) finish(p *process) {
	if done := int64(f.draw(int(p.working) + 1)); done > 0 {
		p.working -= done
		f.court.work[p.id] -= min(done, f.court.work[p.id]) // what another kind has ended is judged no more
	}
}

// workEnds ends work of the grants that no process uses any more.
func (f *fleet) workEnds() {
	for sequence := range f.ids {
		id := grantID(sequence + 1)
		if f.court.work[id] > 0 && !f.used(id) {
			f.court.work[id]--
			return
		}
	}
}

func (f *fleet) used(id lease.GrantID) bool {
	for _, p := range f.processes {
		if p.id == id {
			return true
		}
	}
	return false
}

// report sends the counters, perhaps after a return.
func (f *fleet) report(p *process) error {
	if p.id.IsZero() {
		return nil
	}
	if free := p.free(); free > 0 && f.draw(2) == 0 {
		p.returned += int64(f.draw(int(free) + 1))
	} else if f.draw(4) == 0 && p.kind != lease.Concurrency {
		excess := int64(f.draw(5))
		p.owed += excess
		f.beyond[p.id] += excess
	}
	id, spent, returned, owed := p.id, p.spent, p.returned, p.owed
	if f.slip == slotTooEarly {
		returned += p.working
	}
	return f.send(func(now lease.Time) error {
		return f.owe(id, owed, func(owed int64) error { return f.ledger.Account(now, id, spent, returned, owed) })
	})
}

// owe hands over what a message tells as owed of a grant. While the grant lives, it is
// charged to the budget, and never more than was used; slots are not owed.
func (f *fleet) owe(id lease.GrantID, owed int64, arrive func(owed int64) error) error {
	g := f.ledger.Grant(id)
	if g == nil {
		return arrive(owed)
	}
	known, debt, counts := g.Owed, f.ledger.Debt, f.ledger.Rule.Kind != lease.Concurrency
	if f.slip == owedAddsUp {
		owed += known
	}
	if err := arrive(owed); err != nil {
		return err
	}
	charged := max(known, owed)
	if g = f.ledger.Grant(id); g != nil && g.Owed != charged || charged > f.beyond[id] {
		f.wrong = fmt.Errorf("grant %v, of which %d were owed, owes %d where %d were told and %d used", id, known, charged, owed, f.beyond[id])
	}
	if counts {
		f.court.charge(f.now, charged-known)
	} else if f.ledger.Debt != debt {
		f.wrong = fmt.Errorf("slots owe %d", f.ledger.Debt)
	}
	return nil
}

// close ends the grant in use, or one that never arrived. It may be told again later,
// with what is held then.
func (f *fleet) close(p *process) error {
	id := p.id
	if id.IsZero() {
		if g := f.ledger.Live(p.holder, p.epoch); g != nil && !p.closed[g.ID] {
			id, p.issued, p.spent, p.returned, p.owed, p.working = g.ID, 0, 0, 0, 0, 0
		}
	}
	if id.IsZero() {
		return nil
	}
	spent, returned, owed := p.spent, p.returned, p.owed
	p.closed[id] = true
	if f.slip != goesOnAfterClose {
		p.id, p.issued, p.spent, p.returned, p.working = lease.GrantID{}, 0, 0, 0, 0
	}
	return f.send(func(now lease.Time) error {
		held := f.court.work[id]
		if f.slip == heldIsForgotten {
			held = 0
		}
		return f.owe(id, owed, func(owed int64) error { return f.ledger.CloseHeld(now, id, spent, returned, owed, held) })
	})
}

// crash ends the epoch. Its journal or an operator tells of it, at some time; the
// operator only when its work has ended.
func (f *fleet) crash(p *process) error {
	holder, epoch, used, closed := p.holder, p.epoch, p.id, p.closed
	drawn := p.spent + p.working
	if held := p.issued - drawn; held > 0 {
		drawn += int64(f.draw(int(held) + 1)) // blocks are drawn ahead
	}
	if f.slip == drawnIsLost {
		drawn = 0
	}
	*p = process{holder: holder, epoch: epoch + 1, closed: map[lease.GrantID]bool{}}
	proof := f.draw(2) == 0
	return f.send(func(now lease.Time) error {
		g := f.ledger.Live(holder, epoch)
		switch {
		case g == nil:
			return lease.ErrGone
		case proof && g.ID == used:
			return f.ledger.CloseProven(now, g.ID, drawn)
		case proof && !closed[g.ID] && f.court.work[g.ID] == 0: // never received, so never drawn
			return f.ledger.CloseProven(now, g.ID, 0)
		case f.court.work[g.ID] > 0 && f.slip != attestedTooEarly:
			return nil
		}
		_, err := f.ledger.Attest(now, g.ID)
		return err
	})
}

// install brings the ledger to another version of the policy.
func (f *fleet) install() error {
	f.turn()
	was := f.ledger.Rule
	if err := f.ledger.Install(f.time(), f.rule(was.Version+1)); err != nil {
		return err
	}
	l := &f.ledger
	if l.Rule.Kind != was.Kind || l.Rule.Period != was.Period {
		f.told = 0
	}
	if f.slip == restartsFull && l.Rule.Kind != was.Kind && l.Rule.Kind != lease.TokenBucket {
		l.Recovering, l.Used = nil, 0
		l.Available = max(0, l.Rule.Capacity-l.Reserved())
	}
	f.court.install(f.now, &f.ledger)
	return nil
}

// drop forgets the record of a full budget: one without is full.
func (f *fleet) drop() {
	if f.turn(); f.ledger.Full() && (f.recalls || f.ledger.Rule.Kind != lease.FixedWindow) {
		f.dropped, f.told = true, 0
		f.ledger = lease.NewLedger(f.ledger.Key, f.ledger.Rule, f.ledger.Updated)
	}
}

// send puts a message to the broker in the mail, from where it may arrive at once,
// and again. A late one may find the grant gone.
func (f *fleet) send(arrive func(now lease.Time) error) error {
	message := func() error {
		now := f.time()
		if f.slip != toldLate {
			f.turn()
		} else {
			defer f.turn()
		}
		if err := arrive(now); err != nil && err != lease.ErrGone && f.slip == noSlip {
			return err
		}
		return nil
	}
	f.mail = append(f.mail, message)
	if f.draw(2) == 0 {
		return message()
	}
	return nil
}

// settle ends all work and all grants, and lets time pass: no credit may be lost for
// ever, unless nothing is refilled.
func (f *fleet) settle() error {
	clear(f.court.work)
	for len(f.ledger.Grants) > 0 {
		if _, err := f.ledger.Attest(f.time(), f.ledger.Grants[0].ID); err != nil {
			return err
		}
	}
	if f.ledger.Rule.Kind == lease.TokenBucket && f.ledger.Rule.Refill.Tokens == 0 || f.ledger.Rule.Capacity == 0 && f.ledger.Debt > 0 {
		return nil
	}
	for range 3 { // a clock that was set back has to come to where it was
		f.now += int64(10_000 * unit)
		f.turn()
		f.ledger.Advance(f.time())
	}
	if !fullAtLast(&f.ledger) {
		return fmt.Errorf("not full in the end: %v, %d count", &f.ledger, f.ledger.Counted())
	}
	return nil
}
