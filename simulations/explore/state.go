package explore

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/simulations/judge"
)

const slots = regions * maxStarts

// state is the world between two events.
type state struct {
	store  *storePart
	owners [maxOwners]*ownerPart // nil: not yet, or knows that it is over
	procs  [slots]*procPart      // nil: not yet, or dead
	disks  [slots]*diskPart      // what the process in the slot writes to
	judge  *judgePart
	pool   *set[*message]
	late   *set[*lateTxn]
	used   used
}

// used counts what the scope bounds.
type used struct {
	ticks, giveUps, hints, stops, badDisks, attests, doubts, owners, versions uint8

	starts [regions]uint8
	checks [slots]uint8
}

// digest is the state's fingerprint.
func (s *state) digest() digest {
	m := mixer{a: 0x9e3779b97f4a7c15, b: 0xc2b2ae3d27d4eb4f}
	m.part(s.store.digest)
	m.part(s.judge.digest)
	m.part(s.pool.digest)
	m.part(s.late.digest)
	for i, o := range s.owners {
		if o != nil {
			m.word(uint64(i + 1))
			m.part(o.digest)
		}
	}
	for i := range s.procs {
		if s.procs[i] != nil {
			m.word(uint64(i + 100))
			m.part(s.procs[i].digest)
		}
		if s.disks[i] != nil {
			m.word(uint64(i + 200))
			m.part(s.disks[i].digest)
		}
	}
	u := &s.used
	m.word(uint64(u.ticks) | uint64(u.giveUps)<<8 | uint64(u.hints)<<16 | uint64(u.stops)<<24 |
		uint64(u.badDisks)<<32 | uint64(u.attests)<<40 | uint64(u.doubts)<<48 | uint64(u.owners)<<56)
	m.word(uint64(u.versions) | uint64(u.starts[0])<<8 | uint64(u.starts[1])<<16)
	word := uint64(0)
	for _, n := range u.checks {
		word = word<<8 | uint64(n)
	}
	m.word(word)
	return m.sum()
}

// mixer mixes words that are random already in two lanes of 64 bits.
type mixer struct{ a, b uint64 }

func (m *mixer) word(n uint64) { m.pair(n, n) }

func (m *mixer) part(p digest) {
	m.pair(binary.LittleEndian.Uint64(p[:8]), binary.LittleEndian.Uint64(p[8:]))
}

func (m *mixer) pair(n, o uint64) {
	hi, lo := bits.Mul64(m.a^n, 0xa0761d6478bd642f)
	m.a = hi ^ lo + o
	hi, lo = bits.Mul64(m.b^o, 0xe7037ed1a0b428db)
	m.b = bits.RotateLeft64(hi^lo, 29) + n
}

func (m *mixer) sum() (p digest) {
	binary.LittleEndian.PutUint64(p[:8], m.a)
	binary.LittleEndian.PutUint64(p[8:], m.b)
	return p
}

// initial is the world at the start: one owner, and one process in each region.
func (x *explorer) initial() (*state, error) {
	k := newKept()
	s := &state{
		judge: x.judgePart(judge.New(x.scope.rule(1))),
		pool:  setOf(&x.pools, []*message(nil)), late: setOf(&x.late, []*lateTxn(nil)),
	}
	s.store = x.storePart(k)
	s.store = x.befalls(s.store, storeInput{kind: writesPolicy, arg: 1}).next
	s.used.versions = 1
	elected := x.befalls(s.store, storeInput{kind: failsOver})
	if elected.fail != "" {
		return nil, fmt.Errorf("scope %s: %s", x.scope.Name, elected.fail)
	}
	s.store, s.owners[0], s.used.owners = elected.next, elected.owner, 1
	for region := range regions {
		if x.scope.Starts[region] > 0 {
			x.begin(s, region, nil)
		}
	}
	return s, nil
}

// begin starts the region's next process on the disk; nil for a fresh one.
func (x *explorer) begin(s *state, region int, d *disk) (fail string) {
	registered := x.befalls(s.store, storeInput{kind: starts, arg: region, now: s.used.ticks})
	s.store = registered.next
	epoch := s.store.kept.epochs[region]
	slot := slotOf(region, epoch)
	s.used.starts[region]++
	var past []holder.PastEpoch
	if x.scope.Journal != holder.JournalOff {
		if d == nil {
			d = &disk{}
		}
		past = d.past()
		d = d.begin(epoch, x.scope.Copies)
		s.disks[slot] = x.diskPart(d)
	}
	return x.became(s, slot, x.start(region, epoch, past, s.used.ticks))
}

// became takes what a process did into the state.
func (x *explorer) became(s *state, slot uint8, r *procResult) (fail string) {
	s.procs[slot] = r.next
	for _, m := range r.sent {
		s.pool = s.pool.with(&x.pools, m)
	}
	if s.disks[slot] != nil {
		if len(r.finish) > 0 {
			s.disks[slot] = x.diskPart(s.disks[slot].disk.finish(r.finish, x.scope.Copies))
		}
		if r.next == nil {
			s.disks[slot] = nil
		}
	}
	if r.fail != "" {
		return r.fail
	}
	if r.admitted > 0 {
		j := x.judged(s.judge, judgeInput{now: s.used.ticks, admitted: r.admitted})
		s.judge = j.next
		return j.fail
	}
	return ""
}

// changed takes a new store into the state, and shows it to the judge.
func (x *explorer) changed(s *state, next *storePart) {
	if next == s.store {
		return
	}
	s.store = next
	if len(x.scope.Capacities) > 0 && next.kept.ledger != nil {
		s.judge = x.judged(s.judge, judgeInput{now: s.used.ticks, ledger: next}).next
	}
}

// check holds what processes could still spend against what is reserved for it,
// and that all of it, and what is available to be granted, could be spent at
// once: available + U never exceeds what an ideal bucket holds (contract C1). So
// a broken rule shows before the credit that it makes up is spent.
func (x *explorer) check(s *state) (fail string) {
	total := int64(0)
	for i, p := range s.procs {
		if p == nil {
			continue
		}
		if p.credit > p.unspent {
			return fmt.Sprintf("%s can spend %d of grant %q, of which it has %d", slotName(uint8(i)), p.credit, p.grant, p.unspent)
		}
		sum := s.spendable(i)
		total += sum
		for j, q := range s.procs {
			if q != nil && j != i && q.grant == p.grant {
				sum += s.spendable(j)
			}
		}
		if sum > 0 && sum > s.store.reserved(p.grant) {
			return fmt.Sprintf("%d tokens of grant %s are unspent in regions, %d are reserved: %v",
				sum, p.grant, s.store.reserved(p.grant), s.store.kept.ledger)
		}
	}
	if l := s.store.kept.ledger; s.store.kept.exists && l != nil {
		total += l.Available
	}
	if total > 0 {
		if r := x.judged(s.judge, judgeInput{now: s.used.ticks, admitted: total, asked: true}); r.fail != "" {
			return fmt.Sprintf("%d tokens are available or unspent in regions, and could be spent at once: %s", total, r.fail)
		}
	}
	return ""
}
