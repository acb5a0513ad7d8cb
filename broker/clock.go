package broker

import "time"

// Clock is where the broker reads time. Only Mono decides anything; Now is for
// display.
type Clock interface {
	Mono() time.Duration // monotonic, from any origin
	Now() time.Time
	Timer(time.Duration) *time.Timer
}

// SystemClock is the clock of this machine.
func SystemClock() Clock { return systemClock{origin: time.Now()} }

type systemClock struct{ origin time.Time }

func (c systemClock) Mono() time.Duration               { return time.Since(c.origin) }
func (c systemClock) Now() time.Time                    { return time.Now() }
func (c systemClock) Timer(d time.Duration) *time.Timer { return time.NewTimer(d) }
