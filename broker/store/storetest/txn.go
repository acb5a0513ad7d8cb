package storetest

import (
	"errors"
	"strconv"
	"sync"

	"github.com/tokenlease/tokenlease/broker/store"
)

func testCompareCreateRevision(s *suite) {
	created := s.apply(nil, s.put("k", "1"))
	s.apply(nil, s.put("k", "2"))
	s.refuse(guarded(s.createIs("k", created+1)), s.put("k", "no"))
	s.apply(guarded(s.createIs("k", created)), s.put("k", "3"))
}

func testCompareModRevision(s *suite) {
	created := s.apply(nil, s.put("k", "1"))
	modified := s.apply(nil, s.put("k", "2"))
	s.refuse(guarded(s.modIs("k", created)), s.put("k", "no"))
	last := s.apply(guarded(s.modIs("k", modified)), s.put("k", "3"))
	s.wantKV("k", "3", created, last)
}

func testCompareMissingKey(s *suite) {
	s.refuse(guarded(s.modIs("k", 1)), s.put("k", "no"))
	s.refuse(guarded(s.createIs("k", 1)), s.put("k", "no"))
	s.apply(guarded(s.modIs("k", 0), s.createIs("k", 0)), s.put("k", "1"))
	s.refuse(guarded(s.createIs("k", 0)), s.put("k", "no"))
	s.apply(nil, s.del("k"))
	s.apply(guarded(s.modIs("k", 0), s.createIs("k", 0)), s.put("k", "2"))
}

func testRefusedTxnAppliesNothing(s *suite) {
	rev := s.apply(nil, s.put("a", "1"), s.put("b", "1"))
	s.refuse(guarded(s.modIs("a", rev), s.modIs("b", rev+7)), s.put("a", "2"), s.del("b"), s.put("c", "2"))
	s.wantKV("a", "1", rev, rev)
	s.wantKV("b", "1", rev, rev)
	s.wantMissing("c")
	if now := s.rangeOf(store.RangeRequest{Key: s.key("a")}).Revision; now != rev {
		s.Fatalf("a refused transaction moved the revision from %d to %d", rev, now)
	}
}

func testOneRevisionPerTxn(s *suite) {
	first := s.apply(nil, s.put("gone", "1"))
	second := s.apply(nil, s.put("a", "1"), s.del("gone"), s.put("b", "1"))
	if second != first+1 {
		s.Fatalf("a transaction of three changes moved the revision from %d to %d", first, second)
	}
	s.wantKV("a", "1", second, second)
	s.wantKV("b", "1", second, second)
	s.wantMissing("gone")
}

func testReadsRaiseNoRevision(s *suite) {
	rev := s.apply(nil, s.put("k", "1"))
	for _, op := range []store.Op{s.get("k"), s.get("none"), s.del("none")} {
		if now := s.apply(nil, op); now != rev {
			s.Fatalf("a transaction that changes nothing moved the revision from %d to %d", rev, now)
		}
	}
	if next := s.apply(nil, s.put("k", "2")); next != rev+1 {
		s.Fatalf("revision %d follows %d", next, rev)
	}
}

func testRecreatedKey(s *suite) {
	created := s.apply(nil, s.put("k", "1"))
	s.apply(nil, s.del("k"))
	s.wantMissing("k")
	again := s.apply(nil, s.put("k", "2"))
	s.wantKV("k", "2", again, again)
	s.refuse(guarded(s.createIs("k", created)), s.put("k", "no"))
}

func testReadsInsideTxn(s *suite) {
	old := s.apply(nil, s.put("a", "old"), s.put("c", "old"))
	all := store.Op{Kind: store.OpRange, Key: s.prefix, End: store.PrefixEnd(s.prefix), Limit: 2}
	res := s.txn(nil, s.get("a"), s.put("a", "new"), s.get("a"), s.put("b", "new"), s.del("c"), all, s.get("c"))
	if len(res.Results) != 7 {
		s.Fatalf("%d results for 7 operations", len(res.Results))
	}
	before, after := res.Results[0].KVs, res.Results[2].KVs
	if len(before) != 1 || string(before[0].Value) != "old" || before[0].ModRevision != old {
		s.Fatalf("get before the put = %+v", before)
	}
	if len(after) != 1 || string(after[0].Value) != "new" || after[0].ModRevision != res.Revision {
		s.Fatalf("get after the put = %+v, want the new value at revision %d", after, res.Revision)
	}
	if got := res.Results[5]; s.names(got.KVs) != "a b" || got.More {
		s.Fatalf("range after the changes = %q, more %v, want a b and no more", s.names(got.KVs), got.More)
	}
	if n := len(res.Results[6].KVs); n != 0 {
		s.Fatal("get after the delete found the key")
	}
}

func testGuardOnlyTxn(s *suite) {
	rev := s.apply(nil, s.put("owner", "me"))
	if res := s.txn(guarded(s.createIs("owner", rev))); !res.Succeeded || res.Revision != rev || len(res.Results) != 0 {
		s.Fatalf("guard that holds = %+v, want success at revision %d", res, rev)
	}
	s.refuse(guarded(s.createIs("owner", rev+1)))
	res := s.txn(guarded(s.createIs("owner", rev)), s.get("owner"))
	if !res.Succeeded || s.names(res.Results[0].KVs) != "owner" {
		s.Fatalf("guarded read = %+v", res)
	}
	s.refuse(guarded(s.modIs("owner", 0)), s.get("owner"))
}

func testInvalidTxns(s *suite) {
	cases := map[string]store.Txn{
		"empty":           {},
		"empty key":       {Then: []store.Op{{Kind: store.OpGet}}},
		"key put twice":   {Then: []store.Op{s.put("k", "1"), s.put("k", "2")}},
		"put and deleted": {Then: []store.Op{s.put("k", "1"), s.del("k")}},
		"byte 0 in key":   {Then: []store.Op{s.put("k\x00", "1")}},
	}
	for name, txn := range cases {
		if _, err := s.store.Txn(s.ctx, txn); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
	s.wantMissing("k")
}

func testTooManyOps(s *suite) {
	most := s.store.MaxTxnOps()
	ops := make([]store.Op, most+1)
	compares := make([]store.Compare, most+1)
	for i := range ops {
		ops[i] = s.put(strconv.Itoa(i), "1")
		compares[i] = s.modIs(strconv.Itoa(i), 0)
	}
	for _, txn := range []store.Txn{{Then: ops}, {If: compares}} {
		if _, err := s.store.Txn(s.ctx, txn); !errors.Is(err, store.ErrTooLarge) {
			s.Fatalf("%d compares, %d operations: error %v, want ErrTooLarge", len(txn.If), len(txn.Then), err)
		}
	}
	s.wantMissing("0")
	s.apply(compares[:most], ops[:most]...)
	reads := make([]store.Op, most)
	for i := range reads {
		reads[i] = s.get(strconv.Itoa(i))
	}
	s.apply(nil, reads...)
}

func testTooManyBytes(s *suite) {
	op := s.put("k", "")
	room := store.MaxTxnBytes - store.Txn{Then: []store.Op{op}}.Size()
	op.Value = make([]byte, room+1)
	if _, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{op}}); !errors.Is(err, store.ErrTooLarge) {
		s.Fatalf("one byte too many: error %v, want ErrTooLarge", err)
	}
	s.wantMissing("k")
	op.Value = op.Value[:room]
	s.apply(nil, op)
	// Many small items: the allowance for each must be enough as well.
	ops := make([]store.Op, s.store.MaxTxnOps())
	for i := range ops {
		ops[i] = s.put("many/"+strconv.Itoa(i), "")
	}
	each := (store.MaxTxnBytes - store.Txn{Then: ops}.Size()) / len(ops)
	for i := range ops {
		ops[i].Value = make([]byte, each)
	}
	s.apply(nil, ops...)
	s.clean()
}

func testChainedHead(s *suite) {
	owner := s.apply(nil, s.put("owner", "me"))
	head := s.apply(guarded(s.modIs("head", 0)), s.put("head", ""))
	for i := range 5 {
		guards := guarded(s.createIs("owner", owner), s.modIs("head", head))
		ops := []store.Op{s.put("head", strconv.Itoa(i)), s.put("budget", strconv.Itoa(i))}
		next := s.apply(guards, ops...)
		s.refuse(guards, ops...)
		head = next
	}
	if kv, _ := s.read("budget"); kv.ModRevision != head || string(kv.Value) != "4" {
		s.Fatalf("budget = %+v, want value 4 at revision %d", kv, head)
	}
}

func testDeposedOwner(s *suite) {
	old := s.session()
	claim := s.put("owner", "old")
	claim.Session = old.ID()
	owned := s.apply(guarded(s.createIs("owner", 0)), claim)
	head := s.apply(guarded(s.createIs("owner", owned)), s.put("head", "old"))

	if err := old.Close(s.ctx); err != nil {
		s.Fatalf("closing the session: %v", err)
	}
	s.refuse(guarded(s.createIs("owner", owned), s.modIs("head", head)), s.put("head", "late"))

	next := s.session()
	claim = s.put("owner", "new")
	claim.Session = next.ID()
	renewed := s.apply(guarded(s.createIs("owner", 0)), claim)
	s.refuse(guarded(s.createIs("owner", owned), s.modIs("head", head)), s.put("head", "late"))
	s.apply(guarded(s.createIs("owner", renewed), s.modIs("head", head)), s.put("head", "new"))
}

func testConcurrentCounter(s *suite) {
	const writers, each = 8, 25
	s.apply(nil, s.put("n", "0"))
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				if err := s.increment("n"); err != nil {
					s.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	if kv, _ := s.read("n"); string(kv.Value) != strconv.Itoa(writers*each) {
		s.Fatalf("the counter is %s after %d increments", kv.Value, writers*each)
	}
}

// increment adds one to a number by compare and swap.
func (s *suite) increment(name string) error {
	for {
		res, err := s.store.Range(s.ctx, store.RangeRequest{Key: s.key(name)})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(res.KVs[0].Value))
		if err != nil {
			return err
		}
		swapped, err := s.store.Txn(s.ctx, store.Txn{
			If:   guarded(s.modIs(name, res.KVs[0].ModRevision)),
			Then: []store.Op{s.put(name, strconv.Itoa(n+1))},
		})
		if err != nil || swapped.Succeeded {
			return err
		}
	}
}
