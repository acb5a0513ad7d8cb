package explore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Two parts of the world are the same when their encodings are: all fields,
// exported or not, in order, maps in order of their keys, pointers by what they
// point to, and by their first place when it is reached again. Left out is what
// decides nothing: functions, loggers, channels, counters for displays, and the
// bookkeeping of messages and locks.

// digest is a fingerprint of 128 bits.
type digest [16]byte

func (p digest) compare(other digest) int { return bytes.Compare(p[:], other[:]) }

// encoding is one encoding on its way.
type encoding struct {
	out  []byte
	seen map[unsafe.Pointer]uint32
}

// encoder appends the encoding of what is at p.
type encoder func(e *encoding, p unsafe.Pointer)

var (
	encoders  sync.Map // reflect.Type -> encoder
	encodings = sync.Pool{New: func() any { return &encoding{seen: map[unsafe.Pointer]uint32{}} }}
	leftOut   = map[reflect.Type]bool{
		reflect.TypeFor[slog.Logger]():  true,
		reflect.TypeFor[holder.Stats](): true,
		reflect.TypeFor[shard.Stats]():  true,
		reflect.TypeFor[sync.Mutex]():   true,
	}
	// leftOutFields are the fields of messages that hold no content, the list of
	// changes that only watches of the store read, and the moment that a shard
	// reads anew before it uses it.
	leftOutFields = map[string]bool{
		"state": true, "sizeCache": true, "unknownFields": true, "changes": true, "changed": true,
	}
)

// digestOf is the fingerprint of what p points to.
func digestOf[T any](p *T) digest {
	e := encodings.Get().(*encoding) //nolint:errcheck // nothing else is in the pool
	e.out = e.out[:0]
	clear(e.seen)
	encoderOf(reflect.TypeFor[T]())(e, unsafe.Pointer(p))
	sum := sha256.Sum256(e.out)
	encodings.Put(e)
	return digest(sum[:16])
}

// encoderOf is the encoder of the type. What a pointer points to is looked up
// when it is met, so types may refer to themselves.
func encoderOf(t reflect.Type) encoder {
	if f, ok := encoders.Load(t); ok {
		return f.(encoder) //nolint:errcheck // nothing else is stored
	}
	f := makeEncoder(t)
	encoders.Store(t, f)
	return f
}

func nothing(*encoding, unsafe.Pointer) {}

func makeEncoder(t reflect.Type) encoder {
	if leftOut[t] {
		return nothing
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan:
		return nothing
	case reflect.String:
		return func(e *encoding, p unsafe.Pointer) {
			s := *(*string)(p)
			e.number(uint64(len(s)))
			e.out = append(e.out, s...)
		}
	case reflect.Pointer:
		return encodePointer(t.Elem())
	case reflect.Struct:
		if target, ok := atomicPointer(t); ok {
			return encodePointer(target)
		}
		return encodeStruct(t)
	case reflect.Array:
		return encodeArray(t)
	case reflect.Slice:
		return encodeSlice(t)
	case reflect.Map:
		return encodeMap(t)
	case reflect.Interface:
		return encodeInterface(t)
	case reflect.UnsafePointer:
		panic(fmt.Sprintf("explore: %v cannot be encoded", t))
	}
	return encodeNumber(t)
}

func (e *encoding) number(n uint64) { e.out = binary.AppendUvarint(e.out, n) }

func encodeNumber(t reflect.Type) encoder {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return func(e *encoding, p unsafe.Pointer) { e.number(math.Float64bits(reflect.NewAt(t, p).Elem().Float())) }
	case reflect.Bool:
		return func(e *encoding, p unsafe.Pointer) {
			n := uint64(0)
			if *(*bool)(p) {
				n = 1
			}
			e.number(n)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(e *encoding, p unsafe.Pointer) {
			e.out = binary.AppendVarint(e.out, reflect.NewAt(t, p).Elem().Int())
		}
	}
	return func(e *encoding, p unsafe.Pointer) { e.number(reflect.NewAt(t, p).Elem().Uint()) }
}

func encodePointer(target reflect.Type) encoder {
	if leftOut[target] {
		return nothing
	}
	same := shared(target) // by what it says: nothing changes through it
	return func(e *encoding, p unsafe.Pointer) {
		to := *(*unsafe.Pointer)(p)
		if to == nil {
			e.number(0)
			return
		}
		if same {
			e.number(1)
			encoderOf(target)(e, to)
			return
		}
		if at, ok := e.seen[to]; ok {
			e.number(uint64(at) + 2)
			return
		}
		e.seen[to] = uint32(len(e.seen))
		e.number(1)
		encoderOf(target)(e, to)
	}
}

// counts says that the field of the type numbers what a shard has read, which matters
// while a read is on its way alone: never at rest.
func counts(t reflect.Type, field string) bool { return t.Name() == "policies" && field == "reads" }

func encodeStruct(t reflect.Type) encoder {
	type part struct {
		offset uintptr
		encode encoder
	}
	message := reflect.PointerTo(t).Implements(messages)
	var parts []part
	for f := range t.Fields() {
		if f.Type.Size() == 0 || counts(t, f.Name) || leftOutFields[f.Name] && (message || t.Name() == "Memory") {
			continue
		}
		parts = append(parts, part{f.Offset, encoderOf(f.Type)})
	}
	return func(e *encoding, p unsafe.Pointer) {
		for i := range parts {
			parts[i].encode(e, unsafe.Add(p, parts[i].offset))
		}
	}
}

func encodeArray(t reflect.Type) encoder {
	elem, size := encoderOf(t.Elem()), t.Elem().Size()
	return func(e *encoding, p unsafe.Pointer) {
		for i := range uintptr(t.Len()) {
			elem(e, unsafe.Add(p, i*size))
		}
	}
}

func encodeSlice(t reflect.Type) encoder {
	elem, size := encoderOf(t.Elem()), t.Elem().Size()
	if t.Elem().Kind() == reflect.Uint8 {
		return func(e *encoding, p unsafe.Pointer) {
			b := *(*[]byte)(p)
			e.number(uint64(len(b)))
			e.out = append(e.out, b...)
		}
	}
	return func(e *encoding, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		e.number(uint64(v.Len()))
		for i := range uintptr(v.Len()) {
			elem(e, unsafe.Add(v.UnsafePointer(), i*size))
		}
	}
}

// encodeMap orders the entries by the encodings of their keys, which are names
// and numbers.
func encodeMap(t reflect.Type) encoder {
	key, elem := encoderOf(t.Key()), encoderOf(t.Elem())
	type entry struct {
		key   []byte
		value reflect.Value
	}
	return func(e *encoding, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		e.number(uint64(v.Len()))
		if v.Len() == 0 {
			return
		}
		entries := make([]entry, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			k := reflect.New(t.Key())
			k.Elem().Set(it.Key())
			one := encoding{seen: e.seen}
			key(&one, k.UnsafePointer())
			value := reflect.New(t.Elem())
			value.Elem().Set(it.Value())
			entries = append(entries, entry{one.out, value})
		}
		slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
		for _, en := range entries {
			e.out = append(e.out, en.key...)
			elem(e, en.value.UnsafePointer())
		}
	}
}

func encodeInterface(t reflect.Type) encoder {
	return func(e *encoding, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			e.number(0)
			return
		}
		text := v.Elem().Type().String()
		if err, ok := reflect.TypeAssert[error](v); ok {
			text += err.Error()
			e.number(uint64(len(text)))
			e.out = append(e.out, text...)
			return
		}
		e.number(uint64(len(text)))
		e.out = append(e.out, text...)
		held := reflect.New(v.Elem().Type())
		held.Elem().Set(v.Elem())
		encoderOf(v.Elem().Type())(e, held.UnsafePointer())
	}
}
