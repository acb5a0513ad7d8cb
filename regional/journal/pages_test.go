package journal

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// pagesOf returns the pages of a kind, each with its overflow, in a file that they can be changed in.
func pagesOf(file []byte, flags uint16) []page {
	size := os.Getpagesize()
	var found []page
	for at := 2 * size; at < len(file); {
		p := page(file[at:])
		n := size * int(1+native.Uint32(p[12:]))
		if p.flags() == flags && native.Uint64(p) == uint64(at/size) {
			found = append(found, p[:n])
		}
		at += n
	}
	return found
}

// TestCheckPages breaks each rule that checkPages holds pages to.
func TestCheckPages(t *testing.T) {
	cfg := testConfig(t)
	sample(t, cfg, 400)
	file := usedBytes(t, cfg.Path)
	size := len(file)
	m, err := readMetas(bytes.NewReader(file), int64(size))
	must(t, err)
	at := func(file []byte, id uint64) page { return page(file[id*m.pageSize:]) }
	branch := native.Uint64(liveBranch(t, cfg, file))

	for _, c := range []struct {
		name, want string
		change     func(file []byte)
	}{
		{"page of another number", "says that it is page", func(f []byte) { f[m.root*m.pageSize]++ }},
		{"page of another kind", "is no page of a tree", func(f []byte) { at(f, m.root)[8] = flagFreelist }},
		{"overflow past the end", "is outside the file", func(f []byte) { native.PutUint32(at(f, m.root)[12:], 1<<31) }},
		{"cycle", "is used twice", func(f []byte) { native.PutUint64(at(f, branch).element(0)[8:], branch) }},
		{"child outside", "is outside the file", func(f []byte) { native.PutUint64(at(f, branch).element(0)[8:], m.end) }},
		{"header page as a child", "is outside the file", func(f []byte) { native.PutUint64(at(f, branch).element(0)[8:], 1) }},
		{"one child twice", "is used twice", func(f []byte) {
			copy(at(f, branch).element(1)[8:16], at(f, branch).element(0)[8:16])
		}},
		{"lost child", "is neither in use nor free", func(f []byte) { at(f, branch)[10]-- }},
		{"branch key outside", "not inside it", func(f []byte) { native.PutUint32(at(f, branch).element(0), 1<<31) }},
		{"branch without children", "is no page of a tree", func(f []byte) { native.PutUint16(at(f, branch)[10:], 0) }},
		{"leaf value outside", "not inside it", func(f []byte) { native.PutUint32(at(f, m.root).element(0)[12:], 1<<31) }},
		{"more entries than fit", "not inside it", func(f []byte) { native.PutUint16(at(f, branch)[10:], 0x7FFF) }},
		{"unknown entry", "unknown kind", func(f []byte) { at(f, m.root).element(0)[0] = 4 }},
		{"short bucket", "bucket of 3 bytes", func(f []byte) { native.PutUint32(at(f, m.root).element(0)[12:], 3) }},
		{"no free list", "is not a free list", func(f []byte) { at(f, m.freelist)[8] = flagLeaf }},
		{"long free list", "does not fit", func(f []byte) { native.PutUint16(at(f, m.freelist)[10:], 0xFFFE) }},
		{"huge free list", "does not fit", func(f []byte) {
			native.PutUint16(at(f, m.freelist)[10:], 0xFFFF)
			native.PutUint64(at(f, m.freelist)[pageHeader:], 1<<60)
		}},
		{"free page in use", "is used twice", func(f []byte) { native.PutUint64(at(f, m.freelist)[pageHeader:], m.root) }},
		{"free page forgotten", "is neither in use nor free", func(f []byte) { at(f, m.freelist)[10]-- }},
	} {
		broken := bytes.Clone(file)
		c.change(broken)
		err := checkPages(bytes.NewReader(broken), int64(size))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	err = checkPages(bytes.NewReader(file[:size-1]), int64(size-1))
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "less than its") {
		t.Errorf("a short file: %v", err)
	}
}

// liveBranch returns the branch page of the sample that is in use: breaking it is seen.
func liveBranch(t *testing.T, cfg Config, file []byte) page {
	t.Helper()
	for _, p := range pagesOf(file, flagBranch) {
		broken := bytes.Clone(file)
		native.PutUint16(page(broken[native.Uint64(p)*uint64(os.Getpagesize()):])[10:], 0)
		if checkPages(bytes.NewReader(broken), int64(len(broken))) != nil {
			return p
		}
	}
	t.Fatalf("%s has no branch page in use", cfg.Path)
	return nil
}

// TestKeyOrder breaks what only the order of keys shows: all records are there, and some are not found.
func TestKeyOrder(t *testing.T) {
	cfg := testConfig(t)
	sample(t, cfg, 400)
	file := usedBytes(t, cfg.Path)

	branch := liveBranch(t, cfg, file)
	e := branch.element(1)
	e[native.Uint32(e)] = 'z' // the first byte of the key that parts the first child from the second
	must(t, os.WriteFile(cfg.Path, file, 0o600))
	_, err := Open(cfg)
	wantError(t, err, ErrCorrupt)

	cfg = testConfig(t)
	sample(t, cfg, 3) // grants a and b of epoch 4 in an inline bucket, which bbolt's check passes over
	file = usedBytes(t, cfg.Path)
	swapped := 0
	for _, p := range pagesOf(file, flagLeaf) {
		one, _ := encodeDrawn(4, Drawn{"a", 1})
		two, _ := encodeDrawn(4, Drawn{"b", 21})
		before := leafData("a", one, "b", two)
		if i := bytes.Index(p, before); i >= 0 {
			copy(p[i:], leafData("b", two, "a", one))
			swapped++
		}
	}
	if swapped == 0 {
		t.Fatal("the records are not where they are expected")
	}
	must(t, os.WriteFile(cfg.Path, file, 0o600))
	_, err = Open(cfg)
	wantError(t, err, ErrCorrupt)
	if err != nil && !strings.Contains(err.Error(), "out of order") {
		t.Error(err)
	}
}

func leafData(k1 string, v1 []byte, k2 string, v2 []byte) []byte {
	return bytes.Join([][]byte{[]byte(k1), v1, []byte(k2), v2}, nil)
}
