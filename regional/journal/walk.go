package journal

// page is the content of a page with its overflow, or of an inline bucket's page.
type page []byte

func (p page) flags() uint16 { return native.Uint16(p[8:]) }
func (p page) count() uint64 { return uint64(native.Uint16(p[10:])) }

// element returns the bytes of element i, or nil when it is not inside the page.
func (p page) element(i uint64) []byte {
	at := pageHeader + i*elementSize
	if at+elementSize > uint64(len(p)) {
		return nil
	}
	return p[at:]
}

// freelist notes the pages that are free, and the list's own.
func (w *pageWalk) freelist(id uint64) error {
	p, err := w.load(id)
	if err != nil {
		return err
	}
	if p.flags() != flagFreelist {
		return corruptf("page %d is not a free list", id)
	}
	n, ids := p.count(), p[pageHeader:]
	if n == 0xFFFF { // more than fits: the first entry is the count
		n, ids = native.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids))/8 {
		return corruptf("the free list of %d pages does not fit its page", n)
	}
	for i := range n {
		if err := w.visit(native.Uint64(ids[8*i:]), 1); err != nil {
			return err
		}
	}
	return nil
}

// tree visits a page and all below it, buckets in it included.
func (w *pageWalk) tree(id uint64) error {
	p, err := w.load(id)
	if err != nil {
		return err
	}
	switch {
	case p.flags() == flagLeaf:
		return w.leaf(id, p, true)
	case p.flags() == flagBranch && p.count() > 0:
		return w.branch(id, p)
	default:
		return corruptf("page %d is no page of a tree", id)
	}
}

// branch visits the children of a branch page.
func (w *pageWalk) branch(id uint64, p page) error {
	for i := range p.count() {
		e := p.element(i)
		if e == nil || uint64(native.Uint32(e))+uint64(native.Uint32(e[4:])) > uint64(len(e)) {
			return corruptf("page %d has an entry that is not inside it", id)
		}
		if err := w.tree(native.Uint64(e[8:])); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the entries of a leaf page, and visits the buckets in it where it may have any.
func (w *pageWalk) leaf(id uint64, p page, buckets bool) error {
	for i := range p.count() {
		e := p.element(i)
		if e == nil {
			return corruptf("page %d has an entry that is not inside it", id)
		}
		value := uint64(native.Uint32(e[4:])) + uint64(native.Uint32(e[8:]))
		end := value + uint64(native.Uint32(e[12:]))
		if end > uint64(len(e)) {
			return corruptf("page %d has an entry that is not inside it", id)
		}
		switch flags := native.Uint32(e); {
		case flags == 0:
		case flags == flagBucket && buckets:
			if err := w.bucket(id, e[value:end]); err != nil {
				return err
			}
		default:
			return corruptf("page %d has an entry of an unknown kind", id)
		}
	}
	return nil
}

// bucket visits a bucket, from its value in page id.
func (w *pageWalk) bucket(id uint64, value []byte) error {
	if len(value) < bucketSize {
		return corruptf("page %d has a bucket of %d bytes", id, len(value))
	}
	if root := native.Uint64(value); root != 0 {
		return w.tree(root)
	}
	inline := page(value[bucketSize:])
	if len(inline) < pageHeader || inline.flags() != flagLeaf {
		return corruptf("page %d has a bucket without a page", id)
	}
	return w.leaf(id, inline, false)
}
