package tokenleasev1

import (
	"strings"
	"time"
	_ "time/tzdata" // every process knows the same time zones, whatever machine it is on
)

// MaxTimeZoneBytes bounds FixedWindow.time_zone.
const MaxTimeZoneBytes = 64

// checkTimeZone holds a text to the name of a time zone, or nothing.
func checkTimeZone(field, name string) *FieldError {
	if name == "" {
		return nil
	}
	if e := checkPrintable(field, name, MaxTimeZoneBytes); e != nil {
		return e
	}
	if name == "Local" {
		return faultf(field, "must not be Local, which is another zone on another machine")
	}
	if !IsTimeZone(name) {
		return faultf(field, "must be the name of a time zone in the IANA database, such as Europe/Berlin")
	}
	return nil
}

// IsTimeZone says whether a name is one of a time zone, as the IANA database writes
// it.
//
// A machine has further files beside those of the zones, such as "localtime" and
// "posix/Europe/Berlin", and another may not have them. Each part of a zone's own
// name begins with a capital letter. "Local" is whatever the machine is set to.
func IsTimeZone(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] < 'A' || part[0] > 'Z' {
			return false
		}
	}
	_, err := time.LoadLocation(name)
	return err == nil && name != "Local"
}
