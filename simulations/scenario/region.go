package scenario

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// Modes of a region's journal.
const (
	JournalBlock   = "block"
	JournalConfirm = "confirm"
	JournalOff     = "off"
)

// field is an optional field that is read into a place of its own.
func field(name string, read func(node *strictyaml.Node, path string)) strictyaml.Field {
	return strictyaml.Field{Name: name, Read: read}
}

// required is one that has to be there.
func required(name string, read func(node *strictyaml.Node, path string)) strictyaml.Field {
	return strictyaml.Field{Name: name, Required: true, Read: read}
}

// length reads a length of time that is not 0 and no longer than a scenario.
func (r *reader) length(node *strictyaml.Node, path string) time.Duration {
	return r.Duration(node, path, 1, MaxDuration)
}

// regions reads the regions, in which there are not too many limiters.
func (r *reader) regions(node *strictyaml.Node, path string) {
	r.List(node, path, "region", "regions", r.oneRegion)
	limiters := 0
	for _, region := range r.sc.Regions {
		limiters += region.Limiters
	}
	r.unsureNames = r.unsureNames || len(r.sc.Regions) == 0
	if limiters > MaxLimiters {
		r.Faultf(node.Line, path, "have %d limiters in all: want at most %d", limiters, MaxLimiters)
	}
}

func (r *reader) oneRegion(node *strictyaml.Node, path string) {
	out := Region{Limiters: 1, Journal: JournalBlock, RoundTrip: Delay{Base: 20 * time.Millisecond}, Wait: 500 * time.Millisecond}
	r.Mapping(node, path, []strictyaml.Field{
		required("name", func(v *strictyaml.Node, at string) { out.Name = r.processName(v, at, "eu") }),
		field("limiters", func(v *strictyaml.Node, at string) { out.Limiters = int(r.Count(v, at, "limiters", 1, MaxLimiters)) }),
		field("journal", func(v *strictyaml.Node, at string) {
			out.Journal = r.Choice(v, at, JournalBlock, JournalConfirm, JournalOff)
		}),
		field("round-trip", func(v *strictyaml.Node, at string) { out.RoundTrip = r.delay(v, at) }),
		field("wait", func(v *strictyaml.Node, at string) { out.Wait = r.Duration(v, at, 0, maxDelay) }),
		field("clock", func(v *strictyaml.Node, at string) { out.Clock = r.clock(v, at) }),
	})
	r.unsureNames = r.unsureNames || out.Name == ""
	r.sc.Regions = append(r.sc.Regions, out)
}

// brokers reads the brokers.
func (r *reader) brokers(node *strictyaml.Node, path string) {
	r.List(node, path, "broker", "brokers", func(item *strictyaml.Node, at string) {
		var out Broker
		r.Mapping(item, at, []strictyaml.Field{
			required("name", func(v *strictyaml.Node, at string) { out.Name = r.processName(v, at, "broker-1") }),
			field("clock", func(v *strictyaml.Node, at string) { out.Clock = r.clock(v, at) }),
		})
		r.unsureNames = r.unsureNames || out.Name == ""
		r.sc.Brokers = append(r.sc.Brokers, out)
	})
	r.unsureNames = r.unsureNames || len(r.sc.Brokers) == 0
	if n := len(r.sc.Brokers); n > MaxBrokers {
		r.Faultf(node.Line, path, "are %d: want at most %d", n, MaxBrokers)
	}
}

// defaultBrokers are two, if the file names none.
func (r *reader) defaultBrokers() {
	for i := range 2 {
		name := fmt.Sprintf("broker-%d", i+1)
		if p, taken := r.named[name]; taken {
			r.Faultf(p.line, p.path, "%s is the name of a broker, unless brokers are named: want another", strictyaml.Quote(name))
		}
		r.sc.Brokers = append(r.sc.Brokers, Broker{Name: name})
	}
}

// processName reads the name of a region or a broker; all differ.
func (r *reader) processName(node *strictyaml.Node, path, example string) string {
	before := r.Troubles()
	name := r.Name(node, path, maxName, example)
	if r.Troubles() > before {
		return ""
	}
	quoted := strictyaml.Quote(name)
	first, taken := r.named[name]
	switch {
	case strings.Contains(name, "/"):
		r.Faultf(node.Line, path, "%s has a /, which stands between a region and its limiter: remove it", quoted)
	case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`).MatchString(name):
		r.Faultf(node.Line, path, "%s has other characters than names here: want a letter, then letters, digits, - _ and .", quoted)
	case name == AllBrokers || name == TheStore || name == total:
		r.Faultf(node.Line, path, "%s has a meaning of its own: want another name", quoted)
	case taken:
		r.Faultf(node.Line, path, "%s is the name of %s already, in line %d: want another", quoted, strings.TrimSuffix(first.path, ".name"), first.line)
	default:
		r.named[name] = place{node.Line, path}
	}
	return name
}

// clock reads what is wrong with a clock.
func (r *reader) clock(node *strictyaml.Node, path string) Clock {
	var out Clock
	r.Mapping(node, path, []strictyaml.Field{
		field("wall", func(v *strictyaml.Node, at string) { out.Wall = r.Offset(v, at, maxClock) }),
		field("slow", func(v *strictyaml.Node, at string) { out.SlowPercent = r.Percent(v, at, 0, maxSlow) }),
		{Name: "fast", Refused: "a fast clock breaks the premise of the cap (contract C2): want slow"},
	})
	return out
}

// delay reads a round trip: 20ms, or {base: 90ms, jitter: 10ms}.
func (r *reader) delay(node *strictyaml.Node, path string) Delay {
	if !strictyaml.IsMapping(node) {
		return Delay{Base: r.Duration(node, path, 0, maxDelay)}
	}
	var out Delay
	r.Mapping(node, path, []strictyaml.Field{
		required("base", func(v *strictyaml.Node, at string) { out.Base = r.Duration(v, at, 0, maxDelay) }),
		field("jitter", func(v *strictyaml.Node, at string) { out.Jitter = r.Duration(v, at, 0, maxDelay) }),
	})
	return out
}

// store reads the round trip of the store.
func (r *reader) store(node *strictyaml.Node, path string) {
	r.Mapping(node, path, []strictyaml.Field{
		required("round-trip", func(v *strictyaml.Node, at string) { r.sc.Store = r.delay(v, at) }),
	})
}

// link reads a round trip other than the region's.
func (r *reader) link(node *strictyaml.Node, path string) {
	out := Link{Line: node.Line}
	r.Mapping(node, path, []strictyaml.Field{
		required("between", func(v *strictyaml.Node, at string) { out.Ends = r.ends(v, at) }),
		required("round-trip", func(v *strictyaml.Node, at string) { out.RoundTrip = r.delay(v, at) }),
	})
	for _, l := range r.sc.Links {
		if l.Ends == out.Ends || l.Ends == [2]string{out.Ends[1], out.Ends[0]} {
			r.Faultf(node.Line, path, "%s and %s have a link already, in line %d: remove one", out.Ends[0], out.Ends[1], l.Line)
		}
	}
	r.sc.Links = append(r.sc.Links, out)
}
