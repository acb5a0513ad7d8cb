package envoydoctor

import (
	"fmt"
	"strings"
)

// stageOf is the stage of a rate limit.
func stageOf(o object) uint32 {
	var stage uint32
	if v := field(o, "stage"); v != nil {
		fmt.Sscan(fmt.Sprint(v), &stage) //nolint:errcheck // what is no number is stage 0, or Envoy refuses it
	}
	return stage
}

// conditions say when a rate limit makes no descriptor, so that the limiter is not
// asked because of it. There are none if it always does.
func conditions(entry object) []string {
	var all []string
	certain := false
	for _, action := range children(entry, "actions") {
		because, adds := condition(action)
		if because != "" {
			all = append(all, because)
		}
		certain = certain || adds
	}
	if format := words(child(entry, "hits_addend"), "format"); format != "" {
		all = append(all, fmt.Sprintf("%q is no number (hits_addend)", format))
	}
	if len(all) == 0 && !certain {
		all = append(all, "no action adds anything")
	}
	return all
}

// condition says when an action keeps the whole descriptor from being made, and
// whether it always adds an entry.
func condition(action object) (because string, adds bool) {
	for _, kind := range names(action) {
		o := child(action, kind)
		switch snake := under(kind); snake {
		case "generic_key", "remote_address", "masked_remote_address", "source_cluster", "destination_cluster":
			return "", true
		case "request_headers":
			name := words(o, "header_name")
			if strings.HasPrefix(name, ":") {
				return "", true
			}
			return unlessSkipped(o, fmt.Sprintf("the header %q is missing", name)), false
		case "query_parameters":
			return unlessSkipped(o, fmt.Sprintf("the query parameter %q is missing", words(o, "query_parameter_name"))), false
		case "metadata", "dynamic_metadata":
			if words(o, "default_value") != "" {
				return "", true
			}
			return unlessSkipped(o, fmt.Sprintf("the metadata of %q is missing", words(child(o, "metadata_key"), "key"))), false
		default:
			return snake + " does not apply", false
		}
	}
	return "an action is empty", false
}

func unlessSkipped(o object, because string) string {
	if truth(o, "skip_if_absent") {
		return ""
	}
	return because
}

// under is the name of a field in the proto file.
func under(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// entryRemarks warns of what tokenlease does not do for a rate limit, and of what
// can switch it off.
func (d *doctor) entryRemarks(entry object, path string) {
	if d.remarked[identity(entry)] {
		return // it is one of a virtual host, and applies to many routes
	}
	d.remarked[identity(entry)] = true
	if has(entry, "limit") {
		d.warn(path, "limit-override", "a rate limit has a limit of its own: tokenlease refuses such descriptors, as the policy decides", "take limit out")
	}
	if truth(child(entry, "hits_addend"), "is_negative_hits") {
		d.warn(path, "negative-hits", "a rate limit has negative hits: tokenlease refuses such descriptors, as they would mint tokens", "take is_negative_hits out")
	}
	key := words(entry, "disable_key")
	if key == "" {
		return
	}
	key = "ratelimit." + key + ".http_filter_enabled"
	value, ok := d.runtime[key]
	percent, known := percentOf(value)
	if ok && (!known || percent < 100) {
		d.add(Finding{
			Severity: FailsOpen, Rule: "disable-key", Path: path,
			Problem: fmt.Sprintf("the runtime sets %s to %v: only that share of requests is asked about, the others pass", key, value),
			Change:  "take the key out of the runtime's layers, or disable_key out of the rate limit",
		})
		return
	}
	d.warn(path, "disable-key", fmt.Sprintf("the runtime key %s can switch a rate limit off", key), "take disable_key out")
}
