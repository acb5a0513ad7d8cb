package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
)

// maxDecodeError is the longest text of an error about JSON, in bytes.
const maxDecodeError = 256

// jsonCodec is Connect's own JSON codec, but for errors of bounded length: the
// decoder quotes a value that it cannot read in full, so that a number of ten
// megabytes would come back as an error of ten megabytes, and into every log.
//
// A message has a bounded number of elements, as with binaryCodec. Unknown fields are
// ignored, so that clients and servers need not be of one version.
type jsonCodec struct {
	name string
	most int // elements
}

// Name is the subtype of the content type.
func (c jsonCodec) Name() string { return c.name }

// IsBinary says that the encoding is text.
func (c jsonCodec) IsBinary() bool { return false }

// Marshal encodes a message.
func (c jsonCodec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend encodes a message behind dst.
func (c jsonCodec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	m, err := messageOf(msg)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable encodes a message to the same bytes each time: protojson orders the
// fields, and adds blanks at its pleasure.
func (c jsonCodec) MarshalStable(msg any) ([]byte, error) {
	data, err := c.Marshal(msg)
	if err != nil {
		return nil, err
	}
	compact := bytes.NewBuffer(data[:0])
	if err := json.Compact(compact, data); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// Unmarshal decodes a message of a bounded number of elements.
func (c jsonCodec) Unmarshal(data []byte, msg any) error {
	m, err := messageOf(msg)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("the body is empty: want a JSON object")
	}
	if mayExceed(len(data), c.most) {
		n, err := countJSON(data, c.most)
		if err != nil {
			return err
		}
		if n > c.most {
			return errTooMany(c.most)
		}
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return errors.New(clip(err.Error(), maxDecodeError))
	}
	return nil
}

// clip shortens a text to so many bytes, whole runes, and says so.
func clip(text string, most int) string {
	const mark = " ..."
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}
