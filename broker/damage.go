package broker

import (
	"errors"

	"github.com/tokenlease/tokenlease/broker/record"
)

// maxUnusable is how many records an answer names that cannot be read.
const maxUnusable = 5

// damage is what an answer tells of records that cannot be read.
type damage struct {
	first []string // up to maxUnusable
	seen  map[string]bool
}

// add notes a fault, once.
func (d *damage) add(err error) {
	text := err.Error()
	if d.seen[text] {
		return
	}
	d.seen[text] = true
	if len(d.first) < maxUnusable {
		d.first = append(d.first, text)
	}
}

// count is how many faults there are.
func (d *damage) count() int64 { return int64(len(d.seen)) }

// past lets the view go on past records that cannot be read, and notes them.
func (v *view) past() *damage {
	d := &damage{seen: map[string]bool{}}
	v.bad = d.add
	for _, fault := range v.faults {
		d.add(fault)
	}
	return d
}

// damaged is what becomes of an error. One of a record that cannot be read is noted, and
// is none any more, where the view goes on past those.
func (v *view) damaged(err error) error {
	if v.bad == nil || !errors.Is(err, record.ErrUnreadable) {
		return err
	}
	v.bad(err)
	return nil
}
