package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tokenlease/tokenlease/broker/store"
)

// everything is a request for all keys of the subtest.
func (s *suite) everything() store.RangeRequest {
	return store.RangeRequest{Key: s.prefix, End: store.PrefixEnd(s.prefix)}
}

func testRangePages(s *suite) {
	rev := s.apply(nil, s.put("d", "4"), s.put("b", "2"), s.put("e", "5"), s.put("a", "1"), s.put("c", "3"))
	req := s.everything()
	req.Limit = 2
	var pages []string
	for {
		res := s.rangeOf(req)
		if res.Revision != rev {
			s.Fatalf("page read at revision %d, want %d", res.Revision, rev)
		}
		pages = append(pages, s.names(res.KVs))
		if !res.More {
			break
		}
		if len(pages) == 1 {
			s.apply(nil, s.del("c"), s.put("cc", "new")) // invisible to the pages that follow
		}
		req.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
		req.Revision = res.Revision
	}
	if got := strings.Join(pages, "|"); got != "a b|c d|e" {
		s.Fatalf("pages %q, want a b|c d|e", got)
	}
}

func testRangeBounds(s *suite) {
	s.apply(nil, s.put("a", "1"), s.put("b", "2"), s.put("b/1", "3"), s.put("c", "4"))
	cases := []struct {
		key, end string
		limit    int64
		want     string
		more     bool
	}{
		{s.key("b"), "", 0, "b", false},
		{s.key("none"), "", 0, "", false},
		{s.key("a"), s.key("c"), 0, "a b b/1", false},
		{s.key("a"), s.key("a"), 0, "", false},
		{s.key("b"), store.PrefixEnd(s.key("b")), 0, "b b/1", false},
		{s.key("b/"), store.PrefixEnd(s.key("b/")), 0, "b/1", false},
		{s.prefix, store.PrefixEnd(s.prefix), 4, "a b b/1 c", false},
		{s.prefix, store.PrefixEnd(s.prefix), 3, "a b b/1", true},
		{s.key("c"), "\x00", 1, "c", false},
	}
	for _, tc := range cases {
		req := store.RangeRequest{Key: tc.key, End: tc.end, Limit: tc.limit}
		outside := s.rangeOf(req)
		op := store.Op{Kind: store.OpRange, Key: tc.key, End: tc.end, Limit: tc.limit}
		inside := s.txn(nil, op).Results[0]
		more := tc.more || tc.end == "\x00" && outside.More // other keys of the store may follow
		if got := s.names(outside.KVs); got != tc.want || outside.More != more {
			s.Errorf("[%q, %q) limit %d = %q, more %v, want %q, more %v", tc.key, tc.end, tc.limit, got, outside.More, tc.want, more)
		}
		if got := s.names(inside.KVs); got != tc.want || inside.More != more {
			s.Errorf("in a transaction: [%q, %q) limit %d = %q, more %v", tc.key, tc.end, tc.limit, got, inside.More)
		}
	}
	req := store.RangeRequest{Key: "", End: "\x00", Limit: 1, KeysOnly: true}
	if res := s.rangeOf(req); len(res.KVs) != 1 || len(res.KVs[0].Value) != 0 {
		s.Errorf("one key of the whole store, without value = %+v", res.KVs)
	}
}

func testRangeAtOlderRevision(s *suite) {
	first := s.apply(nil, s.put("a", "1"), s.put("b", "1"))
	second := s.apply(nil, s.put("a", "2"), s.del("b"))
	s.apply(nil, s.put("b", "3"), s.put("c", "3"))
	for rev, want := range map[int64]string{first - 1: "", first: "a=1 b=1", second: "a=2", 0: "a=2 b=3 c=3"} {
		req := s.everything()
		req.Revision = rev
		var got []string
		for _, kv := range s.rangeOf(req).KVs {
			got = append(got, s.names([]store.KeyValue{kv})+"="+string(kv.Value))
		}
		if strings.Join(got, " ") != want {
			s.Errorf("at revision %d: %q, want %q", rev, got, want)
		}
	}
	if _, err := s.store.Range(s.ctx, store.RangeRequest{Key: s.key("a"), Revision: first + 1<<40}); err == nil {
		s.Error("a range at a revision to come gave no error")
	}
}

// describe is one event in one word.
func (s *suite) describe(e store.Event) string {
	name := s.names([]store.KeyValue{e.KV})
	if e.Deleted {
		return fmt.Sprintf("-%s@%d", name, e.KV.ModRevision)
	}
	return fmt.Sprintf("%s=%s@%d", name, e.KV.Value, e.KV.ModRevision)
}

// collect reads n events from a watch.
func (s *suite) collect(watch <-chan store.WatchBatch, n int) []string {
	s.Helper()
	var got []string
	for len(got) < n {
		select {
		case batch, open := <-watch:
			if !open || batch.Err != nil {
				s.Fatalf("the watch ended after %q: open %v, error %v", got, open, batch.Err)
			}
			for _, e := range batch.Events {
				got = append(got, s.describe(e))
			}
		case <-s.ctx.Done():
			s.Fatalf("no more events after %q", got)
		}
	}
	return got
}

func (s *suite) wantEvents(watch <-chan store.WatchBatch, want ...string) {
	s.Helper()
	if got := s.collect(watch, len(want)); strings.Join(got, " ") != strings.Join(want, " ") {
		s.Fatalf("events %q, want %q", got, want)
	}
}

func testWatch(s *suite) {
	r1 := s.apply(nil, s.put("a", "1"))
	r2 := s.apply(nil, s.put("b", "1"), s.put("a", "2"))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	end := store.PrefixEnd(s.prefix)
	first := s.store.Watch(ctx, s.prefix, end, r1-1)
	r3 := s.apply(nil, s.del("a"))
	all := []string{
		fmt.Sprintf("a=1@%d", r1), fmt.Sprintf("b=1@%d", r2), fmt.Sprintf("a=2@%d", r2), fmt.Sprintf("-a@%d", r3),
	}
	s.wantEvents(first, all...)
	s.wantEvents(s.store.Watch(ctx, s.prefix, end, r1), all[1:]...)
	s.wantEvents(s.store.Watch(ctx, s.key("b"), "", r1), all[1])

	tail := s.store.Watch(ctx, s.key("a"), "", r3)
	r4 := s.apply(nil, s.put("b", "2"))
	r5 := s.apply(nil, s.put("a", "3"))
	s.wantEvents(tail, fmt.Sprintf("a=3@%d", r5))
	s.wantEvents(first, fmt.Sprintf("b=2@%d", r4), fmt.Sprintf("a=3@%d", r5))
}

func testWatchFromNow(s *suite) {
	s.apply(nil, s.put("a", "old"))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	watch := s.store.Watch(ctx, s.prefix, store.PrefixEnd(s.prefix), 0)
	rev := s.apply(nil, s.put("a", "new"))
	s.wantEvents(watch, fmt.Sprintf("a=new@%d", rev))
}

func testWatchEndsWithContext(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	watch := s.store.Watch(ctx, s.prefix, store.PrefixEnd(s.prefix), 0)
	cancel()
	select {
	case batch, open := <-watch:
		if open && batch.Err == nil {
			s.Fatalf("a cancelled watch delivered %+v", batch)
		}
	case <-s.ctx.Done():
		s.Fatal("a cancelled watch did not end")
	}
}

func testCompaction(s *suite) {
	if s.compact == nil {
		s.Skip("no way to compact this store")
	}
	first := s.apply(nil, s.put("a", "1"))
	second := s.apply(nil, s.put("a", "2"))
	third := s.apply(nil, s.put("a", "3"))
	if err := s.compact(s.ctx, s.store, third); err != nil {
		s.Fatalf("compacting: %v", err)
	}
	if _, err := s.store.Range(s.ctx, store.RangeRequest{Key: s.key("a"), Revision: second}); !errors.Is(err, store.ErrCompacted) {
		s.Fatalf("range at a compacted revision: error %v, want ErrCompacted", err)
	}
	s.wantKV("a", "3", first, third)
	at := s.rangeOf(store.RangeRequest{Key: s.key("a"), Revision: third})
	if len(at.KVs) != 1 || string(at.KVs[0].Value) != "3" {
		s.Fatalf("range at the revision kept = %+v", at.KVs)
	}

	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	watch := s.store.Watch(ctx, s.key("a"), "", first)
	select {
	case batch := <-watch:
		if !errors.Is(batch.Err, store.ErrCompacted) {
			s.Fatalf("watch from a compacted revision delivered %+v, want ErrCompacted", batch)
		}
	case <-s.ctx.Done():
		s.Fatal("watch from a compacted revision delivered nothing")
	}
	if _, open := <-watch; open {
		s.Fatal("a watch went on after its error")
	}
	next := s.apply(guarded(s.modIs("a", third)), s.put("a", "4"))
	s.wantEvents(s.store.Watch(ctx, s.key("a"), "", third), fmt.Sprintf("a=4@%d", next))
}
