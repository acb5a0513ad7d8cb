package edge

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// An empty message takes two bytes of a request and hundreds in memory, so a bound on
// bytes alone lets a few kilobytes, compressed, become gigabytes before anything
// looks at them. So the elements of a request are counted before it is decoded, and
// without allocating: an element is a message below the request's own, at whatever
// depth, or an element of a list.

// maxJSONDepth is how deep arrays and objects may be nested in JSON whose elements
// have to be counted; the deepest request needs six.
const maxJSONDepth = 64

// errDepth is for JSON beyond that.
var errDepth = fmt.Errorf("arrays and objects are nested more than %d deep", maxJSONDepth)

// errTooMany is for requests of more elements than may be.
func errTooMany(most int) error {
	return fmt.Errorf("the request has more than %d elements, which are its messages and what is in its lists: send it in parts", most)
}

// mayExceed says whether so many bytes can be more than most elements: each takes two
// at least, in either encoding. Nearly all requests are spared the count by that.
func mayExceed(bytes, most int) bool { return bytes/2 >= most }

// shape is which fields of a message are elements, by their numbers. What is counted
// has a tag of its own: numbers of a list that stand in one field take eight bytes each
// in memory at the most, which the bound on bytes bounds well enough.
type shape struct{ fields []*element }

// element is a field whose values are counted.
type element struct {
	message *shape // of its messages; nil: it is a list of texts or numbers
}

// field is the element of a number; nil: it is none.
func (s *shape) field(number protowire.Number) *element {
	if int(number) >= len(s.fields) {
		return nil
	}
	return s.fields[number]
}

// shapes are those of the messages that were seen, by descriptor.
var shapes sync.Map //nolint:gochecknoglobals // a cache of what is known when compiled

// shapeOf is the shape of a message.
func shapeOf(d protoreflect.MessageDescriptor) *shape {
	known, ok := shapes.Load(d)
	if !ok {
		known, _ = shapes.LoadOrStore(d, makeShape(d, map[protoreflect.FullName]*shape{}))
	}
	s, _ := known.(*shape) // nothing else is stored
	return s
}

// makeShape makes the shape of a message, and of those below it that are not in made.
func makeShape(d protoreflect.MessageDescriptor, made map[protoreflect.FullName]*shape) *shape {
	if known, ok := made[d.FullName()]; ok {
		return known
	}
	s := &shape{}
	made[d.FullName()] = s
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		e := &element{}
		switch {
		case f.Message() != nil:
			e.message = makeShape(f.Message(), made)
		case !f.IsList():
			continue
		}
		s.fields = append(s.fields, make([]*element, max(0, int(f.Number())+1-len(s.fields)))...)
		s.fields[f.Number()] = e
	}
	return s
}

// count is how many elements decoding the message would make, at the most; beyond
// most it ends early, with some number above it.
func (s *shape) count(data []byte, most, depth int) (elements int, err error) {
	if depth > protowire.DefaultRecursionLimit {
		return 0, errors.New("messages are nested too deep")
	}
	for len(data) > 0 && elements <= most {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return elements, protowire.ParseError(n)
		}
		data = data[n:]
		e := s.field(number)
		if e != nil {
			elements++
		}
		var value []byte
		if kind == protowire.BytesType {
			value, n = protowire.ConsumeBytes(data)
		} else {
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return elements, protowire.ParseError(n)
		}
		if e != nil && e.message != nil && len(e.message.fields) > 0 { // else nothing below counts
			below, err := e.message.count(value, most-elements, depth+1)
			if err != nil {
				return elements, err
			}
			elements += below
		}
		data = data[n:]
	}
	return elements, nil
}

// countJSON is likewise for JSON: each object but the first, and each element of an
// array that is none. What is not JSON is counted as far as it goes: the decoder
// stops no later.
func countJSON(data []byte, most int) (elements int, err error) {
	var arrays uint64 // which of the brackets that are open are arrays, the innermost lowest
	depth, first := 0, false
	elements = -1 // the request's own object
	for i := 0; i < len(data) && elements <= most; i++ {
		c := data[i]
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '}', ']':
			arrays, depth, first = arrays>>1, max(0, depth-1), false
			continue
		case ',':
			first = arrays&1 == 1
			continue
		}
		if c == '{' || first {
			elements++
		}
		first = false
		switch c {
		case '{', '[':
			if depth++; depth > maxJSONDepth {
				return elements, errDepth
			}
			arrays <<= 1
			if c == '[' {
				arrays, first = arrays|1, true
			}
		case '"':
			i = endOfText(data, i)
		}
	}
	return elements, nil
}

// endOfText is the index of the quote that ends the text which begins at from.
func endOfText(data []byte, from int) int {
	for i := from + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
