package record

import "math"

// quick reads a grant in the form in which Encode writes it: flat, without blanks,
// with names that need no escapes. It says false for everything else, which the
// general decoder then judges. Lists of grants are long: this is several times as fast.
func (g *Grant) quick(data []byte) bool {
	r := reader{data: data}
	if !r.skip('{') {
		return false
	}
	for {
		name, ok := r.text()
		if !ok || !r.skip(':') || !g.field(&r, name) {
			return false
		}
		if r.skip(',') {
			continue
		}
		return r.skip('}') && r.at == len(data)
	}
}

// field reads one value.
func (g *Grant) field(r *reader, name []byte) bool {
	switch string(name) {
	case "id":
		return r.string(&g.ID)
	case "account":
		return r.string(&g.Account)
	case "operation":
		return r.string(&g.Operation)
	case "region":
		return r.string(&g.Region)
	case "instance":
		return r.string(&g.Instance)
	case "epoch":
		return r.unsigned(&g.Epoch)
	case "sequence":
		return r.unsigned(&g.Sequence)
	case "issued":
		return r.integer(&g.Issued)
	case "spent":
		return r.integer(&g.Spent)
	case "returned":
		return r.integer(&g.Returned)
	case "owed":
		return r.integer(&g.Owed)
	case "opened_ns":
		return r.integer(&g.OpenedNs)
	case "opened_unix_ms":
		return r.integer(&g.OpenedUnixMs)
	case "policy_version":
		return r.integer(&g.PolicyVersion)
	case "lapses_after_ns":
		return r.integer(&g.LapsesAfterNs)
	case "kept":
		return r.boolean(&g.Kept)
	}
	return false
}

// reader reads plain JSON values. Where one is not plain it says false, and where it
// stands then means nothing.
type reader struct {
	data []byte
	at   int
}

func (r *reader) skip(c byte) bool {
	if r.at < len(r.data) && r.data[r.at] == c {
		r.at++
		return true
	}
	return false
}

// text is a string of ASCII without escapes.
func (r *reader) text() ([]byte, bool) {
	if !r.skip('"') {
		return nil, false
	}
	begun := r.at
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return r.data[begun : r.at-1], true
		case c < ' ' || c == '\\' || c >= 0x80:
			return nil, false
		}
	}
	return nil, false
}

func (r *reader) string(to *string) bool {
	text, ok := r.text()
	if ok {
		*to = string(text)
	}
	return ok
}

func (r *reader) unsigned(to *uint64) bool {
	begun, n := r.at, uint64(0)
	for ; r.at < len(r.data) && r.data[r.at] >= '0' && r.data[r.at] <= '9'; r.at++ {
		digit := uint64(r.data[r.at] - '0')
		if n > (math.MaxUint64-digit)/10 {
			return false
		}
		n = n*10 + digit
	}
	*to = n
	return r.at == begun+1 || r.at > begun && r.data[begun] != '0'
}

func (r *reader) integer(to *int64) bool {
	var n uint64
	if !r.unsigned(&n) || n > math.MaxInt64 {
		return false
	}
	*to = int64(n)
	return true
}

func (r *reader) boolean(to *bool) bool {
	if r.at+4 <= len(r.data) && string(r.data[r.at:r.at+4]) == "true" {
		r.at += 4
		*to = true
		return true
	}
	return false
}
