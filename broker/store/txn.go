package store

import (
	"fmt"
	"strings"
)

// MaxTxnBytes is the largest size of a transaction, in bytes as Txn.Size counts
// them: the default request limit of etcd, which every store here applies.
const MaxTxnBytes = 3 << 19 // 1.5 MiB

// DefaultMaxTxnOps is the number of operations, and of compares, that etcd
// accepts in one transaction unless it is configured otherwise.
const DefaultMaxTxnOps = 128

// What Size allows for the encoding: at least what Protocol Buffers need for the
// tags, lengths and numbers of one compare or operation, and for the envelope.
const (
	itemOverhead     = 48
	envelopeOverhead = 512
)

// Size is an upper bound of the bytes that the transaction takes in a request to
// etcd. It is a sum over the parts, so a batch can be filled by adding up.
func (t Txn) Size() int {
	size := envelopeOverhead
	for _, c := range t.If {
		size += c.Size()
	}
	for _, op := range t.Then {
		size += op.Size()
	}
	return size
}

// Size is what the compare adds to the size of its transaction, in bytes.
func (c Compare) Size() int { return itemOverhead + len(c.Key) }

// Size is what the operation adds to the size of its transaction, in bytes.
func (o Op) Size() int { return itemOverhead + len(o.Key) + len(o.End) + len(o.Value) }

// Validate checks the transaction against what every store accepts, with at most
// maxOps compares and maxOps operations. It returns an error that wraps
// ErrTooLarge or ErrInvalid. Stores call it before they send anything.
func (t Txn) Validate(maxOps int) error {
	if n := max(len(t.If), len(t.Then)); n > maxOps {
		return fmt.Errorf("%w: %d compares and %d operations, at most %d of each fit",
			ErrTooLarge, len(t.If), len(t.Then), maxOps)
	}
	if size := t.Size(); size > MaxTxnBytes {
		return fmt.Errorf("%w: %d bytes, at most %d fit", ErrTooLarge, size, MaxTxnBytes)
	}
	if len(t.If) == 0 && len(t.Then) == 0 {
		return fmt.Errorf("%w: a transaction without compares and operations", ErrInvalid)
	}
	for _, c := range t.If {
		if err := validKey(c.Key); err != nil {
			return err
		}
	}
	return validOps(t.Then)
}

// validOps checks the keys of the operations, and that no key is changed in two
// ways at once, which etcd refuses.
func validOps(ops []Op) error {
	deleted := make(map[string]bool, len(ops)) // false: the key is put
	for _, op := range ops {
		if op.Kind == OpRange {
			if err := validRange(op.Key, op.End); err != nil {
				return err
			}
			continue
		}
		if err := validKey(op.Key); err != nil {
			return err
		}
		if op.Kind != OpPut && op.Kind != OpDelete {
			continue
		}
		before, seen := deleted[op.Key]
		deletes := op.Kind == OpDelete
		if seen && (!before || !deletes) {
			return fmt.Errorf("%w: key %q is put twice, or put and deleted, in one transaction", ErrInvalid, op.Key)
		}
		deleted[op.Key] = deletes
	}
	return nil
}

// validKey refuses the keys that etcd refuses, and the byte 0, which marks the
// open end of a range and the barrier key of package etcdstore.
func validKey(key string) error {
	if key == "" || strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("%w: key %q is empty or holds the byte 0", ErrInvalid, key)
	}
	return nil
}

// validRange allows the empty key as the start of a range that has an end.
func validRange(key, end string) error {
	if key == "" && end == "" {
		return fmt.Errorf("%w: a range without key and end", ErrInvalid)
	}
	return nil
}

// Validate checks the request. It returns an error that wraps ErrInvalid.
func (r RangeRequest) Validate() error {
	if r.Limit < 0 || r.Revision < 0 {
		return fmt.Errorf("%w: limit %d or revision %d is negative", ErrInvalid, r.Limit, r.Revision)
	}
	return validRange(r.Key, r.End)
}
