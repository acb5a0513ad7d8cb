//go:build !linux

package regional

import "time"

// bootTime is not read here: where a machine slept, its wall clock alone tells of it.
func bootTime(mono time.Duration) time.Duration { return mono }
