package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Bounds of what is remembered of grants, for each shard.
const (
	maxEvents    = 32    // of one grant: the first, and the newest
	maxStories   = 8_192 // grants that are out
	maxEnded     = 4_096 // grants that have ended
	endedFor     = time.Hour
	maxFencings  = 8 // of one holder
	maxSaidBytes = 256
)

// What is something that can happen to a grant.
type What uint8

// What happens to grants.
const (
	Opened    What = iota // credit was given under a new grant
	ToppedUp              // more was given
	Reported              // its holder told what it spent
	Returned              // its holder gave some back
	Recalled              // its holder was asked to give some back
	Installed             // its budget came under another version of its policy
	Held                  // its holder ended it, and work may still hold slots of it
	Closed                // its holder ended it
	Accounted             // a final account of its epoch ended it
	Orphaned              // its epoch was fenced before it had accounted for it
	Attested              // an operator's attestation ended it
	Lapsed                // its deadline ended it
)

// String is the word for it.
func (w What) String() string {
	return [...]string{"opened", "topped-up", "reported", "returned", "recalled", "policy", "held", "closed", "accounted", "orphaned", "resolved", "lapsed"}[w]
}

// Event is something that happened to a grant, and its counters after it. Equal
// ones that follow each other are one.
type Event struct {
	UnixMs                  int64 // of the last of them
	Ledger                  lease.Time
	Issued, Spent, Returned int64 // tokens
	Count                   int64 // how many there were
	What                    What
	Detail                  string
}

// Story is what the owner of a shard remembers of a grant. It is kept in memory:
// what happened before this owner began, or is too long ago, is not in it.
type Story struct {
	Key    lease.Key
	Grant  lease.Grant // as it was committed last
	Opened int64       // by the wall clock, in milliseconds since 1970
	Ended  bool
	Events []Event // in order of time

	endedAt time.Duration // on the monotonic clock
}

// stories are those of one shard, bounded.
type stories struct {
	live  map[lease.GrantID]*Story
	order []lease.GrantID // of live, the oldest first, with some that are not any more
	ended []*Story        // the oldest first
	fence map[lease.Holder][]Fencing
}

// Fencing is a moment at which epochs of a holder were fenced.
type Fencing struct {
	MinEpoch uint64 // the epochs below were
	UnixMs   int64
	Ledger   lease.Time
}

func newStories() stories {
	return stories{live: map[lease.GrantID]*Story{}, fence: map[lease.Holder][]Fencing{}}
}

// chronicle remembers what a committed batch has done. It comes before the batch
// is clean. A grant that is reported again and again costs no memory.
func (s *Shard) chronicle(b *batch) {
	for _, e := range b.entries {
		for _, id := range e.puts {
			if g := e.ledger.Grant(id); g != nil {
				s.changed(b, e, g)
			}
		}
	}
	for _, e := range b.installed {
		detail := fmt.Sprintf("version %d", e.ledger.Rule.Version)
		for i := range e.ledger.Grants {
			g := &e.ledger.Grants[i]
			s.story(e.key, g, e.opened[g.ID]).add(s.event(Installed, g, detail))
		}
	}
	for _, r := range b.recalled {
		if g := r.entry.ledger.Live(r.holder, r.epoch); g != nil {
			s.story(r.entry.key, g, r.entry.opened[g.ID]).add(s.event(Recalled, g, ""))
		}
	}
	for _, e := range b.ended {
		s.over(e)
	}
	for _, f := range b.fences {
		s.fenced(f)
	}
}

// changed tells from the counters of a grant what has happened to it.
func (s *Shard) changed(b *batch, e *entry, g *lease.Grant) {
	story, known := s.stories.live[g.ID]
	if !known {
		story = s.story(e.key, g, e.opened[g.ID])
	}
	what, was := Reported, story.Grant
	switch {
	case !known && g.Opened >= b.at:
		what = Opened
	case g.Kept && !was.Kept:
		what = Held
	case g.Issued > was.Issued:
		what = ToppedUp
	case g.Returned > was.Returned:
		what = Returned
	}
	story.Grant = *g
	story.add(s.event(what, g, ""))
}

func (s *Shard) event(what What, g *lease.Grant, detail string) Event {
	return Event{
		UnixMs: s.moment.UnixMs, Ledger: s.now, What: what, Issued: g.Issued, Spent: g.Spent, Returned: g.Returned, Count: 1, Detail: detail,
	}
}

// add appends an event, or counts it with the one before. Where there are too many,
// the second is forgotten: the first says where the grant comes from.
func (st *Story) add(e Event) {
	if last := len(st.Events) - 1; last >= 0 && st.Events[last].What == e.What && st.Events[last].Detail == e.Detail {
		e.Count += st.Events[last].Count
		st.Events[last] = e
		return
	}
	if len(st.Events) == maxEvents {
		st.Events = slices.Delete(st.Events, 1, 2)
	}
	st.Events = append(st.Events, e)
}

// story is that of a grant which is out.
func (s *Shard) story(key lease.Key, g *lease.Grant, openedUnixMs int64) *Story {
	st := &s.stories
	if story := st.live[g.ID]; story != nil {
		return story
	}
	story := &Story{Key: key, Grant: *g, Opened: openedUnixMs}
	st.live[g.ID] = story
	st.order = append(st.order, g.ID)
	for len(st.live) > maxStories {
		delete(st.live, st.order[0])
		st.order = st.order[1:]
	}
	if len(st.order) > 2*maxStories { // most have ended
		st.order = slices.DeleteFunc(st.order, func(id lease.GrantID) bool { return st.live[id] == nil })
	}
	return story
}

// recalled is credit that was called back in a batch.
type recalled struct {
	entry  *entry
	holder lease.Holder
	epoch  uint64
}

// ending is a grant that ends in a batch: how it was, how it ended, and why.
type ending struct {
	key    lease.Key
	was    lease.Grant
	opened int64
	what   What
	spent  int64 // tokens that count as spent in the end
	detail string
}

// over notes the end of a grant. What was not spent of it has come back.
func (s *Shard) over(e ending) {
	st := &s.stories
	story := s.story(e.key, &e.was, e.opened)
	g := e.was
	g.Spent = min(max(g.Spent, e.spent), g.Issued-g.Returned)
	g.Returned = g.Issued - g.Spent
	story.Grant, story.Ended, story.endedAt = g, true, s.moment.Mono
	story.add(s.event(e.what, &g, e.detail))
	delete(st.live, g.ID)
	st.ended = append(st.ended, story)
	if len(st.ended) > maxEnded {
		st.ended = slices.Delete(st.ended, 0, len(st.ended)-maxEnded)
	}
	s.forgetEnded()
}

// forgetEnded drops the stories of grants that ended too long ago.
func (s *Shard) forgetEnded() {
	st, n := &s.stories, 0
	for n < len(st.ended) && s.moment.Mono-st.ended[n].endedAt > endedFor {
		n++
	}
	st.ended = slices.Delete(st.ended, 0, n)
}

// fencedBefore takes over a fence that was stored: nobody remembers when it was
// raised.
func (s *Shard) fencedBefore(f lease.Fence) {
	known := s.stories.fence[f.Holder]
	if n := len(known); n == 0 || known[n-1].MinEpoch < f.MinEpoch {
		s.stories.fence[f.Holder] = append(known, Fencing{MinEpoch: f.MinEpoch})
	}
}

// fenced notes that epochs of a holder were fenced.
func (s *Shard) fenced(f *fence) {
	known := s.stories.fence[f.Holder]
	if n := len(known); n > 0 && known[n-1].MinEpoch >= f.MinEpoch {
		return
	}
	if len(known) == maxFencings {
		known = slices.Delete(known, 0, 1)
	}
	s.stories.fence[f.Holder] = append(known, Fencing{MinEpoch: f.MinEpoch, UnixMs: s.moment.UnixMs, Ledger: s.now})
}

// sourceText says on what a final account rests.
func sourceText(source pb.AccountSource) string {
	if source == pb.AccountSource_ACCOUNT_SOURCE_JOURNAL {
		return "by the journal of its holder"
	}
	return "by its holder"
}

// saidText is whose word something rests on, shortened.
func saidText(by, because string) string {
	text := by + ": " + because
	if len(text) > maxSaidBytes {
		text = strings.ToValidUTF8(text[:maxSaidBytes], "") + "..."
	}
	return text
}

// Telling is what the owner of a shard can tell of a grant.
type Telling struct {
	Story    *Story    // nil: nothing is remembered
	Fencings []Fencing // of the holder, the oldest first; of those with no time nobody remembers when
	SinceMs  int64     // since when this owner remembers, by the wall clock
}

// Tell is what is remembered of a grant. The holder is needed where nothing is
// remembered but its fences.
func (s *Shard) Tell(m Moment, id lease.GrantID, h lease.Holder) Telling {
	t := Telling{SinceMs: s.listeningUnixMs}
	story := s.stories.live[id]
	if at := slices.IndexFunc(s.stories.ended, func(st *Story) bool { return st.Grant.ID == id }); story == nil && at >= 0 {
		story = s.stories.ended[at]
	}
	if story != nil && (!story.Ended || m.Mono-story.endedAt <= endedFor) {
		told := *story
		told.Events = slices.Clone(story.Events)
		t.Story, h = &told, story.Grant.Holder
	}
	t.Fencings = slices.Clone(s.stories.fence[h])
	return t
}
