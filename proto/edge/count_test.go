package edge

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// unbounded is above all counts here.
const unbounded = math.MaxInt32

// requests are one message of each type that a server decodes.
func requests() (all []proto.Message) {
	files := []protoreflect.FileDescriptor{
		tokenleasev1.File_tokenlease_v1_admin_proto, tokenleasev1.File_tokenlease_v1_broker_proto, tokenleasev1.File_tokenlease_v1_limiter_proto,
	}
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, newMessage(methods.Get(j).Input()))
			}
		}
	}
	return all
}

// elementsOf counts in the message itself what the counts are bounds of.
func elementsOf(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				n += 1 + elementsOf(v.List().Get(i).Message())
			}
		case f.IsList():
			n += v.List().Len()
		case f.Message() != nil:
			n += 1 + elementsOf(v.Message())
		}
		return true
	})
	return n
}

// TestWhatCanBeCounted: the counts rest on what requests are made of. Groups, maps, lists of
// numbers, and messages that are not objects in JSON would need more.
func TestWhatCanBeCounted(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(d protoreflect.MessageDescriptor)
	look = func(d protoreflect.MessageDescriptor) {
		if seen[d.FullName()] {
			return
		}
		seen[d.FullName()] = true
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			texts := f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
			if f.Kind() == protoreflect.GroupKind || f.IsMap() || f.IsList() && f.Message() == nil && !texts {
				t.Errorf("%s is a group, a map or a list of numbers: see count.go", f.FullName())
			}
			if f.Message() == nil {
				continue
			}
			if f.Message().ParentFile().Package() != d.ParentFile().Package() {
				t.Errorf("%s is of another package: is it an object in JSON?", f.FullName())
			}
			look(f.Message())
		}
	}
	for _, m := range requests() {
		look(m.ProtoReflect().Descriptor())
	}
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// TestLargestBatchesAreLetIn: requests with as much of everything as Validate lets
// through are just within the bounds, in either encoding.
func TestLargestBatchesAreLetIn(t *testing.T) {
	for _, test := range []struct {
		name string
		m    proto.Message
		most int
	}{
		{"checks", largestBatch(), MaxLimiterElements},
		{"sync", largestSync(), MaxBrokerElements},
	} {
		binary, text := encodings(t, test.m)
		if n, err := shapeOf(test.m.ProtoReflect().Descriptor()).count(binary, unbounded, 0); n != test.most || err != nil {
			t.Errorf("%s: %d elements, error %v, want %d", test.name, n, err, test.most)
		}
		if n, err := countJSON(text, unbounded); n != test.most || err != nil {
			t.Errorf("%s in JSON: %d elements, error %v, want %d", test.name, n, err, test.most)
		}
		for _, most := range []int{test.most, test.most - 1} {
			into := func() any { return newMessage(test.m.ProtoReflect().Descriptor()) }
			errs := map[string]error{
				"binary": binaryCodec{most}.Unmarshal(binary, into()), "JSON": jsonCodec{"json", most}.Unmarshal(text, into()),
			}
			for encoding, err := range errs {
				if (err == nil) != (most == test.most) {
					t.Errorf("%s in %s with at most %d elements: %v", test.name, encoding, most, err)
				}
				if err != nil && !strings.Contains(err.Error(), "elements") {
					t.Errorf("%s in %s: %q names no bound", test.name, encoding, err)
				}
			}
		}
	}
}

func TestCountJSON(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{`{}`, 0},
		{`{"a":1,"b":"{{,[","c":null}`, 0},
		{`{"a":{"b":{}}}`, 2},
		{`{"a":[{},{}, {}]}`, 3},
		{`{"a":["x", "y\"],[{", 3 , true]}`, 4},
		{`{"a":[]}`, 0},
		{`{"a":[ [ 1 ], [] ]}`, 3},
		{`{"a":[{"b":[{},{}],"c":1},{"b":[]}]}`, 4},
		{`{"a":"not closed {{{`, 0},
		{`{"a":"\`, 0},
		{`]]]}}}{`, 0},
	} {
		if got, err := countJSON([]byte(test.text), unbounded); got != test.want || err != nil {
			t.Errorf("%s: %d elements, error %v, want %d", test.text, got, err, test.want)
		}
	}
	if _, err := countJSON([]byte(strings.Repeat(`{"a":`, maxJSONDepth+1)), unbounded); err == nil {
		t.Errorf("%d objects in each other were counted", maxJSONDepth+1)
	}
	if _, err := countJSON([]byte(strings.Repeat(`{"a":`, maxJSONDepth)), unbounded); err != nil {
		t.Errorf("%d objects in each other: %v", maxJSONDepth, err)
	}
}

// TestCountAllocatesNothing: counting is what keeps memory, so it takes none.
func TestCountAllocatesNothing(t *testing.T) {
	m := largestBatch()
	binary, text := encodings(t, m)
	if n := testing.AllocsPerRun(3, func() {
		_, _ = shapeOf(m.ProtoReflect().Descriptor()).count(binary, unbounded, 0)
		_, _ = countJSON(text, unbounded)
	}); n != 0 {
		t.Errorf("counting allocates %v times", n)
	}
}

// FuzzCount: whatever is decoded has been counted, and counting ends in order.
func FuzzCount(f *testing.F) {
	kinds := requests()
	f.Add(uint8(0), []byte(`{"a":[{"b":"\"["},1,[2]]}`))
	for i, m := range kinds {
		fill(m.ProtoReflect(), 4)
		binary, text := encodings(f, m)
		f.Add(uint8(i), binary)
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		d := kinds[int(kind)%len(kinds)].ProtoReflect().Descriptor()
		n, err := shapeOf(d).count(data, unbounded, 0)
		if m := newMessage(d); proto.Unmarshal(data, m) == nil {
			requireCounted(t, m, n, len(data), err)
		}
		n, err = countJSON(data, unbounded)
		if m := newMessage(d); err == nil && (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m) == nil {
			requireCounted(t, m, n, len(data), err)
		}
	})
}

func requireCounted(t *testing.T, m proto.Message, counted, bytes int, err error) {
	t.Helper()
	has := elementsOf(m.ProtoReflect())
	if err != nil || counted < has {
		t.Errorf("%d elements, error %v, and %d were decoded", counted, err, has)
	}
	if has > 0 && !mayExceed(bytes, has-1) {
		t.Errorf("%d bytes have %d elements, and would not have been counted", bytes, has)
	}
}

// fill sets every field, lists to two elements.
func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.Message() != nil && depth == 0:
		case f.IsList() && f.Message() != nil:
			for range 2 {
				fill(m.Mutable(f).List().AppendMutable().Message(), depth-1)
			}
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfString("x"))
			m.Mutable(f).List().Append(protoreflect.ValueOfString(""))
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), depth-1)
		}
	}
}

// largestBatch is a batch of as many checks as may be, with as many parts.
func largestBatch() *tokenleasev1.CheckBatchRequest {
	m := &tokenleasev1.CheckBatchRequest{}
	for range tokenleasev1.MaxBatchChecks {
		c := &tokenleasev1.CheckRequest{Key: key(), CostTokens: proto.Int64(1)}
		for range tokenleasev1.MaxCheckParts {
			c.Also = append(c.Also, &tokenleasev1.CheckPart{Key: key()})
		}
		m.Checks = append(m.Checks, c)
	}
	return m
}

// largestSync is a request with as much of everything as may be.
func largestSync() *tokenleasev1.SyncRequest {
	m := &tokenleasev1.SyncRequest{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "limiter-0"}, Epoch: 1}
	for range tokenleasev1.MaxSyncBudgets {
		m.Budgets = append(m.Budgets, &tokenleasev1.BudgetReport{Key: key(), Sequence: 1})
	}
	grants := func(n int) (all []*tokenleasev1.GrantAccount) {
		for range n {
			all = append(all, &tokenleasev1.GrantAccount{GrantId: "g", Key: key()})
		}
		return all
	}
	m.Closes = grants(tokenleasev1.MaxSyncCloses)
	for range tokenleasev1.MaxSyncAccounts {
		m.Accounts = append(m.Accounts, &tokenleasev1.EpochAccount{Epoch: 1, Grants: grants(tokenleasev1.MaxAccountGrants)})
	}
	return m
}

func key() *tokenleasev1.BudgetKey {
	return &tokenleasev1.BudgetKey{Account: "acme", Operation: "report.create"}
}

// encodings are a message in both.
func encodings(t testing.TB, m proto.Message) (binary, text []byte) {
	t.Helper()
	binary, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	text, err = protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return binary, text
}

// newMessage is an empty message of a type.
func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}
