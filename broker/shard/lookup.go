package shard

import (
	"fmt"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// lookup reads a holder's registration for one job, in a guarded read that
// begins after the job arrived.
type lookup struct {
	reg     *record.Registration // nil until it is read; zero for a holder that never registered
	reading bool
}

// lookUp adds the read to the batch, unless it is on its way. A record that
// cannot be read goes to failed.
func (l *lookup) lookUp(s *Shard, b *batch, h lease.Holder, failed *error) {
	if l.reading {
		return
	}
	op := store.Op{Kind: store.OpGet, Key: s.cfg.Layout.Holder(h)}
	l.reading = b.read(op, func(r store.OpResult) error {
		l.reading, l.reg = false, &record.Registration{}
		if len(r.KVs) == 0 {
			return nil
		}
		reg, err := record.Decode[record.Registration](r.KVs[0])
		if err != nil {
			*failed = fmt.Errorf("%w: %w", ErrRecord, err)
			return err
		}
		l.reg = &reg
		return nil
	})
}
