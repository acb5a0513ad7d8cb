package journal

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// FuzzRecord decodes values as they are and with a valid checksum: each record type either refuses one
// with ErrCorrupt or gives what encodes to the same bytes.
func FuzzRecord(f *testing.F) {
	format, start := encodeFormat(version), start{counter: 7, grants: 2, digest: 9, nonce: "nonce"}
	f.Add(format, uint64(0), "")
	f.Add(encodeHead(head{last: 3, region: "r", instance: "i", cluster: "c"}), uint64(0), "")
	value, _ := encodeStart(3, start)
	f.Add(value, uint64(3), "")
	value, _ = encodeDrawn(3, Drawn{"g", 12})
	f.Add(value, uint64(3), "g")
	f.Add([]byte{}, uint64(1), "g")
	f.Fuzz(func(t *testing.T, value []byte, epoch uint64, id string) {
		decodeAll(t, value, epoch, id)
		payload := value[:max(0, len(value)-sumSize)]
		for _, p := range []place{formatPlace(), headPlace(), startPlace(epoch), drawnPlace(epoch, id)} {
			sealed, _ := p.seal(bytes.Clone(payload))
			decodeAll(t, sealed, epoch, id)
		}
	})
}

func decodeAll(t *testing.T, value []byte, epoch uint64, id string) {
	t.Helper()
	if v, err := decodeFormat(value); err == nil {
		same(t, value, encodeFormat(v))
	} else {
		wantError(t, err, ErrCorrupt)
	}
	if h, err := decodeHead(value); err == nil {
		same(t, value, encodeHead(h))
	} else {
		wantError(t, err, ErrCorrupt)
	}
	if s, sum, err := decodeStart(epoch, value); err == nil {
		again, sum2 := encodeStart(epoch, s)
		same(t, value, again)
		if sum != sum2 {
			t.Errorf("checksums %x and %x", sum, sum2)
		}
	} else {
		wantError(t, err, ErrCorrupt)
	}
	if tokens, sum, err := decodeDrawn(epoch, id, value); err == nil {
		again, sum2 := encodeDrawn(epoch, Drawn{id, tokens})
		same(t, value, again)
		if sum != sum2 || tokens < 0 {
			t.Errorf("%d tokens, checksums %x and %x", tokens, sum, sum2)
		}
	} else {
		wantError(t, err, ErrCorrupt)
	}
}

func same(t *testing.T, a, b []byte) {
	t.Helper()
	if !bytes.Equal(a, b) {
		t.Errorf("decoded %x, encodes to %x", a, b)
	}
}

// FuzzPages reads arbitrary pages behind valid headers: never a panic, and no error but ErrCorrupt.
func FuzzPages(f *testing.F) {
	const page = 1024
	path := filepath.Join(f.TempDir(), "small.db")
	must(f, withBolt(path, &bbolt.Options{PageSize: page}, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("bucket"))
		for i := range 40 {
			err = errors.Join(err, b.Put([]byte(grantName(i)), make([]byte, 16)))
		}
		return err
	}))
	file := usedBytes(f, path)
	header, pages := file[:2*page], file[2*page:]
	f.Add(pages, uint16(0), byte(0))
	f.Add(pages[:page], uint16(0), byte(0))
	f.Add(pages, uint16(10), byte(2))
	f.Fuzz(func(t *testing.T, pages []byte, at uint16, flip byte) {
		pages = bytes.Clone(pages)
		if int(at) < len(pages) {
			pages[at] ^= flip
		}
		file := slices.Concat(header, pages)
		if err := checkPages(bytes.NewReader(file), int64(len(file))); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}
