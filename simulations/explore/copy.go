package explore

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// A part of the world is copied before real code changes it. The copy is deep
// and includes fields that are not exported. Shared are functions, loggers,
// bytes of the store, and the values that the code itself never changes once
// they are made: messages, policies and outlooks. Channels are made anew, since
// nobody waits at them here.

// copying is one deep copy on its way: what was copied already, by address, so
// that what points to one thing in the original does so in the copy.
type copying struct {
	done map[unsafe.Pointer]unsafe.Pointer
}

// copier makes the copy at to, which is a bitwise copy of from, a deep one.
type copier func(c *copying, to, from unsafe.Pointer)

var (
	copiers   sync.Map // reflect.Type -> copier
	messages  = reflect.TypeFor[proto.Message]()
	unchanged = map[reflect.Type]bool{
		reflect.TypeFor[slog.Logger]():    true,
		reflect.TypeFor[lease.Policy]():   true,
		reflect.TypeFor[holder.Outlook](): true,
	}
)

// deepCopy is a copy of what p points to that shares nothing that changes.
func deepCopy[T any](p *T) *T {
	to := new(T)
	c := &copying{done: map[unsafe.Pointer]unsafe.Pointer{unsafe.Pointer(p): unsafe.Pointer(to)}}
	t := reflect.TypeFor[T]()
	c.value(t, copierOf(t), unsafe.Pointer(to), unsafe.Pointer(p))
	return to
}

// value copies one value of type t; f is its copier.
func (c *copying) value(t reflect.Type, f copier, to, from unsafe.Pointer) {
	reflect.NewAt(t, to).Elem().Set(reflect.NewAt(t, from).Elem())
	if f != nil {
		f(c, to, from)
	}
}

// shared says that pointers to t are copied as they are.
func shared(t reflect.Type) bool {
	return unchanged[t] || reflect.PointerTo(t).Implements(messages)
}

// copierOf is the copier of the type; nil when the bitwise copy will do. What a
// pointer points to is looked up when it is met, so types may refer to themselves.
func copierOf(t reflect.Type) copier {
	if f, ok := copiers.Load(t); ok {
		return f.(copier) //nolint:errcheck // nothing else is stored
	}
	var f copier
	if !flat(t) {
		f = makeCopier(t)
	}
	copiers.Store(t, f)
	return f
}

// flat says that a bitwise copy is deep.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return shared(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !flat(f.Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	case reflect.Map, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		return false
	}
	return true // numbers, strings, functions
}

func makeCopier(t reflect.Type) copier {
	switch t.Kind() {
	case reflect.Pointer:
		return copyPointer(t.Elem())
	case reflect.Struct:
		if target, ok := atomicPointer(t); ok {
			return copyPointer(target)
		}
		return copyStruct(t)
	case reflect.Array:
		return copyArray(t)
	case reflect.Slice:
		return copySlice(t)
	case reflect.Map:
		return copyMap(t)
	case reflect.Chan:
		return func(_ *copying, to, from unsafe.Pointer) {
			if old := reflect.NewAt(t, from).Elem(); !old.IsNil() {
				reflect.NewAt(t, to).Elem().Set(reflect.MakeChan(t, old.Cap()))
			}
		}
	case reflect.Interface:
		return func(_ *copying, _, from unsafe.Pointer) {
			if v := reflect.NewAt(t, from).Elem(); !v.IsNil() && !v.Type().Implements(reflect.TypeFor[error]()) {
				panic(fmt.Sprintf("explore: a %v holds a %v, which cannot be copied: it is not at rest", t, v.Elem().Type()))
			}
		}
	}
	panic(fmt.Sprintf("explore: %v cannot be copied", t))
}

// atomicPointer says what a sync/atomic Pointer points to.
func atomicPointer(t reflect.Type) (target reflect.Type, ok bool) {
	if t.PkgPath() != "sync/atomic" || !strings.HasPrefix(t.Name(), "Pointer[") {
		return nil, false
	}
	return t.Field(0).Type.Elem().Elem(), true // its first field is [0]*T
}

func copyPointer(target reflect.Type) copier {
	if shared(target) {
		return func(*copying, unsafe.Pointer, unsafe.Pointer) {}
	}
	return func(c *copying, to, from unsafe.Pointer) {
		old := *(*unsafe.Pointer)(from)
		if old == nil {
			return
		}
		fresh, ok := c.done[old]
		if !ok {
			fresh = reflect.New(target).UnsafePointer()
			c.done[old] = fresh
			c.value(target, copierOf(target), fresh, old)
		}
		*(*unsafe.Pointer)(to) = fresh
	}
}

func copyStruct(t reflect.Type) copier {
	type part struct {
		offset uintptr
		copy   copier
	}
	var parts []part
	for f := range t.Fields() {
		if !flat(f.Type) {
			parts = append(parts, part{f.Offset, copierOf(f.Type)})
		}
	}
	return func(c *copying, to, from unsafe.Pointer) {
		for _, p := range parts {
			p.copy(c, unsafe.Add(to, p.offset), unsafe.Add(from, p.offset))
		}
	}
}

func copyArray(t reflect.Type) copier {
	elem, size := copierOf(t.Elem()), t.Elem().Size()
	return func(c *copying, to, from unsafe.Pointer) {
		for i := range uintptr(t.Len()) {
			elem(c, unsafe.Add(to, i*size), unsafe.Add(from, i*size))
		}
	}
}

func copySlice(t reflect.Type) copier {
	elem, size := copierOf(t.Elem()), t.Elem().Size()
	return func(c *copying, to, from unsafe.Pointer) {
		old := reflect.NewAt(t, from).Elem()
		if old.IsNil() {
			return
		}
		n := old.Len()
		fresh := reflect.MakeSlice(t, n, n)
		reflect.Copy(fresh, old)
		if elem != nil {
			for i := range uintptr(n) {
				elem(c, unsafe.Add(fresh.UnsafePointer(), i*size), unsafe.Add(old.UnsafePointer(), i*size))
			}
		}
		reflect.NewAt(t, to).Elem().Set(fresh)
	}
}

// copyMap copies the values; keys are names and numbers.
func copyMap(t reflect.Type) copier {
	elem := copierOf(t.Elem())
	return func(c *copying, to, from unsafe.Pointer) {
		old := reflect.NewAt(t, from).Elem()
		if old.IsNil() {
			return
		}
		fresh := reflect.MakeMapWithSize(t, old.Len())
		for it := old.MapRange(); it.Next(); {
			value := it.Value()
			if elem != nil {
				was, is := reflect.New(t.Elem()), reflect.New(t.Elem())
				was.Elem().Set(value)
				c.value(t.Elem(), elem, is.UnsafePointer(), was.UnsafePointer())
				value = is.Elem()
			}
			fresh.SetMapIndex(it.Key(), value)
		}
		reflect.NewAt(t, to).Elem().Set(fresh)
	}
}
