package broker

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxRead is the most keys that one call reads to fill a page. A filter that few
	// pass gets a page that is not full, and a token to go on with: so no call takes
	// long, however much is stored.
	maxRead = 20_000
)

// span is a range of keys, [from, end).
type span struct{ from, end string }

// listing is one page of a list in order of key, on its way.
//
// A page begins after the last key of the page before, so pages are stable: what
// stays is told once, whatever comes and goes meanwhile.
type listing struct {
	filters []string // what the list is of; a page token is good for the same alone
	token   string   // of the page before
	size    uint32   // of the page; 0: defaultPage
	spans   []span   // in order
	// pass says from a key alone whether its record may be in the list, before that
	// is decoded. Nil: every one may. jump, if not empty, is a later key before
	// which none is.
	pass func(key string) (ok bool, jump string)
	// take decodes a record, and says whether it is in the list.
	take func(store.KeyValue) (bool, error)
}

// list reads a page. next is empty at the end of the list.
func (v *view) list(l listing) (next string, err error) {
	after, err := l.after()
	if err != nil {
		return "", err
	}
	size := l.size
	if size == 0 {
		size = defaultPage
	}
	left, room := min(size, maxPage), maxRead
	for _, s := range l.spans {
		if s.end <= after {
			continue
		}
		from := max(s.from, after)
		for from != "" && from < s.end {
			if left == 0 || room <= 0 {
				return l.next(from), nil
			}
			if from, err = v.listSome(l, span{from, s.end}, &left, &room); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// listSome reads on in a span, and returns where to go on; empty at its end.
func (v *view) listSome(l listing, s span, left *uint32, room *int) (from string, err error) {
	limit := int64(readPage)
	if l.pass == nil {
		limit = min(limit, int64(*left)) // all of it, or most
	}
	res, err := v.read(store.RangeRequest{Key: s.from, End: s.end, Limit: limit})
	if err != nil {
		return "", err
	}
	*room -= max(1, len(res.KVs))
	from = s.from
	for _, kv := range res.KVs {
		if kv.Key < from {
			continue // jumped over
		}
		from = kv.Key + "\x00"
		if l.pass != nil {
			ok, jump := l.pass(kv.Key)
			if !ok {
				from = max(from, jump)
				continue
			}
		}
		ok, err := l.take(kv)
		if err != nil {
			return "", err
		}
		if ok {
			if *left--; *left == 0 {
				break
			}
		}
	}
	if *left > 0 && !res.More {
		return "", nil
	}
	return from, nil
}

// bound tells lists with other filters apart.
func (l listing) bound() []byte {
	h := fnv.New64a()
	for _, f := range l.filters {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(f)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(f))
	}
	return h.Sum(nil)
}

// next is the token of the page that begins at a key.
func (l listing) next(from string) string {
	return base64.RawURLEncoding.EncodeToString(append(l.bound(), from...))
}

// after is the key that the token names; empty for the first page.
func (l listing) after() (string, error) {
	if l.token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(l.token)
	bound := l.bound()
	switch {
	case err != nil || len(raw) <= len(bound):
		return "", connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: not one that was returned by a page before"))
	case string(raw[:len(bound)]) != string(bound):
		return "", connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: of a list with other filters; repeat the filters of the first page, or begin without a token"))
	}
	return string(raw[len(bound):]), nil
}

// matches says that value passes the filter; an empty filter passes all.
func matches(filter, value string) bool { return filter == "" || filter == value }

// contains says that value has the text in it, without regard to case.
func contains(value, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(value), strings.ToLower(text))
}

// records reads single keys, which are in order, and calls take for those that there
// are. Where many of them are close together it reads ranges, and single keys where
// they are far apart.
func (v *view) records(keys []string, take func(store.KeyValue) error) error {
	limit := 1
	for len(keys) > 0 {
		from, end := keys[0], keys[min(len(keys), limit)-1]+"\x00"
		res, err := v.read(store.RangeRequest{Key: from, End: end, Limit: int64(min(2*limit, readPage))})
		if err != nil {
			return err
		}
		found := 0
		for _, kv := range res.KVs {
			for len(keys) > 0 && keys[0] < kv.Key {
				keys = keys[1:] // not stored
			}
			if len(keys) > 0 && keys[0] == kv.Key {
				keys, found = keys[1:], found+1
				if err := take(kv); err != nil {
					return err
				}
			}
		}
		if !res.More {
			for len(keys) > 0 && keys[0] < end {
				keys = keys[1:] // not stored
			}
		}
		if 2*found >= len(res.KVs) {
			limit = min(2*limit, readPage)
		} else {
			limit = max(1, limit/4)
		}
	}
	return nil
}
