package edge

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// binaryCodec is Connect's own codec of binary protobuf, but for the bound on what
// a message may become in memory.
type binaryCodec struct{ most int } // elements

// Name is the subtype of the content type.
func (binaryCodec) Name() string { return "proto" }

// IsBinary says that the encoding is no text.
func (binaryCodec) IsBinary() bool { return true }

// Marshal encodes a message.
func (c binaryCodec) Marshal(msg any) ([]byte, error) { return c.MarshalAppend(nil, msg) }

// MarshalAppend encodes a message behind dst.
func (binaryCodec) MarshalAppend(dst []byte, msg any) ([]byte, error) {
	m, err := messageOf(msg)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// MarshalStable encodes a message to the same bytes each time.
func (binaryCodec) MarshalStable(msg any) ([]byte, error) {
	m, err := messageOf(msg)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Unmarshal decodes a message of a bounded number of elements.
func (c binaryCodec) Unmarshal(data []byte, msg any) error {
	m, err := messageOf(msg)
	if err != nil {
		return err
	}
	if mayExceed(len(data), c.most) {
		n, err := shapeOf(m.ProtoReflect().Descriptor()).count(data, c.most, 0)
		if err != nil {
			return fmt.Errorf("unmarshal into %T: %w", msg, err)
		}
		if n > c.most {
			return errTooMany(c.most)
		}
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("unmarshal into %T: %w", msg, err)
	}
	return nil
}

// messageOf is what a codec is given, if it is a message.
func messageOf(msg any) (proto.Message, error) {
	m, ok := msg.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", msg)
	}
	return m, nil
}
