package journal

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// written is the file after one write, and what it proves.
type written struct {
	file    []byte
	counter uint64
	epochs  []Epoch
}

// history writes to a journal and keeps a copy of the file after each write.
func history(t *testing.T) []written {
	t.Helper()
	cfg := testConfig(t)
	j := mustBegin(t, cfg, 1)
	var all []written
	drawn := map[string]int64{}
	note := func() {
		file, err := os.ReadFile(cfg.Path)
		must(t, err)
		counter, err := j.Counter(1)
		must(t, err)
		e := Epoch{Number: 1, Nonce: "nonce-1", Counter: counter}
		for id, tokens := range drawn {
			e.Drawn = append(e.Drawn, Drawn{id, tokens})
		}
		slices.SortFunc(e.Drawn, byGrant)
		all = append(all, written{file, counter, []Epoch{e}})
	}
	note()
	for i := range 60 {
		d := []Drawn{{grantName(i % 23), int64(10 + i)}, {grantName(1000 + i), int64(i)}}
		mustDraw(t, j, 1, d...)
		drawn[d[0].GrantID], drawn[d[1].GrantID] = d[0].Tokens, d[1].Tokens
		note()
		if i%9 == 8 {
			must(t, j.Forget(1, []string{d[1].GrantID}))
			delete(drawn, d[1].GrantID)
			note()
		}
	}
	must(t, j.Close())
	return all
}

// TestCopiesAtEachWrite opens a copy of the file as it was after each write: it shows that write, and a
// counter below the one told last, by which the broker refuses it.
func TestCopiesAtEachWrite(t *testing.T) {
	all := history(t)
	told := all[len(all)-1].counter
	for i, w := range all {
		cfg := testConfig(t)
		must(t, os.WriteFile(cfg.Path, w.file, 0o600))
		wantEpochs(t, reopen(t, cfg), w.epochs)
		if w.counter != uint64(i+1) || i < len(all)-1 && w.counter >= told {
			t.Errorf("write %d: counter %d, told %d", i+1, w.counter, told)
		}
	}
}

// TestCrashWithinWrite opens files as a crash in the middle of a transaction leaves them: some of its
// pages written, and the header page not. They show the write before.
func TestCrashWithinWrite(t *testing.T) {
	all := history(t)
	rng := rand.New(rand.NewPCG(*seed, 0))
	t.Logf("-journal.seed=%d", *seed)
	page := os.Getpagesize()
	for i := range len(all) - 1 {
		before, after := all[i], all[i+1]
		file := slices.Clone(before.file)
		if n := len(after.file) - len(file); n > 0 {
			file = append(file, make([]byte, n)...)
		}
		for at := 2 * page; at < len(after.file); at += page {
			if rng.IntN(2) == 0 {
				copy(file[at:at+page], after.file[at:])
			}
		}
		cfg := testConfig(t)
		must(t, os.WriteFile(cfg.Path, file, 0o600))
		wantEpochs(t, reopen(t, cfg), before.epochs)
	}
}
