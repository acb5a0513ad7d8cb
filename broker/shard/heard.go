package shard

import (
	"maps"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Heard is when a shard's owner has heard of holders last. It is kept in memory
// alone, so that holders with nothing to record cost no commit: an owner knows of
// nothing before it began to listen.
type Heard struct {
	Listening time.Duration                  // for how long this owner has listened
	Ago       map[lease.Holder]time.Duration // how long ago each was heard, whatever its epoch
	// RoundTrips is how long a request to this shard and its answer take each, as a
	// request that was admitted has told within RoundTripsFor; above 0, at most a minute.
	RoundTrips map[lease.Holder]time.Duration
}

// RoundTripsFor is for how long the round trip that a holder has told counts.
const RoundTripsFor = 5 * time.Minute

// maxRoundTrip bounds what holders tell. Requests of limiters do not take longer.
const maxRoundTrip = time.Minute

// roundTrip is what a holder has told, and when on the monotonic clock.
type roundTrip struct{ took, at time.Duration }

// hearFrom notes that a request of the holder has arrived, unless nobody knows of such
// a holder yet: a request that turns out to be of one is noted when it is admitted.
func (s *Shard) hearFrom(h lease.Holder, m Moment) {
	if s.fences[h] != nil {
		s.heard[h] = m.Mono
	}
}

// forgetRoundTrips drops those that do not count any more.
func (s *Shard) forgetRoundTrips() {
	maps.DeleteFunc(s.roundTrips, func(_ lease.Holder, told roundTrip) bool { return s.moment.Mono-told.at > RoundTripsFor })
}

// hearRoundTrip notes how long the holder says that its requests take; 0: it has not
// measured that.
func (s *Shard) hearRoundTrip(h lease.Holder, took time.Duration, m Moment) {
	if took > 0 {
		s.roundTrips[h] = roundTrip{min(took, maxRoundTrip), m.Mono}
	}
}

// lastHeard is when the holder was heard last, by the wall clock in milliseconds
// since 1970, as far as this owner or the store knows; 0: never.
func (s *Shard) lastHeard(h lease.Holder) int64 {
	at, ok := s.heard[h]
	if !ok {
		return s.heardBefore[h]
	}
	return s.moment.UnixMs - (s.moment.Mono - at).Milliseconds()
}

// Heard is when holders were heard. A request that waits for credit says that its
// holder is there, and so does a subscription: a holder in a steady state sends nothing
// else for a while.
func (s *Shard) Heard(m Moment) Heard {
	heard := Heard{Ago: make(map[lease.Holder]time.Duration, len(s.heard)), RoundTrips: make(map[lease.Holder]time.Duration, len(s.roundTrips))}
	if s.listening {
		heard.Listening = max(0, m.Mono-s.listeningSince)
	}
	for h, at := range s.heard {
		heard.Ago[h] = max(0, m.Mono-at)
	}
	for h, told := range s.roundTrips {
		if m.Mono-told.at <= RoundTripsFor {
			heard.RoundTrips[h] = told.took
		}
	}
	for _, j := range s.parked {
		if !j.canceled {
			heard.Ago[j.holder] = 0
		}
	}
	for _, sub := range s.subs {
		heard.Ago[sub.holder] = 0
	}
	return heard
}

// listen notes that the shard is served from now on.
func (s *Shard) listen(m Moment) {
	if !s.listening {
		s.listening, s.listeningSince, s.listeningUnixMs = true, m.Mono, m.UnixMs
	}
}
