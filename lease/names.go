package lease

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Key names one budget: who asks and what for. Both parts are case-sensitive.
type Key struct {
	Account   string
	Operation string
}

// Compare orders keys by account, then operation.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Account, other.Account), strings.Compare(k.Operation, other.Operation))
}

// ShardOf is the shard, below shards, that serves the budget. It is FNV-1a of
// account, a zero byte and operation, and must never change: it places what is
// stored.
func ShardOf(key Key, shards uint32) uint32 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(key.Account) {
		hash = (hash ^ uint64(key.Account[i])) * prime
	}
	hash *= prime // the zero byte between the two
	for i := range len(key.Operation) {
		hash = (hash ^ uint64(key.Operation[i])) * prime
	}
	hash ^= hash >> 32 // the low bits of FNV alone mix too little
	return uint32(hash % uint64(shards))
}

// Holder names one limiter instance.
type Holder struct {
	Region   string
	Instance string
}

// String is region/instance.
func (h Holder) String() string { return h.Region + "/" + h.Instance }

// Compare orders holders by region, then instance.
func (h Holder) Compare(other Holder) int {
	return cmp.Or(strings.Compare(h.Region, other.Region), strings.Compare(h.Instance, other.Instance))
}

// GrantID names a grant. IDs are never reused: Sequence counts up within a
// shard and is stored with each commit, and Generation is raised when a store
// is declared to have been restored.
type GrantID struct {
	Generation uint32
	Shard      uint32
	Sequence   uint64
}

// IsZero says that the ID names no grant.
func (id GrantID) IsZero() bool { return id == GrantID{} }

// Compare orders IDs by generation, shard and sequence.
func (id GrantID) Compare(other GrantID) int {
	return cmp.Or(
		cmp.Compare(id.Generation, other.Generation),
		cmp.Compare(id.Shard, other.Shard),
		cmp.Compare(id.Sequence, other.Sequence),
	)
}

// String is the form that operators quote, such as g1-003-0000002a: generation
// in decimal, shard and sequence in hexadecimal. The zero ID is empty.
func (id GrantID) String() string {
	if id.IsZero() {
		return ""
	}
	return fmt.Sprintf("g%d-%03x-%08x", id.Generation, id.Shard, id.Sequence)
}

// ParseGrantID reads what String wrote. The empty string is the zero ID.
func ParseGrantID(s string) (GrantID, error) {
	if s == "" {
		return GrantID{}, nil
	}
	rest, found := strings.CutPrefix(s, "g")
	parts := strings.Split(rest, "-")
	if !found || len(parts) != 3 {
		return GrantID{}, badGrantID(s)
	}
	generation, err1 := strconv.ParseUint(parts[0], 10, 32)
	shard, err2 := strconv.ParseUint(parts[1], 16, 32)
	sequence, err3 := strconv.ParseUint(parts[2], 16, 64)
	id := GrantID{Generation: uint32(generation), Shard: uint32(shard), Sequence: sequence}
	if err1 != nil || err2 != nil || err3 != nil || id.String() != s {
		return GrantID{}, badGrantID(s)
	}
	return id, nil
}

func badGrantID(s string) error {
	return fmt.Errorf("%.40q is not a grant ID: want the form g1-003-0000002a", s)
}
