package journal

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// Buckets and keys of the file:
//
//	journal  format -> magic, version
//	         head   -> head
//	epochs   epoch (8 bytes) -> start
//	drawn    epoch (8 bytes) -> bucket: grant ID -> tokens
//
// head pins the start records by a digest, and each of these pins the drawn records of its epoch.
const (
	bucketJournal = "journal"
	bucketEpochs  = "epochs"
	bucketDrawn   = "drawn"

	keyFormat = "format"
	keyHead   = "head"
)

// txn is one bbolt transaction on a file that has been laid out.
type txn struct {
	journal, epochs, drawn *bbolt.Bucket
	head                   head
}

// newTxn returns the view of a transaction, with the head read, or [ErrCorrupt].
func newTxn(tx *bbolt.Tx) (*txn, error) {
	t := &txn{
		journal: tx.Bucket([]byte(bucketJournal)),
		epochs:  tx.Bucket([]byte(bucketEpochs)),
		drawn:   tx.Bucket([]byte(bucketDrawn)),
	}
	if t.journal == nil || t.epochs == nil || t.drawn == nil {
		return nil, corruptf("the file is not a journal: buckets are missing")
	}
	v, err := decodeFormat(t.journal.Get([]byte(keyFormat)))
	if err != nil {
		return nil, err
	}
	if v != version {
		return nil, fmt.Errorf("%w %d, this program knows %d", ErrVersion, v, version)
	}
	t.head, err = decodeHead(t.journal.Get([]byte(keyHead)))
	return t, err
}

// layOut makes the buckets and records of a new file.
func layOut(tx *bbolt.Tx, h head) error {
	for _, name := range []string{bucketJournal, bucketEpochs, bucketDrawn} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	b := tx.Bucket([]byte(bucketJournal))
	if err := b.Put([]byte(keyFormat), encodeFormat(version)); err != nil {
		return err
	}
	return b.Put([]byte(keyHead), encodeHead(h))
}

func epochKey(epoch uint64) []byte { return binary.BigEndian.AppendUint64(nil, epoch) }

// putHead writes the head. It is the last step of each transaction that changes anything.
func (t *txn) putHead() error {
	return t.journal.Put([]byte(keyHead), encodeHead(t.head))
}

// start returns an epoch's own record and its checksum, or [ErrEpoch].
func (t *txn) start(epoch uint64) (start, uint64, error) {
	value := t.epochs.Get(epochKey(epoch))
	if value == nil {
		return start{}, 0, fmt.Errorf("%w: %d was not begun in this journal, or is finished", ErrEpoch, epoch)
	}
	return decodeStart(epoch, value)
}

// putStart raises the epoch's counter and writes its record over the one with checksum old (0: none).
func (t *txn) putStart(epoch uint64, s *start, old uint64) error {
	s.counter++
	value, sum := encodeStart(epoch, *s)
	t.head.digest += sum - old
	return t.epochs.Put(epochKey(epoch), value)
}

// grants returns the bucket of an epoch's drawn records.
func (t *txn) grants(epoch uint64) (*bbolt.Bucket, error) {
	b := t.drawn.Bucket(epochKey(epoch))
	if b == nil {
		return nil, corruptf("epoch %d has no drawn records", epoch)
	}
	return b, nil
}

// draw writes one drawn figure of an epoch and keeps its digest.
func (s *start) draw(b *bbolt.Bucket, epoch uint64, d Drawn) error {
	key := []byte(d.GrantID)
	if value := b.Get(key); value != nil {
		tokens, sum, err := decodeDrawn(epoch, d.GrantID, value)
		if err != nil {
			return err
		}
		if d.Tokens < tokens {
			return fmt.Errorf("%w: grant %q of epoch %d has drawn %d tokens already, not %d",
				ErrBackwards, d.GrantID, epoch, tokens, d.Tokens)
		}
		s.digest -= sum
		s.grants--
	}
	value, sum := encodeDrawn(epoch, d)
	s.digest += sum
	s.grants++
	return b.Put(key, value)
}

// forget drops one drawn figure of an epoch and reports whether there was one.
func (s *start) forget(b *bbolt.Bucket, epoch uint64, id string) (bool, error) {
	value := b.Get([]byte(id))
	if value == nil {
		return false, nil
	}
	_, sum, err := decodeDrawn(epoch, id, value)
	if err != nil {
		return false, err
	}
	s.digest -= sum
	s.grants--
	return true, b.Delete([]byte(id))
}

// eachEpoch calls fn for each unfinished epoch in ascending order and then checks them against the head.
func (t *txn) eachEpoch(fn func(epoch uint64, s start) error) error {
	var digest, n uint64
	err := t.epochs.ForEach(func(key, value []byte) error {
		if len(key) != 8 {
			return corruptf("an epoch's key has %d bytes", len(key))
		}
		epoch := binary.BigEndian.Uint64(key)
		s, sum, err := decodeStart(epoch, value)
		if err != nil {
			return err
		}
		digest += sum
		n++
		return fn(epoch, s)
	})
	if err != nil {
		return err
	}
	if digest != t.head.digest {
		return corruptf("the %d epochs found are not those recorded", n)
	}
	return nil
}

// eachDrawn calls fn for each drawn figure of an epoch, ordered by grant ID, and then checks them against
// the epoch's record.
func (t *txn) eachDrawn(epoch uint64, s start, fn func(Drawn)) error {
	b, err := t.grants(epoch)
	if err != nil {
		return err
	}
	var digest, n uint64
	var previous string
	err = b.ForEach(func(key, value []byte) error {
		id := string(key)
		tokens, sum, err := decodeDrawn(epoch, id, value)
		if err != nil {
			return err
		}
		if id <= previous { // and is not found when it is looked for
			return corruptf("grants %q and %q of epoch %d are out of order", previous, id, epoch)
		}
		previous = id
		digest += sum
		n++
		fn(Drawn{GrantID: id, Tokens: tokens})
		return nil
	})
	if err != nil {
		return err
	}
	if digest != s.digest || n != s.grants {
		return corruptf("the %d drawn records found in epoch %d are not the %d recorded", n, epoch, s.grants)
	}
	return nil
}
