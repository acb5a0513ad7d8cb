package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/tokenlease/tokenlease/proto/strictjson"
)

// The decoder of encoding/json takes a name in any case, the last of two fields of
// one name, and replaces bytes that are no UTF-8. Here each field is read by its
// token, and each of these is refused.

// maxShown is how much of a value a message repeats, in bytes.
const maxShown = 40

// field is a field of an object, and how its value is read.
type field struct {
	name     string
	required bool
	read     func(d *decoder, path string) error
}

// decoder reads one body.
type decoder struct{ *json.Decoder }

// readBody reads a body that is one object.
func readBody(body []byte, fields []field) error {
	if err := strictjson.Check(body); err != nil {
		return err
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(body))}
	d.UseNumber()
	return d.object("", fields)
}

// next is the next token. The body has been seen to be valid, so there is one.
func (d *decoder) next() (json.Token, error) {
	token, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	return token, err
}

// object reads an object with the given fields.
func (d *decoder) object(path string, fields []field) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return fault(path, "must be an object, is %s", kindOf(token))
	}
	seen := make([]bool, len(fields))
	for d.More() {
		if err := d.field(path, fields, seen); err != nil {
			return err
		}
	}
	if _, err := d.next(); err != nil {
		return err
	}
	for i, f := range fields {
		if f.required && !seen[i] {
			return fault(join(path, f.name), "is missing")
		}
	}
	return nil
}

// field reads a name and its value.
func (d *decoder) field(path string, fields []field, seen []bool) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	name, _ := token.(string) // the names of valid JSON are
	for i, f := range fields {
		if f.name != name {
			continue
		}
		if seen[i] {
			return fault(join(path, name), "stands twice")
		}
		seen[i] = true
		return f.read(d, join(path, name))
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return fault(path, "has the unknown field %s: want %s", quote(name), strings.Join(names, ", "))
}

// text reads a string of UTF-8 without control characters.
func (d *decoder) text(path string, to *string) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	text, ok := token.(string)
	switch {
	case !ok:
		return fault(path, "must be a text, is %s", kindOf(token))
	case strings.ContainsFunc(text, unicode.IsControl):
		return fault(path, "must have no control characters")
	}
	*to = text
	return nil
}

// number reads a whole number of 0 to 2^63-1.
func (d *decoder) number(path string, to *int64) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	literal, ok := token.(json.Number)
	if !ok {
		return fault(path, "must be a whole number, is %s", kindOf(token))
	}
	digits := literal.String()
	switch {
	case strings.HasPrefix(digits, "-"):
		return fault(path, "must be 0 or more, is %s", clip(digits))
	case strings.ContainsAny(digits, ".eE"):
		return fault(path, "must be a whole number in plain digits, is %s", clip(digits))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return fault(path, "must be at most 9223372036854775807, is %s", clip(digits))
	}
	*to = n
	return nil
}

// list reads the elements of a list.
func (d *decoder) list(path string, most int, read func(path string) error) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	if token != json.Delim('[') {
		return fault(path, "must be a list, is %s", kindOf(token))
	}
	n := 0
	for ; d.More(); n++ {
		if n == most {
			return fault(path, "must have 1 to %d elements, has more", most)
		}
		if err := read(path + "[" + strconv.Itoa(n) + "]"); err != nil {
			return err
		}
	}
	if n == 0 {
		return fault(path, "must have 1 to %d elements, has 0", most)
	}
	_, err = d.next()
	return err
}

// kindOf is what a token begins, for people.
func kindOf(token json.Token) string {
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	}
	return "null"
}

// fault names what is wrong with a value; the body as such has no path.
func fault(path, format string, args ...any) error {
	if path == "" {
		path = "the body"
	} else {
		path += ":"
	}
	return fmt.Errorf("%s "+format, append([]any{path}, args...)...)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// quote shows a text in quotes, and not more of it than maxShown.
func quote(text string) string {
	if len(text) <= maxShown {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:maxShown], "")) + "..."
}

// clip shows digits, and not more of them than maxShown.
func clip(digits string) string {
	if len(digits) <= maxShown {
		return digits
	}
	return digits[:maxShown] + "..."
}
