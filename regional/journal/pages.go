package journal

import (
	"encoding/binary"
	"hash/fnv"
	"io"
)

// The page layout of a bbolt file of format 2, in the byte order of the host that wrote it:
//
//	page     id u64, flags u16, count u16, overflow u32, then its elements
//	header   magic u32, version u32, page size u32, flags u32, root bucket (page u64, sequence u64),
//	         free list page u64, end u64 (pages in use), transaction u64, FNV-1a of the bytes before it
//	branch   per element: position u32, key size u32, child page u64
//	leaf     per element: flags u32, position u32, key size u32, value size u32
//	bucket   the value of a flagged leaf element: root page u64, sequence u64; root 0 means that a leaf
//	         page follows inline
//
// Positions count from their element's own first byte. A page with overflow is that many pages longer.
const (
	pageHeader  = 16
	elementSize = 16
	bucketSize  = 16
	metaSize    = 64

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10

	flagBucket = 0x01
)

var native = binary.NativeEndian

// meta is what a bbolt header page says.
type meta struct {
	pageSize, root, freelist, end, txid uint64
}

// checkPages reads a bbolt file of size bytes and returns [ErrCorrupt] unless both header pages are
// intact and every page in use is either reached exactly once from the newer header, with all its
// elements inside it, or is on the free list. A file that passes can be mapped and followed without
// leaving it or going round in circles. It reads by plain reads, so that damage gives an error instead of
// a memory fault.
func checkPages(file io.ReaderAt, size int64) error {
	m, err := readMetas(file, size)
	if err != nil {
		return err
	}
	w := &pageWalk{file: file, pageSize: m.pageSize, end: m.end, seen: make([]bool, m.end)}
	w.seen[0], w.seen[1] = true, true
	if err := w.freelist(m.freelist); err != nil {
		return err
	}
	if err := w.tree(m.root); err != nil {
		return err
	}
	for id, seen := range w.seen {
		if !seen {
			return corruptf("page %d is neither in use nor free", id)
		}
	}
	return nil
}

// readMetas reads both header pages and returns the newer one.
func readMetas(file io.ReaderAt, size int64) (meta, error) {
	m0, err := readMeta(file, 0)
	if err != nil {
		return meta{}, err
	}
	m1, err := readMeta(file, int64(m0.pageSize))
	if err != nil {
		return meta{}, err
	}
	if m0.pageSize != m1.pageSize {
		return meta{}, corruptf("the header pages differ in their page size")
	}
	if m1.txid > m0.txid {
		m0 = m1
	}
	if m0.end < 4 || m0.end > uint64(size)/m0.pageSize {
		return meta{}, corruptf("the file has %d bytes, less than its %d pages of %d", size, m0.end, m0.pageSize)
	}
	return m0, nil
}

// readMeta reads the header page at offset.
func readMeta(file io.ReaderAt, offset int64) (meta, error) {
	var b [metaSize]byte
	if _, err := file.ReadAt(b[:], offset+pageHeader); err != nil {
		return meta{}, corruptf("the header page at %d cannot be read: %w", offset, err)
	}
	if native.Uint32(b[0:]) != boltMagic || native.Uint32(b[4:]) != boltVersion {
		return meta{}, corruptf("the header page at %d is not of a bbolt file", offset)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	if h.Sum64() != native.Uint64(b[metaSize-8:]) {
		return meta{}, corruptf("the header page at %d is damaged, the last write may be missing", offset)
	}
	m := meta{
		pageSize: uint64(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		end:      native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}
	if m.pageSize < 1024 || m.pageSize > 1<<24 || m.pageSize&(m.pageSize-1) != 0 {
		return meta{}, corruptf("the page size is %d", m.pageSize)
	}
	return m, nil
}

// pageWalk visits pages, each at most once.
type pageWalk struct {
	file     io.ReaderAt
	pageSize uint64
	end      uint64 // first page that is not in use
	seen     []bool
}

// visit notes that n pages from id on are accounted for.
func (w *pageWalk) visit(id, n uint64) error {
	if id < 2 || id >= w.end || n > w.end-id {
		return corruptf("page %d is outside the file", id)
	}
	for i := id; i < id+n; i++ {
		if w.seen[i] {
			return corruptf("page %d is used twice", i)
		}
		w.seen[i] = true
	}
	return nil
}

// load reads a page, with its overflow.
func (w *pageWalk) load(id uint64) (page, error) {
	if id < 2 || id >= w.end {
		return nil, corruptf("page %d is outside the file", id)
	}
	var header [pageHeader]byte
	offset := int64(id * w.pageSize)
	if _, err := w.file.ReadAt(header[:], offset); err != nil {
		return nil, corruptf("page %d cannot be read: %w", id, err)
	}
	if native.Uint64(header[:]) != id {
		return nil, corruptf("page %d says that it is page %d", id, native.Uint64(header[:]))
	}
	n := uint64(native.Uint32(header[12:])) + 1
	if err := w.visit(id, n); err != nil {
		return nil, err
	}
	p := make(page, n*w.pageSize)
	if _, err := w.file.ReadAt(p, offset); err != nil {
		return nil, corruptf("page %d cannot be read: %w", id, err)
	}
	return p, nil
}
