package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// note writes an audit entry of a time.
func (s *site) note(unixMs int64, action, by string) {
	s.t.Helper()
	entry := record.Audit{UnixMs: unixMs, Action: action, By: by, Subject: fmt.Sprint("x", unixMs), Before: map[string]int{"n": 1}, Forced: by == "ben"}
	_, err := s.store.Txn(s.ctx, store.Txn{Then: []store.Op{{
		Kind: store.OpPut, Key: s.layout.Audit(unixMs, action+"-"+by), Value: record.Encode(entry),
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// audit is the whole list, read in pages.
func (n *node) audit(req *pb.ListAuditRequest) []*pb.AuditEntry {
	n.site.t.Helper()
	var all []*pb.AuditEntry
	for {
		resp, err := n.admin.ListAudit(n.site.ctx, connect.NewRequest(req))
		if err != nil {
			n.site.t.Fatal(err)
		}
		all = append(all, resp.Msg.GetEntries()...)
		if size := req.GetPageSize(); size > 0 && len(resp.Msg.GetEntries()) > int(size) {
			n.site.t.Fatalf("a page of %d", len(resp.Msg.GetEntries()))
		}
		if req.PageToken = resp.Msg.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// The audit is listed from either end, in pages of any size, by time, action and
// person.
func TestListAudit(t *testing.T) {
	onEachStore(t, func(t *testing.T, st store.Store) {
		s := newSite(t, st, 1)
		// Entries of 1970 are to stay.
		n := s.start("a", func(c *Config) { c.AuditRetention = 100 * 365 * 24 * time.Hour }).ready()
		for i := range int64(23) {
			s.note(1000+i, []string{"policies.apply", "grants.resolve"}[i%2], []string{"ann", "ben", "cy"}[i%3])
		}
		times := func(entries []*pb.AuditEntry) []int64 {
			var all []int64
			for _, e := range entries {
				all = append(all, e.GetUnixMs())
			}
			return all
		}
		for _, tc := range []struct {
			req  *pb.ListAuditRequest
			want func(int64) bool // of the entries 0 to 22
		}{
			{&pb.ListAuditRequest{}, func(int64) bool { return true }},
			{&pb.ListAuditRequest{SinceUnixMs: 1005}, func(i int64) bool { return i >= 5 }},
			{&pb.ListAuditRequest{UntilUnixMs: 1005}, func(i int64) bool { return i < 5 }},
			{&pb.ListAuditRequest{SinceUnixMs: 1005, UntilUnixMs: 1006}, func(i int64) bool { return i == 5 }},
			{&pb.ListAuditRequest{SinceUnixMs: 2000}, func(int64) bool { return false }},
			{&pb.ListAuditRequest{Action: "grants.resolve"}, func(i int64) bool { return i%2 == 1 }},
			{&pb.ListAuditRequest{Action: "grants"}, func(int64) bool { return false }},
			{&pb.ListAuditRequest{By: "ben"}, func(i int64) bool { return i%3 == 1 }},
			{&pb.ListAuditRequest{By: "ben", Action: "grants.resolve", UntilUnixMs: 1010}, func(i int64) bool { return i%6 == 1 && i < 10 }},
		} {
			var want []int64
			for i := range int64(23) {
				if tc.want(i) {
					want = append(want, 1000+i)
				}
			}
			for _, size := range []uint32{0, 1, 4, 1000} {
				tc.req.PageSize, tc.req.OldestFirst = size, true
				if got := times(n.audit(tc.req)); !slices.Equal(got, want) {
					t.Errorf("%v: %v, want %v", tc.req, got, want)
				}
				tc.req.OldestFirst = false
				got := times(n.audit(tc.req))
				slices.Reverse(got)
				if !slices.Equal(got, want) {
					t.Errorf("%v, backwards: %v, want %v", tc.req, got, want)
				}
			}
		}
		newest := n.audit(&pb.ListAuditRequest{})[0]
		if newest.GetId() != "000000000001022-policies.apply-ben" || newest.GetBy() != "ben" || !newest.GetForced() || newest.GetVerified() || newest.GetBeforeJson() != `{"n":1}` || newest.GetAfterJson() != "" || newest.GetSubject() != "x1022" {
			t.Errorf("newest %v", newest)
		}
		first, err := n.admin.ListAudit(s.ctx, connect.NewRequest(&pb.ListAuditRequest{PageSize: 2}))
		if err != nil {
			t.Fatal(err)
		}
		s.note(5000, "policies.apply", "ann") // after the first page: the second does not shift
		second, err := n.admin.ListAudit(s.ctx, connect.NewRequest(&pb.ListAuditRequest{PageSize: 2, PageToken: first.Msg.GetNextPageToken()}))
		if err != nil || !slices.Equal(times(second.Msg.GetEntries()), []int64{1020, 1019}) {
			t.Errorf("second page %v, %v", second, err)
		}
		_, err = n.admin.ListAudit(s.ctx, connect.NewRequest(&pb.ListAuditRequest{By: "ann", PageToken: first.Msg.GetNextPageToken()}))
		requireCode(t, err, connect.CodeInvalidArgument)
		if !strings.Contains(err.Error(), "other filters") {
			t.Errorf("error %v", err)
		}
	})
}

// Entries are deleted when they are too old, by the owner of shard 0.
func TestAuditRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		now := time.Now().UnixMilli()
		for i := range int64(1250) {
			s.note(now-i*time.Hour.Milliseconds(), "policies.apply", "ann")
		}
		n := s.start("a", func(c *Config) { c.AuditRetention = 1100 * time.Hour }).ready()
		pass(11 * time.Minute)
		if got := len(n.audit(&pb.ListAuditRequest{})); got != 1100 { // those of 0 to 1,099 hours ago
			t.Errorf("%d entries", got)
		}
		pass(10 * time.Hour)
		if got := len(n.audit(&pb.ListAuditRequest{})); got != 1090 {
			t.Errorf("%d entries, ten hours later", got)
		}
		n.stop()
		n = s.start("b").ready() // which keeps them for longer
		pass(24 * time.Hour)
		if got := len(n.audit(&pb.ListAuditRequest{})); got != 1090 {
			t.Errorf("%d entries under the default", got)
		}
	})
}

// yearsAhead is a clock whose wall time is far ahead.
type yearsAhead struct{ Clock }

func (c yearsAhead) Now() time.Time { return c.Clock.Now().AddDate(10, 0, 0) }

// The newest entries stay whatever their age: a wall clock that is years ahead for once
// deletes no more than the others.
func TestAuditKeepsTheNewest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		now := time.Now().UnixMilli()
		for i := range int64(minAudits + 50) {
			s.note(now-i, "policies.apply", "ann")
		}
		n := s.start("a", func(c *Config) { c.AuditRetention, c.Clock = time.Hour, yearsAhead{SystemClock()} }).ready()
		pass(11 * time.Minute)
		got := n.audit(&pb.ListAuditRequest{})
		if len(got) != minAudits || got[0].GetUnixMs() != now || got[len(got)-1].GetUnixMs() != now-minAudits+1 {
			t.Errorf("%d entries", len(got))
		}
		n.stop()
		few := newLocalSite(t, store.NewMemory(), 1)
		few.note(now, "policies.apply", "ann")
		n = few.start("a", func(c *Config) { c.AuditRetention, c.Clock = time.Hour, yearsAhead{SystemClock()} }).ready()
		pass(11 * time.Minute)
		if got := n.audit(&pb.ListAuditRequest{}); len(got) != 1 {
			t.Errorf("of one entry, %d", len(got))
		}
	})
}

// Beyond the most that are kept, the oldest go; an earlier owner of shard 0 deletes
// nothing.
func TestAuditBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := store.NewMemory()
		s := newLocalSite(t, st, 1)
		n := s.start("a").ready()
		now := time.Now().UnixMilli()
		const extra = 321
		for i := int64(0); i < maxAudits+extra; i += 100 {
			var txn store.Txn
			for j := i; j < min(i+100, maxAudits+extra); j++ {
				entry := record.Audit{UnixMs: now + j, Action: "policies.apply", By: "ann"}
				txn.Then = append(txn.Then, store.Op{Kind: store.OpPut, Key: s.layout.Audit(entry.UnixMs, "policies.apply-x"), Value: record.Encode(entry)})
			}
			if _, err := st.Txn(s.ctx, txn); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.pruneAudit(s.ctx, 1); err != nil { // never the revision of an ownership here
			t.Fatal(err)
		}
		from, end := record.All(s.layout.Audits())
		if got := len(s.keys(from, end)); got != maxAudits+extra {
			t.Errorf("an earlier owner left %d entries", got)
		}
		pass(11 * time.Minute)
		kvs := s.keys(from, end)
		if len(kvs) != maxAudits || !strings.Contains(kvs[0].Key, fmt.Sprint(now+extra)) {
			t.Errorf("%d entries, the first %s", len(kvs), kvs[0].Key)
		}
	})
}
