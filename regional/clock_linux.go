package regional

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the time since the machine was started, in which it slept included. If the
// kernel cannot tell, no bound on staleness holds any more.
func bootTime(time.Duration) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return math.MaxInt64
	}
	return time.Duration(ts.Nano())
}
