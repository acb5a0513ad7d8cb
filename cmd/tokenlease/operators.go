package main

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// validRequest finds out before anything is sent what a server would refuse. It is
// a usage error.
func validRequest(request proto.Message) error {
	if checked, ok := request.(interface{ Validate() error }); ok {
		if err := checked.Validate(); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// parseHolder reads REGION/INSTANCE. What names the flag or argument, for errors.
func parseHolder(what, text string) (*tokenleasev1.Holder, error) {
	region, instance, found := strings.Cut(text, "/")
	if !found || strings.ContainsAny(text, "*?") {
		return nil, usageErrorf("%s: want one REGION/INSTANCE such as eu/limiter-0, not %.80q", what, text)
	}
	h := &tokenleasev1.Holder{Region: region, Instance: instance}
	return h, validRequest(&tokenleasev1.ShowHolderRequest{Holder: h})
}

// holderName is a holder in one word.
func holderName(h *tokenleasev1.Holder) string { return h.GetRegion() + "/" + h.GetInstance() }

// ageInWords is how long ago a point in time was, by the wall clock of this machine:
// as coarse as people say it. Empty for one that is not known.
func (p *program) ageInWords(unixMs int64) string {
	if unixMs == 0 {
		return ""
	}
	return spanInWords(p.now().Sub(time.UnixMilli(unixMs))) + " ago"
}

// momentAndAge is a point in time and how long ago that was.
func (p *program) momentAndAge(unixMs int64) string {
	if unixMs == 0 {
		return "at an unknown time"
	}
	return moment(unixMs) + " (" + p.ageInWords(unixMs) + ")"
}

// spanInWords is a length of time, rounded down to what matters: seconds, minutes,
// hours or days. Clocks of machines differ a little: less than nothing is nothing.
func spanInWords(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return d.Truncate(time.Second).String()
	case d < 2*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Hour).String(), "0m0s")
	}
	return countOf(int64(d/(24*time.Hour)), "day")
}
