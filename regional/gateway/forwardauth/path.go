package forwardauth

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// maxURIBytes is the longest URI that is read.
const maxURIBytes = 16 << 10

// maxEncodings is how often something may be encoded.
const maxEncodings = 3

// target is the path of a request.
type target struct {
	segments []string // decoded once
	// sure is how many of them everybody reads alike. Of what follows, services may
	// make anything, but for a way up.
	sure int
}

// parseTarget reads a path and query as a client sent them. The problem is empty
// if that worked.
func parseTarget(uri string) (t target, problem string) {
	switch {
	case len(uri) > maxURIBytes:
		return target{}, "is too long"
	case !strings.HasPrefix(uri, "/"):
		return target{}, "does not begin with a slash"
	}
	path, _, _ := strings.Cut(uri, "?")
	raw := strings.Split(path[1:], "/")
	if raw[len(raw)-1] == "" {
		raw = raw[:len(raw)-1] // a slash at the end makes no other path
	}
	t = target{segments: make([]string, 0, len(raw)), sure: -1}
	for i, text := range raw {
		segment, alike, problem := parseSegment(text)
		if problem != "" {
			return target{}, problem
		}
		if !alike && t.sure < 0 {
			t.sure = i
		}
		t.segments = append(t.segments, segment)
	}
	if t.sure < 0 {
		t.sure = len(t.segments)
	}
	return t, ""
}

// parseSegment decodes one segment. It says whether every service reads it alike,
// or why none should have to read it.
func parseSegment(raw string) (segment string, alike bool, problem string) {
	if strings.Contains(raw, "#") {
		return "", false, "has a fragment"
	}
	segment, valid := unescape(raw)
	if !valid {
		return "", false, "has an escape that is not valid"
	}
	deepest := segment
	for range maxEncodings {
		if problem := stageProblem(deepest); problem != "" {
			return "", false, problem
		}
		next, _ := unescape(deepest)
		if next == deepest {
			return segment, segment != "" && deepest == segment && !strings.ContainsAny(segment, "/;?#"), ""
		}
		deepest = next
	}
	return "", false, "is encoded too often"
}

// stageProblem says why a segment, decoded some number of times, is refused.
func stageProblem(stage string) string {
	if !utf8.ValidString(stage) {
		return "is not UTF-8"
	}
	for i := 0; i < len(stage); i++ {
		switch c := stage[i]; {
		case c < ' ' || c == 0x7f:
			return "has a control character"
		case c == '\\':
			return "has a backslash"
		}
	}
	for piece := range strings.SplitSeq(stage, "/") {
		name, _, _ := strings.Cut(piece, ";")
		if name == "." || name == ".." {
			return "has a dot segment"
		}
	}
	return ""
}

// unescape decodes the escapes of a text once, and leaves what is not one. It says
// whether every percent sign began an escape.
func unescape(text string) (decoded string, valid bool) {
	if !strings.Contains(text, "%") {
		return text, true
	}
	valid = true
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' {
			if i+2 < len(text) {
				if c, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
					out = append(out, c...)
					i += 2
					continue
				}
			}
			valid = false
		}
		out = append(out, text[i])
	}
	return string(out), valid
}
