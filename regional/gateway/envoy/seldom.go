package envoy

import (
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// logInterval is the least time between two entries of one kind.
const logInterval = 10 * time.Second

// seldom logs one entry of each kind in logInterval, and how many it left out.
type seldom struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*quiet
}

// quiet is when the next entry of a kind may be written.
type quiet struct {
	until   time.Time
	skipped int
}

func newSeldom(log *slog.Logger, now func() time.Time) *seldom {
	return &seldom{log: log, now: now, seen: map[string]*quiet{}}
}

// warn logs, or counts. The kinds are few and fixed.
func (s *seldom) warn(kind, text string, args ...any) {
	now := s.now()
	s.mu.Lock()
	q := s.seen[kind]
	if q == nil {
		q = &quiet{}
		s.seen[kind] = q
	}
	if now.Before(q.until) {
		q.skipped++
		s.mu.Unlock()
		return
	}
	skipped := q.skipped
	q.until, q.skipped = now.Add(logInterval), 0
	s.mu.Unlock()
	s.log.Warn(text, append(args, "left_out", skipped)...)
}

// cut bounds what is logged of a text.
func cut(text string) string {
	const most = 64
	if len(text) <= most {
		return strings.ToValidUTF8(text, "?")
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "?") + "..."
}

// keys are the keys of a descriptor, for a log: never the values, which may be
// secret, and no more than a few.
func keys(d *ratelimitcommon.RateLimitDescriptor) []string {
	const most = 8
	var all []string
	for _, e := range d.GetEntries() {
		if len(all) == most {
			return append(all, "...")
		}
		all = append(all, cut(e.GetKey()))
	}
	return all
}
