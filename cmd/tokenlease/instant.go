package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// instant is a flag that takes a point in time, or how long ago it was.
type instant struct {
	text string
	at   time.Time     // if that was given
	ago  time.Duration // otherwise; at and ago are zero for one that was not given
}

// String is the flag's value.
func (i *instant) String() string { return i.text }

// Type is what help calls the value.
func (i *instant) Type() string { return "time" }

// Set reads the flag.
func (i *instant) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.UnixMilli() > 0 {
		*i = instant{text: text, at: at}
		return nil
	}
	if ago, err := parseAgo(text); err == nil && ago > 0 {
		*i = instant{text: text, ago: ago}
		return nil
	}
	return fmt.Errorf("want a time such as 2026-01-31T06:00:00Z, or how long ago such as 24h or 7d, not %.40q", text)
}

// parseAgo reads a duration, which may be in days.
func parseAgo(text string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// unixMs is the point in time in milliseconds since 1970; 0: not given. One before
// 1970 is the first millisecond of that.
func (i *instant) unixMs(now time.Time) int64 {
	switch {
	case !i.at.IsZero():
		return i.at.UnixMilli()
	case i.ago > 0:
		return max(1, now.Add(-i.ago).UnixMilli())
	}
	return 0
}

// span is a flag that takes a length of time, which may be in days.
type span time.Duration

// String is the flag's value.
func (s *span) String() string { return strictyaml.FormatDuration(time.Duration(*s)) }

// Type is what help calls the value.
func (s *span) Type() string { return "duration" }

// Set reads the flag.
func (s *span) Set(text string) error {
	d, err := parseAgo(text)
	if err != nil || d < 0 {
		return fmt.Errorf("want a length of time such as 10m, 24h or 7d, not %.40q", text)
	}
	*s = span(d)
	return nil
}
