package lease_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"pgregory.net/rapid"

	"github.com/tokenlease/tokenlease/lease"
)

// The bounds of periods at named instants. All times are UTC.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		name           string
		zone           string
		period         lease.Period
		at, start, end string
	}{
		{"a minute", "UTC", lease.Minute, "2026-11-30T07:46:26.5Z", "2026-11-30T07:46:00Z", "2026-11-30T07:47:00Z"},
		{"its first instant", "UTC", lease.Minute, "2026-11-30T07:46:00Z", "2026-11-30T07:46:00Z", "2026-11-30T07:47:00Z"},
		{"its last instant", "UTC", lease.Minute, "2026-11-30T07:46:59.999999999Z", "2026-11-30T07:46:00Z", "2026-11-30T07:47:00Z"},
		{"an hour", "UTC", lease.Hour, "2026-11-30T07:46:26Z", "2026-11-30T07:00:00Z", "2026-11-30T08:00:00Z"},
		{"an hour in India", "Asia/Kolkata", lease.Hour, "2026-11-30T07:46:26Z", "2026-11-30T07:30:00Z", "2026-11-30T08:30:00Z"},
		{"an hour in Nepal", "Asia/Kathmandu", lease.Hour, "2026-11-30T07:20:00Z", "2026-11-30T07:15:00Z", "2026-11-30T08:15:00Z"},
		{"a day", "UTC", lease.Day, "2026-11-30T07:46:26Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"a day in India", "Asia/Kolkata", lease.Day, "2026-11-30T18:29:59Z", "2026-11-29T18:30:00Z", "2026-11-30T18:30:00Z"},
		{"Sunday ends a week", "UTC", lease.Week, "2026-11-29T23:59:59.999999999Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"Monday begins one", "UTC", lease.Week, "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"a week over the new year", "UTC", lease.Week, "2027-01-01T12:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"a month of 31 days", "UTC", lease.Month, "2026-01-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"a month of 28", "UTC", lease.Month, "2027-02-28T23:59:59Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{"a month of 29", "UTC", lease.Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"the last month", "UTC", lease.Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"a month in which clocks are set", "Europe/Berlin", lease.Month, "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"a week in which clocks are set", "America/New_York", lease.Week, "2026-03-08T12:00:00Z", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z"},

		{"a day of 23 hours in Berlin", "Europe/Berlin", lease.Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"a day of 25", "Europe/Berlin", lease.Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"the hour before the one that is skipped", "Europe/Berlin", lease.Hour, "2026-03-29T00:59:59Z", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"and the one after", "Europe/Berlin", lease.Hour, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"an hour that is repeated", "Europe/Berlin", lease.Hour, "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"and again", "Europe/Berlin", lease.Hour, "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"a day of 23 hours in New York", "America/New_York", lease.Day, "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"a day of 25", "America/New_York", lease.Day, "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"a day of 23.5 hours on Lord Howe", "Australia/Lord_Howe", lease.Day, "2026-10-03T16:00:00Z", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"},
		{"a day of 24.5", "Australia/Lord_Howe", lease.Day, "2026-04-04T16:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"the hour before half of one is skipped", "Australia/Lord_Howe", lease.Hour, "2026-10-03T15:29:59Z", "2026-10-03T14:30:00Z", "2026-10-03T15:30:00Z"},
		{"its other half", "Australia/Lord_Howe", lease.Hour, "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
		{"the hour before half of it is repeated", "Australia/Lord_Howe", lease.Hour, "2026-04-04T14:59:59Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"the repeated half", "Australia/Lord_Howe", lease.Hour, "2026-04-04T15:10:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"an hour that is cut by half an hour", "America/Caracas", lease.Hour, "2016-05-01T06:45:00Z", "2016-05-01T06:30:00Z", "2016-05-01T07:00:00Z"},
		{"a minute that is cut by half a minute", "Africa/Monrovia", lease.Minute, "1972-01-07T00:44:40Z", "1972-01-07T00:44:30Z", "1972-01-07T00:45:00Z"},

		{"the day before a midnight that is skipped", "America/Santiago", lease.Day, "2026-09-06T03:59:59Z", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z"},
		{"the day that begins at one", "America/Santiago", lease.Day, "2026-09-06T04:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{"a day whose last hour is repeated", "America/Santiago", lease.Day, "2026-04-05T03:30:00Z", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z"},
		{"the day before a skipped midnight in the East", "Asia/Beirut", lease.Day, "2024-03-30T21:59:59Z", "2024-03-29T22:00:00Z", "2024-03-30T22:00:00Z"},
		{"and the day after", "Asia/Beirut", lease.Day, "2024-03-30T22:00:00Z", "2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"},
		{"a day whose first hour is repeated", "America/Havana", lease.Day, "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"likewise in the East, the first time", "Asia/Amman", lease.Day, "2021-10-28T21:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{"and the second time", "Asia/Amman", lease.Day, "2021-10-28T22:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{"the day before", "Asia/Amman", lease.Day, "2021-10-28T20:59:59Z", "2021-10-27T21:00:00Z", "2021-10-28T21:00:00Z"},
		{"a day that is entered for a minute", "America/St_Johns", lease.Day, "2010-11-07T02:30:30Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"and is not left again", "America/St_Johns", lease.Day, "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"the day before one that is skipped", "Pacific/Apia", lease.Day, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"and the day after", "Pacific/Apia", lease.Day, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		start, end := tc.period.Bounds(instant(t, tc.at).In(location(t, tc.zone)))
		if !start.Equal(instant(t, tc.start)) || !end.Equal(instant(t, tc.end)) {
			t.Errorf("%s: from %v to %v", tc.name, start.UTC(), end.UTC())
		}
	}
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func location(t fataler, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Periods cover all of time, once: every instant lies in its own, all instants of one
// have the same bounds, and each begins where the one before ends. Instants are drawn
// beside those at which clocks are set.
func TestBoundsArePeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := location(t, rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Asia/Kathmandu",
			"America/Sao_Paulo", "America/Santiago", "America/Havana", "America/Asuncion", "America/St_Johns", "America/Caracas",
			"Asia/Beirut", "Asia/Gaza", "Asia/Amman", "Asia/Tehran", "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia",
			"Atlantic/Azores", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham",
		}).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(0, 2_500_000_000).Draw(t, "at"), 0).In(zone)
		if _, set := at.ZoneBounds(); !set.IsZero() && rapid.Bool().Draw(t, "beside a change") {
			at = set.Add(time.Duration(rapid.Int64Range(-int64(30*time.Hour), int64(30*time.Hour)).Draw(t, "by")))
		}
		period := rapid.SampledFrom([]lease.Period{lease.Minute, lease.Hour, lease.Day, lease.Week, lease.Month}).Draw(t, "period")
		start, end := period.Bounds(at)
		if start.After(at) || !end.After(at) {
			t.Fatalf("%v is not from %v to %v", at, start, end)
		}
		inside := start.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(start))-1).Draw(t, "inside")))
		for _, other := range []time.Time{start, inside, end.Add(-1)} {
			if s, e := period.Bounds(other); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("at %v from %v to %v, at %v from %v to %v", at, start, end, other, s, e)
			}
		}
		if next, _ := period.Bounds(end); !next.Equal(end) {
			t.Fatalf("one ends at %v, the next begins at %v", end, next)
		}
		if _, before := period.Bounds(start.Add(-1)); !before.Equal(start) {
			t.Fatalf("one ends at %v, the next begins at %v", before, start)
		}
	})
}
