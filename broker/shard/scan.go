package shard

import (
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// scanSize is how many stored budgets one scan reads.
const scanSize = 256

// scanJob reads some of the stored budgets that are not in memory, in turn, and
// brings in those with nothing out, and those with grants that lapse. The sweep drops the ones that have filled up
// since: without it, the record of a budget that refills slowly, or whose owner
// has changed, would stay until somebody asked for it again.
type scanJob struct {
	reading bool
	read    bool
	idle    []lease.Key
	lapsing bool // some of them have grants that lapse
}

func (j *scanJob) run(s *Shard, b *batch) progress {
	if !j.read {
		if !j.reading {
			j.reading = j.readPage(s, b)
		}
		return again
	}
	loaded := true
	for _, key := range j.idle {
		e, ok := s.entry(key, b)
		if !ok {
			loaded = false
		} else if pol, ruled := s.ruling(e); ruled && e.err == nil && !e.exists && e.recorded {
			s.start(e, pol) // the record of an earlier generation
		}
	}
	if !loaded {
		return again
	}
	return complete
}

func (j *scanJob) readPage(s *Shard, b *batch) bool {
	key, end := record.All(s.cfg.Layout.Budgets(s.cfg.ID))
	op := store.Op{Kind: store.OpRange, Key: max(key, s.scanned), End: end, Limit: scanSize}
	return b.read(op, func(r store.OpResult) error {
		j.reading, j.read = false, true
		s.scanned = ""
		for _, kv := range r.KVs {
			if r.More {
				s.scanned = kv.Key + "\x00"
			}
			stored, err := record.Decode[record.Budget](kv)
			if err != nil {
				continue // told when somebody asks for it
			}
			k := lease.Key{Account: stored.Account, Operation: stored.Operation}
			if lapses := s.lapsing(stored); s.ledgers[k] == nil && (lapses || s.filled(stored)) {
				j.idle = append(j.idle, k)
				j.lapsing = j.lapsing || lapses
			}
		}
		return nil
	})
}

// filled says that nothing is out and refill must have filled the budget by now.
func (s *Shard) filled(b record.Budget) bool {
	if b.Since() != s.era.Generation {
		pol, ruled := s.common(b.Operation) // most likely: it is looked at again before it is dropped
		return s.fullWithout(lease.Key{Account: b.Account, Operation: b.Operation}, pol, ruled)
	}
	if len(b.Grants) > 0 {
		return false
	}
	l, err := b.Ledger(nil)
	if err != nil {
		return false
	}
	s.calendar.Turn(&l, s.now, s.wall, s.behindWall(), s.log)
	l.Advance(s.now)
	return l.Full()
}

// finish goes on at once where deadlines begin only when they are read.
func (j *scanJob) finish(s *Shard) {
	s.scanning = j.lapsing && s.scanned != ""
	if s.scanning {
		s.queue = append(s.queue, &scanJob{})
	}
}

func (j *scanJob) fail(error)    {}
func (j *scanJob) restart() bool { return false }
