package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// damage changes a copy of a file; older is the same file some writes ago. Both start with two header
// pages.
type damage struct {
	name  string
	apply func(rng *rand.Rand, file, older []byte, page int) []byte
}

// damages leave the header pages alone where they could put back the one of an earlier write: such a
// file is an older copy, which only its counter gives away.
func damages() []damage {
	pageOf := func(rng *rand.Rand, b []byte, page, first int) []byte {
		at := page * (first + rng.IntN(len(b)/page-first))
		return b[at : at+page]
	}
	return []damage{
		{"flip", func(rng *rand.Rand, b, _ []byte, _ int) []byte {
			for range 1 + rng.IntN(4) {
				b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
			}
			return b
		}},
		{"flip in page headers", func(rng *rand.Rand, b, _ []byte, page int) []byte {
			pageOf(rng, b, page, 0)[rng.IntN(48)] ^= 1 << rng.IntN(8)
			return b
		}},
		{"truncate", func(rng *rand.Rand, b, _ []byte, _ int) []byte { return b[:1+rng.IntN(len(b)-1)] }},
		{"zero a page", func(rng *rand.Rand, b, _ []byte, page int) []byte {
			clear(pageOf(rng, b, page, 0))
			return b
		}},
		{"page over another", func(rng *rand.Rand, b, _ []byte, page int) []byte {
			copy(pageOf(rng, b, page, 2), pageOf(rng, b, page, 2))
			return b
		}},
		{"lost write", func(rng *rand.Rand, b, older []byte, page int) []byte {
			at := page * (2 + rng.IntN(len(older)/page-2))
			copy(b[at:at+page], older[at:])
			return b
		}},
		{"random run", func(rng *rand.Rand, b, _ []byte, _ int) []byte {
			at := rng.IntN(len(b))
			for i := at; i < min(len(b), at+1+rng.IntN(64)); i++ {
				b[i] = byte(rng.Uint32())
			}
			return b
		}},
	}
}

// TestDamage damages files in many ways. They are refused and left as they are, or show what they held.
func TestDamage(t *testing.T) {
	t.Logf("-journal.seed=%d -journal.rounds=%d", *seed, *rounds)
	cfg := testConfig(t)
	want := sample(t, cfg, 400)
	older := usedBytes(t, cfg.Path)
	j := mustOpen(t, cfg)
	must(t, j.Forget(3, []string{want[0].Drawn[7].GrantID, want[0].Drawn[300].GrantID}))
	must(t, j.Close())
	want = reopen(t, cfg)
	file := usedBytes(t, cfg.Path)
	older = older[:min(len(older), len(file))]

	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			refused := 0
			for i := range *rounds / len(damages()) {
				rng := rand.New(rand.NewPCG(*seed+uint64(i), 1))
				damaged := d.apply(rng, bytes.Clone(file), older, os.Getpagesize())
				must(t, os.WriteFile(cfg.Path, damaged, 0o600))
				if err := checkDamaged(cfg, damaged, want); err == nil {
					continue
				} else if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("seed %d: %v", *seed+uint64(i), err)
				}
				refused++
			}
			t.Logf("%d refused", refused)
			if refused == 0 {
				t.Error("no file was refused: the damage does nothing")
			}
		})
	}
}

// checkDamaged opens a file and returns ErrCorrupt when it was refused as it should be, nil when it shows
// what is wanted and can be used, and another error when neither holds.
func checkDamaged(cfg Config, content []byte, want []Epoch) error {
	j, err := Open(cfg)
	if err != nil {
		if now, rerr := os.ReadFile(cfg.Path); rerr != nil || !bytes.Equal(now, content) {
			return errors.New("the refused file was changed")
		}
		return err
	}
	defer j.Close()
	got, err := j.Epochs()
	if err != nil {
		return errors.Join(errors.New("opened and then not read"), errors.New(err.Error()))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("silently wrong: " + diff)
	}
	if err := j.Begin(j.LastEpoch()+1, "next"); err != nil {
		return errors.New(err.Error())
	}
	if _, err = j.Draw(j.LastEpoch(), []Drawn{{"g", 1}}); err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// TestEachHeaderBit flips each bit of what the header pages say, in turn.
func TestEachHeaderBit(t *testing.T) {
	cfg := testConfig(t)
	sample(t, cfg, 3)
	file := usedBytes(t, cfg.Path)
	for _, base := range []int{0, os.Getpagesize()} {
		for bit := range 8 * metaSize {
			at := base + pageHeader + bit/8
			file[at] ^= 1 << (bit % 8)
			if err := checkPages(bytes.NewReader(file), int64(len(file))); !errors.Is(err, ErrCorrupt) {
				t.Errorf("bit %d of byte %d flipped: %v", bit%8, at, err)
			}
			file[at] ^= 1 << (bit % 8)
		}
	}
	must(t, checkPages(bytes.NewReader(file), int64(len(file))))
}

func TestNotAJournal(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"text":  func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("text\n"), 5000), 0o600) },
		"short": func(path string) error { return os.WriteFile(path, []byte{1}, 0o600) },
		"other database": func(path string) error {
			return withBolt(path, nil, func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("key"))
				return err
			})
		},
		"emptied database": func(path string) error {
			create := func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err }
			drop := func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("x")) }
			return errors.Join(withBolt(path, nil, create), withBolt(path, nil, drop))
		},
		"database without a free list": func(path string) error {
			return withBolt(path, &bbolt.Options{NoFreelistSync: true}, func(*bbolt.Tx) error { return nil })
		},
		"directory": func(path string) error { return os.MkdirAll(path+"/"+DefaultFile, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			must(t, write(cfg.Path))
			before, _ := os.ReadFile(cfg.Path)
			_, err := Open(cfg)
			wantError(t, err, ErrCorrupt)
			t.Log(err)
			if err != nil && !strings.Contains(err.Error(), "tokenlease grants resolve") {
				t.Errorf("%q does not say what to do", err)
			}
			if after, _ := os.ReadFile(cfg.Path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOtherVersion(t *testing.T) {
	cfg := testConfig(t)
	sample(t, cfg, 3)
	must(t, withBolt(cfg.Path, nil, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketJournal)).Put([]byte(keyFormat), encodeFormat(version+1))
	}))
	_, err := Open(cfg)
	wantError(t, err, ErrVersion)
}

// TestRecordsAreChecked changes the records of an otherwise whole file, each in a way that only one of
// the checks can see.
func TestRecordsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*bbolt.Tx, *txn) error{
		"a grant's record is gone": func(_ *bbolt.Tx, t *txn) error {
			return t.drawn.Bucket(epochKey(4)).Delete([]byte("b"))
		},
		"an earlier record of a grant is back": func(_ *bbolt.Tx, t *txn) error {
			value, _ := encodeDrawn(4, Drawn{"b", 20})
			return t.drawn.Bucket(epochKey(4)).Put([]byte("b"), value)
		},
		"two grants' records are swapped": func(_ *bbolt.Tx, t *txn) error {
			b := t.drawn.Bucket(epochKey(4))
			one, two := bytes.Clone(b.Get([]byte("a"))), bytes.Clone(b.Get([]byte("b")))
			return errors.Join(b.Put([]byte("a"), two), b.Put([]byte("b"), one))
		},
		"an epoch's records are gone": func(_ *bbolt.Tx, t *txn) error { return t.drawn.DeleteBucket(epochKey(4)) },
		"an epoch is gone": func(_ *bbolt.Tx, t *txn) error {
			return errors.Join(t.epochs.Delete(epochKey(4)), t.drawn.DeleteBucket(epochKey(4)))
		},
		"an earlier record of an epoch is back": func(_ *bbolt.Tx, t *txn) error {
			s, _, err := t.start(4)
			s.counter--
			value, _ := encodeStart(4, s)
			return errors.Join(err, t.epochs.Put(epochKey(4), value))
		},
		"records of an epoch that is not there": func(_ *bbolt.Tx, t *txn) error {
			_, err := t.drawn.CreateBucket(epochKey(9))
			return err
		},
		"a key of another length": func(_ *bbolt.Tx, t *txn) error { return t.epochs.Put([]byte("x"), []byte("y")) },
		"the head is gone":        func(_ *bbolt.Tx, t *txn) error { return t.journal.Delete([]byte(keyHead)) },
		"a bucket is gone":        func(tx *bbolt.Tx, _ *txn) error { return tx.DeleteBucket([]byte(bucketDrawn)) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			sample(t, cfg, 3)
			must(t, withBolt(cfg.Path, nil, func(tx *bbolt.Tx) error {
				view, err := newTxn(tx)
				if err != nil {
					return err
				}
				return change(tx, view)
			}))
			_, err := Open(cfg)
			wantError(t, err, ErrCorrupt)
			t.Log(err)
		})
	}
}

// withBolt changes a file behind the journal's back.
func withBolt(path string, options *bbolt.Options, fn func(*bbolt.Tx) error) error {
	db, err := bbolt.Open(path, 0o600, options)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(fn), db.Close())
}
