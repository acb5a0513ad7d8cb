package envoydoctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// field is a field of a message, by its name in the proto file. Messages may also
// be written with the names of their JSON form.
func field(o object, name string) any {
	if v, ok := o[name]; ok {
		return v
	}
	return o[camel(name)]
}

// camel is the JSON form of a field's name.
func camel(name string) string {
	var b strings.Builder
	for i, word := range strings.Split(name, "_") {
		if i > 0 && word != "" {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

// has says whether a field was written.
func has(o object, name string) bool { return field(o, name) != nil }

// child is a field that is a message; an empty one if it is not.
func child(o object, name string) object {
	c, _ := field(o, name).(object)
	return c
}

// children are the messages of a list.
func children(o object, name string) []object {
	list, _ := field(o, name).([]any)
	var all []object
	for _, item := range list {
		c, _ := item.(object)
		all = append(all, c) // nil keeps the index right
	}
	return all
}

// words is a field that is text; "" if it is not.
func words(o object, name string) string {
	text, _ := field(o, name).(string)
	return text
}

// truth is a field that is a boolean, as such or wrapped.
func truth(o object, name string) bool {
	b, _ := field(o, name).(bool)
	return b
}

// names are the names of a map's fields, in order.
func names(o object) []string { return slices.Sorted(maps.Keys(o)) }

// typed is what an Any is: the name of its type without the host, and its fields.
// What a management server sent as a structure with the name of a type is that
// type.
func typed(v any) (name string, body object) {
	body, _ = v.(object)
	name = typeName(words(body, "@type"))
	if strings.HasSuffix(name, ".TypedStruct") && (strings.HasPrefix(name, "udpa.type.") || strings.HasPrefix(name, "xds.type.")) {
		return typeName(words(body, "type_url")), child(body, "value")
	}
	return name, body
}

func typeName(url string) string { return url[strings.LastIndex(url, "/")+1:] }

// identity tells objects apart.
func identity(o object) uintptr { return reflect.ValueOf(o).Pointer() }

// decode reads a message. The second result is a field that this program does not
// know, or "".
func decode(body object, into proto.Message) (unknown string, err error) {
	plain := maps.Clone(body)
	delete(plain, "@type")
	data, err := json.Marshal(plain)
	if err != nil {
		return "", err
	}
	strict := protojson.UnmarshalOptions{Resolver: lenient{}}
	strictErr := strict.Unmarshal(data, into)
	if strictErr == nil {
		return "", nil
	}
	proto.Reset(into)
	strict.DiscardUnknown = true
	if err := strict.Unmarshal(data, into); err != nil {
		return "", errors.New(tidy(err.Error()))
	}
	return quoted(strictErr.Error()), nil
}

// tidy takes the position from an error of the decoder: it is one in a part of the
// file. The decoder varies its spaces on purpose.
func tidy(text string) string {
	text = strings.ReplaceAll(text, "\u00a0", " ")
	if _, rest, found := strings.Cut(text, "): "); found {
		text = rest
	}
	return fmt.Sprintf("%.200s", strings.TrimPrefix(text, "proto: "))
}

// quoted is the first quoted text of an error, or all of it.
func quoted(text string) string {
	if _, rest, found := strings.Cut(text, `"`); found {
		if name, _, found := strings.Cut(rest, `"`); found {
			return fmt.Sprintf("%.80s", name)
		}
	}
	return fmt.Sprintf("%.80s", text)
}

// lenient knows all types: those that are unknown read as a message without
// fields. Whoever looks at an Any looks at the object that it was.
type lenient struct{}

// FindMessageByName implements protojson's resolver.
func (lenient) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if t, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
		return t, nil
	}
	return (&route.RateLimit_Action_SourceCluster{}).ProtoReflect().Type(), nil
}

// FindMessageByURL implements protojson's resolver.
func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return l.FindMessageByName(protoreflect.FullName(typeName(url)))
}

// FindExtensionByName implements protojson's resolver.
func (lenient) FindExtensionByName(protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

// FindExtensionByNumber implements protojson's resolver.
func (lenient) FindExtensionByNumber(protoreflect.FullName, protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}
