package shard

import (
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// Heard is when a shard's owner has heard of holders last. It is kept in memory
// alone, so that holders with nothing to record cost no commit: an owner knows of
// nothing before it began to listen.
type Heard struct {
	Listening time.Duration                  // for how long this owner has listened
	Ago       map[lease.Holder]time.Duration // how long ago each was heard, whatever its epoch
}

// hearFrom notes that a request of the holder has arrived.
func (s *Shard) hearFrom(h lease.Holder, m Moment) { s.heard[h] = m.Mono }

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
	heard := Heard{Ago: make(map[lease.Holder]time.Duration, len(s.heard))}
	if s.listening {
		heard.Listening = max(0, m.Mono-s.listeningSince)
	}
	for h, at := range s.heard {
		heard.Ago[h] = max(0, m.Mono-at)
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
