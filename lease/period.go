package lease

import "time"

// Period is the length of a fixed window by the calendar: a small closed set.
type Period string

// The periods.
const (
	Minute Period = "minute" // begins at second 0
	Hour   Period = "hour"   // begins at minute 0
	Day    Period = "day"    // begins at midnight
	Week   Period = "week"   // begins on Monday at midnight
	Month  Period = "month"  // begins on the first at midnight
)

func (p Period) known() bool { return p.usual() > 0 }

// usual is the length of most periods.
func (p Period) usual() time.Duration {
	const day = 24 * time.Hour
	switch p {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 30 * day
	}
	return 0
}

// Longest is above the length of every period, in any calendar and zone.
func (p Period) Longest() time.Duration { return p.usual() + p.usual()/10 }

// passed is how many periods lie between the beginnings of two, in milliseconds since
// 1970, the later of them included; 1 at the least. Lengths differ by so much less than
// they are that rounding tells it, however many there are.
func (p Period) passed(from, to int64) int64 {
	average := p.usual().Milliseconds()
	if p == Month {
		average = 2_629_746_000 // a twelfth of 365.2425 days
	}
	return max(1, (to-from+average/2)/max(1, average))
}

// Bounds is the period that at lies in, by the clock of its location: start <= at
// < end. It is the same for all times of a period, and the end of one period is the
// start of the next. p is one of the periods.
//
// Days, weeks and months begin when the local clock first shows their first date:
// where clocks are set forward at midnight, when the local clock goes on; where they
// are set back across midnight, a day is not entered a second time. Hours and minutes
// are those that the local clock shows, so an hour that is repeated when clocks are
// set back is a period of its own, and where they are set by a part of an hour, or
// within one, the hours beside that are shorter.
func (p Period) Bounds(at time.Time) (start, end time.Time) {
	if p == Minute || p == Hour {
		return within(at, p.usual())
	}
	year, month, day := at.Date()
	begin := func(n int) time.Time { // of the n-th period after the one of at's date
		switch p {
		case Week:
			monday := day - (int(at.Weekday())+6)%7
			return midnight(year, month, monday+7*n, at.Location())
		case Month:
			return midnight(year, month+time.Month(n), 1, at.Location())
		case Minute, Hour, Day:
		}
		return midnight(year, month, day+n, at.Location())
	}
	start, end = begin(0), begin(1)
	if !end.After(at) { // the local date has gone back
		start, end = end, begin(2)
	}
	return start, end
}

// within is the hour or the minute that at lies in, cut where clocks are set.
func within(at time.Time, unit time.Duration) (start, end time.Time) {
	start = at.Add(-past(at, unit))
	end = start.Add(unit)
	began, ends := at.ZoneBounds()
	if began.After(start) {
		start = began
	}
	if !ends.IsZero() && ends.Before(end) {
		end = ends
	}
	return start, end
}

// midnight is the first instant at which the local clock shows the date, or a later
// one where that date, or its beginning, is skipped.
func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	began, ends := t.ZoneBounds()
	_, offset := t.Zone()
	shown := t.Add(time.Duration(offset) * time.Second) // as if it were UTC
	switch wanted := time.Date(year, month, day, 0, 0, 0, 0, time.UTC); {
	case shown.Before(wanted): // midnight is skipped, and Date gives a time on either side
		return ends
	case shown.After(wanted):
		return began
	case !began.IsZero(): // midnight may be shown twice, and Date gives either
		_, before := began.Add(-1).Zone()
		first := t.Add(time.Duration(offset-before) * time.Second)
		if first.Before(began) {
			return first
		}
	}
	return t
}

// past is the time since the local clock's last full unit, an hour or a minute.
func past(at time.Time, unit time.Duration) time.Duration {
	since := time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond())
	if unit == time.Hour {
		since += time.Duration(at.Minute()) * time.Minute
	}
	return since
}
