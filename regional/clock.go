package regional

import (
	"time"

	"github.com/tokenlease/tokenlease/regional/holder"
)

// Clock is where the limiter reads time. Only Mono decides anything, but for the bound
// on staleness, which goes by all of Clocks; Now is for display.
type Clock interface {
	Mono() time.Duration // monotonic, from any origin
	Now() time.Time
	Timer(time.Duration) *time.Timer
	Clocks() holder.Clocks // may be called concurrently
}

// SystemClock is the clock of this machine.
func SystemClock() Clock { return systemClock{origin: time.Now()} }

type systemClock struct{ origin time.Time }

func (c systemClock) Mono() time.Duration               { return time.Since(c.origin) }
func (c systemClock) Now() time.Time                    { return time.Now() }
func (c systemClock) Timer(d time.Duration) *time.Timer { return time.NewTimer(d) }

func (c systemClock) Clocks() holder.Clocks {
	now := time.Now()
	return holder.Clocks{Mono: now.Sub(c.origin), Boot: bootTime(now.Sub(c.origin)), Wall: time.Duration(now.UnixNano())}
}
