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

// Bounds is the period that at lies in, by the clock of its location: start <= at
// < end. Hours and minutes are counted from the local clock's last full one, so one
// that is repeated when clocks are set back is a period of its own. Where clocks
// are set forward at midnight, a day begins when the local clock goes on.
func (p Period) Bounds(at time.Time) (start, end time.Time) {
	year, month, day := at.Date()
	midnight := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, at.Location())
	}
	switch p {
	case Minute:
		start = at.Add(-past(at, time.Minute))
		return start, start.Add(time.Minute)
	case Hour:
		start = at.Add(-past(at, time.Hour))
		return start, start.Add(time.Hour)
	case Day:
		start, end = midnight(year, month, day), midnight(year, month, day+1)
	case Week:
		monday := day - (int(at.Weekday())+6)%7
		start, end = midnight(year, month, monday), midnight(year, month, monday+7)
	case Month:
		start, end = midnight(year, month, 1), midnight(year, month+1, 1)
	}
	// Where midnight does not exist, Date gives a time beside the gap.
	if start.After(at) {
		start = at
	}
	if !end.After(at) {
		end = at.Add(1)
	}
	return start, end
}

// past is the time since the local clock's last full unit, an hour or a minute.
func past(at time.Time, unit time.Duration) time.Duration {
	since := time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond())
	if unit == time.Hour {
		since += time.Duration(at.Minute()) * time.Minute
	}
	return since
}
