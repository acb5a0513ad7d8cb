package shard

import (
	"log/slog"
	"time"
	_ "time/tzdata" // zones for machines without a database of their own

	"github.com/tokenlease/tokenlease/lease"
)

// Calendar has the time zones that were used, and tells fixed windows where their
// periods lie. It belongs to one goroutine.
type Calendar map[string]*time.Location

// Turn brings a fixed window to the period in which the wall clock lies, in
// milliseconds since 1970; behind is how far this process's own clock is behind that,
// by which the period takes longer to end. A zone that is not known leaves it in the period that it
// is in, which admits no more.
func (c Calendar) Turn(l *lease.Ledger, now lease.Time, wallMs int64, behind time.Duration, log *slog.Logger) {
	if l.Rule.Kind != lease.FixedWindow {
		return
	}
	zone, known := c[l.Rule.Zone]
	if !known {
		var err error
		if zone, err = time.LoadLocation(l.Rule.Zone); err != nil {
			log.Error("a time zone is not known here; its windows do not end", "zone", l.Rule.Zone, "operation", l.Key.Operation, "error", err)
			zone = nil
		}
		c[l.Rule.Zone] = zone
	}
	if zone == nil {
		return
	}
	at := time.UnixMilli(wallMs).In(zone)
	began, ends := l.Rule.Period.Bounds(at)
	l.Turn(now, began.UnixMilli(), ends.Sub(at)+behind)
}

// turn brings the budget's window to the period that it is in.
func (s *Shard) turn(e *entry) {
	if e.exists {
		s.calendar.Turn(&e.ledger, s.now, s.wall, s.behindWall(), s.log)
	}
}

// seen takes a reading of the wall clock. Periods are told by the latest that was
// ever used, here or by an earlier owner, so none is entered twice. Where a clock
// was ahead, the period in which it was lasts until that time has come.
func (s *Shard) seen(unixMs int64) { s.wall = max(s.wall, unixMs) }

// behindWall is how far this process's clock is behind the latest that was used.
func (s *Shard) behindWall() time.Duration {
	return time.Duration(max(0, s.wall-s.moment.UnixMs)) * time.Millisecond
}

// farBehind is by how much a clock may be behind before that is worth a word.
const farBehind = time.Minute

// warnOfClocks tells when the windows of this shard wait for a time that an earlier
// clock has shown and this one has not.
func (s *Shard) warnOfClocks() {
	if behind := s.behindWall(); behind > farBehind {
		s.log.Error("this broker's wall clock is behind one that was used before it: fixed windows stay in their periods until it has caught up; one of the two clocks is wrong",
			"behind", behind, "used", time.UnixMilli(s.wall).UTC())
	}
}
