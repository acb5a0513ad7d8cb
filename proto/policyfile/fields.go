package policyfile

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Field is one field of a policy by the names that a file has for them.
type Field struct {
	// Name is the path within the policy, such as "token-bucket.capacity".
	Name string
	// Value is what a file has, without quotes, such as "40", "20 per 1s" or "true".
	Value string

	form form
}

// form is how a value is written.
type form int

const (
	literal form = iota // a number, true or false
	word                // of a few letters and digits, never in quotes in YAML
	name                // in quotes unless it is plainly a name
	text                // always in quotes
)

// Fields are the fields of a valid policy, in the order of a file. Optional ones are
// there where they say something. Equal policies have equal fields, whatever their
// versions and wherever they come from.
func Fields(p *tokenleasev1.Policy) []Field {
	f := fieldList{{"operation", p.GetOperation(), name}}
	f.rule(p)
	f.number("cost", p.GetDefaultCostTokens())
	if p.GetMaxCostTokens() > 0 {
		f.number("max-cost", p.GetMaxCostTokens())
	}
	f.truth("allow-zero-cost", p.GetAllowZeroCost())
	share := p.GetMaxSharePercent()
	if share == 0 {
		share = tokenleasev1.MaxSharePercent
	}
	f.add("max-share", strconv.Itoa(int(share))+"%", word)
	if hold := time.Duration(p.GetHoldNs()); hold != 0 && hold != tokenleasev1.DefaultHold {
		f.add("hold", strictyaml.FormatDuration(hold), word)
	}
	f.truth("postpaid", p.GetPostpaid())
	f.truth("shadow", p.GetShadow())
	f.truth("disabled", p.GetDisabled())
	if p.GetDisabledBecause() != "" {
		f.add("disabled-because", p.GetDisabledBecause(), text)
	}
	if p.GetMaxStalenessNs() != 0 {
		f.duration("max-staleness", p.GetMaxStalenessNs())
	}
	if p.GetReclaim() == tokenleasev1.Reclaim_RECLAIM_DEADLINE {
		f.add("reclaim", "deadline", word)
		f.duration("reclaim-margin", p.GetReclaimMarginNs())
	} else {
		f.add("reclaim", "proof", word)
	}
	f.unavailable(p)
	return f
}

// fieldList collects fields.
type fieldList []Field

func (f *fieldList) add(name, value string, form form) { *f = append(*f, Field{name, value, form}) }

func (f *fieldList) number(name string, n int64) {
	f.add(name, strconv.FormatInt(n, 10), literal)
}

// truth adds a field that says something only when it is true.
func (f *fieldList) truth(name string, value bool) {
	if value {
		f.add(name, "true", literal)
	}
}

// rate adds a refill. One of nothing is the number 0.
func (f *fieldList) rate(name string, tokens, intervalNs int64) {
	if tokens <= 0 {
		f.number(name, 0)
		return
	}
	f.add(name, strictyaml.FormatRate(tokens, time.Duration(intervalNs)), word)
}

func (f *fieldList) duration(name string, ns int64) {
	f.add(name, strictyaml.FormatDuration(time.Duration(ns)), word)
}

// rule adds the rule.
func (f *fieldList) rule(p *tokenleasev1.Policy) {
	switch {
	case p.GetFixedWindow() != nil:
		w := p.GetFixedWindow()
		f.number("fixed-window.limit", w.GetLimitTokens())
		f.add("fixed-window.period", periodName(w.GetPeriod()), word)
		f.add("fixed-window.time-zone", zoneName(w.GetTimeZone()), word) // which is of letters, digits, and /_+-
	case p.GetRollingWindow() != nil:
		f.number("rolling-window.limit", p.GetRollingWindow().GetLimitTokens())
		f.duration("rolling-window.window", p.GetRollingWindow().GetWindowNs())
	case p.GetConcurrency() != nil:
		f.number("concurrency.slots", p.GetConcurrency().GetSlots())
	default:
		bucket := p.GetTokenBucket()
		f.number("token-bucket.capacity", bucket.GetCapacityTokens())
		f.rate("token-bucket.refill", bucket.GetRefillTokens(), bucket.GetRefillIntervalNs())
	}
}

// unavailable adds what is answered without authority.
func (f *fieldList) unavailable(p *tokenleasev1.Policy) {
	local := p.GetLocal()
	if local == nil {
		f.add("on-unavailable", "reject", word)
		return
	}
	f.add("on-unavailable", "local", word)
	f.number("local.capacity", local.GetCapacityTokens())
	f.rate("local.refill", local.GetRefillTokens(), local.GetRefillIntervalNs())
	f.duration("local.for", local.GetForNs())
}

// group is the field that a field stands in, empty for one of the policy itself.
func (f Field) group() (group, own string) {
	if group, own, found := strings.Cut(f.Name, "."); found {
		return group, own
	}
	return "", f.Name
}

// yaml is the value as a file has it.
func (f Field) yaml() string {
	switch f.form {
	case name:
		return strictyaml.FormatName(f.Value)
	case text:
		return strconv.Quote(f.Value) // Go's escapes are all escapes of YAML as well
	case literal, word:
	}
	return f.Value
}

// json is the value in JSON.
func (f Field) json() []byte {
	if f.form == literal {
		return []byte(f.Value)
	}
	quoted, _ := json.Marshal(f.Value) //nolint:errchkjson // a text always can be
	return quoted
}

// JSON writes a valid policy as an object with the fields that a file has: what
// stands in a list of policies, as JSON. [ReadPolicy] reads it back from a node of
// [strictyaml.Parser.JSON].
func JSON(p *tokenleasev1.Policy) json.RawMessage {
	b, open := []byte{'{'}, ""
	for i, f := range Fields(p) {
		group, own := f.group()
		if group != open && open != "" {
			b = append(b, '}')
		}
		if i > 0 {
			b = append(b, ',')
		}
		if group != open && group != "" {
			b = append(append(b, strconv.Quote(group)...), ':', '{')
		} else if group != "" && b[len(b)-1] != ',' {
			b = append(b, ',')
		}
		open = group
		b = append(append(append(b, strconv.Quote(own)...), ':'), f.json()...)
	}
	if open != "" {
		b = append(b, '}')
	}
	return append(b, '}')
}
