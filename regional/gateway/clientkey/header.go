package clientkey

import "strings"

// hopsOf reads the entries of a header from the last to the first, each only when
// it is asked for; false when there is none. An entry that cannot be read is
// empty.
func hopsOf(kind Header, lines []string) func() (string, bool) {
	if kind == Forwarded {
		return forwardedHops(lines)
	}
	return commaHops(lines)
}

// commaHops reads X-Forwarded-For from its end, and no further than it is asked.
func commaHops(lines []string) func() (string, bool) {
	rest := "" // what is left of the current line
	more := false
	return func() (string, bool) {
		for !more {
			if len(lines) == 0 {
				return "", false
			}
			rest, lines = lines[len(lines)-1], lines[:len(lines)-1]
			more = strings.Trim(rest, " \t") != "" // an empty line has no entry
		}
		window := rest[max(0, len(rest)-2*maxNodeBytes):]
		comma := strings.LastIndexByte(window, ',')
		if comma < 0 && len(window) < len(rest) {
			return "", true // an entry of that length names no address
		}
		entry := strings.Trim(window[comma+1:], " \t")
		rest, more = rest[:len(rest)-len(window)+max(0, comma)], comma >= 0
		return entry, true
	}
}

// maxForwardedBytes is the longest line of Forwarded that is read.
const maxForwardedBytes = 4096

// forwardedHops reads Forwarded line by line from the last, and each line from its
// beginning, since only so it is known what is quoted.
func forwardedHops(lines []string) func() (string, bool) {
	var entries []string
	return func() (string, bool) {
		for len(entries) == 0 {
			if len(lines) == 0 {
				return "", false
			}
			line := lines[len(lines)-1]
			lines = lines[:len(lines)-1]
			if strings.Trim(line, " \t") == "" {
				continue
			}
			var ok bool
			if entries, ok = forwardedFor(line); !ok {
				return "", true
			}
		}
		entry := entries[len(entries)-1]
		entries = entries[:len(entries)-1]
		return entry, true
	}
}

// forwardedFor is the "for" of each element of a line, empty where an element has
// none; false if the line is not what RFC 7239 has.
func forwardedFor(line string) ([]string, bool) {
	if len(line) > maxForwardedBytes {
		return nil, false
	}
	s := scanner{line}
	var nodes []string
	for {
		node, ok := s.element()
		if !ok {
			return nil, false
		}
		nodes = append(nodes, node)
		if s.rest == "" {
			return nodes, true
		}
		if !s.take(',') {
			return nil, false
		}
	}
}

// scanner reads a line of Forwarded.
type scanner struct{ rest string }

// take reads one byte, if it is the wanted one.
func (s *scanner) take(want byte) bool {
	if s.rest == "" || s.rest[0] != want {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) blanks() { s.rest = strings.TrimLeft(s.rest, " \t") }

// element reads pairs up to a comma or the end, and tells the value of "for".
func (s *scanner) element() (node string, ok bool) {
	var seen [8]string // parameters; a proxy writes four
	for n := 0; ; n++ {
		s.blanks()
		name := strings.ToLower(s.word(isToken))
		if name == "" || n == len(seen) || !s.take('=') {
			return "", false
		}
		value, valid := s.value()
		for _, other := range seen[:n] {
			valid = valid && other != name
		}
		if !valid {
			return "", false
		}
		seen[n] = name
		if name == "for" {
			node = value
		}
		s.blanks()
		if !s.take(';') {
			return node, true
		}
	}
}

// word reads bytes of a kind.
func (s *scanner) word(kind func(byte) bool) string {
	n := 0
	for n < len(s.rest) && kind(s.rest[n]) {
		n++
	}
	word := s.rest[:n]
	s.rest = s.rest[n:]
	return word
}

// value reads a token or a quoted string. Addresses with ports, and IPv6, want
// quotes; proxies that leave them out are understood.
func (s *scanner) value() (string, bool) {
	if !s.take('"') {
		value := s.word(func(c byte) bool { return isToken(c) || c == ':' || c == '[' || c == ']' })
		return value, value != ""
	}
	var value strings.Builder
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return value.String(), true
		case c == '\\' && s.rest != "":
			c = s.rest[0]
			s.rest = s.rest[1:]
		}
		value.WriteByte(c)
	}
	return "", false
}

// isToken says whether a byte may stand in a token of RFC 9110.
func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
