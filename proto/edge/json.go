package edge

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxDecodeError is the longest text of an error about JSON, in bytes.
const maxDecodeError = 256

// jsonCodec is Connect's own JSON codec, but for errors of bounded length: the
// decoder quotes a value that it cannot read in full, so that a number of ten
// megabytes would come back as an error of ten megabytes, and into every log.
//
// Unknown fields are ignored, so that clients and servers need not be of one
// version.
type jsonCodec struct{ name string }

// Name is the subtype of the content type.
func (c jsonCodec) Name() string { return c.name }

// IsBinary says that the encoding is text.
func (c jsonCodec) IsBinary() bool { return false }

// Marshal encodes a message.
func (c jsonCodec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend encodes a message behind dst.
func (c jsonCodec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", msg)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal decodes a message.
func (c jsonCodec) Unmarshal(data []byte, msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", msg)
	}
	if len(data) == 0 {
		return errors.New("the body is empty: want a JSON object")
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
