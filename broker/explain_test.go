package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func (n *node) explain(grant string) (*pb.ExplainGrantResponse, error) {
	resp, err := n.admin.ExplainGrant(n.site.ctx, connect.NewRequest(&pb.ExplainGrantRequest{GrantId: grant}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// story is that of a grant in words, without times.
func story(resp *pb.ExplainGrantResponse) string {
	var words []string
	for _, e := range resp.GetEvents() {
		word := fmt.Sprintf("%s %d/%d/%d", e.GetWhat(), e.GetIssuedTokens(), e.GetSpentTokens(), e.GetReturnedTokens())
		if e.GetCount() > 1 {
			word += fmt.Sprintf(" x%d", e.GetCount())
		}
		if e.GetDetail() != "" {
			word += " (" + e.GetDetail() + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// The story of a grant from its beginning to its end, as its owner remembers it.
func TestExplainGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		begun := time.Now().UnixMilli()
		for spent := range int64(3) {
			pass(time.Second)
			report := h.asking("acme", 5, grant)
			report.Budgets[0].SpentTokens = spent + 1
			h.sync(report)
		}
		pass(time.Second)
		report := h.asking("acme", 5, grant)
		report.Budgets[0].SpentTokens, report.Budgets[0].ReturnedTokens = 3, 2
		h.sync(report)
		h.ask("acme", 20, grant)
		n.apply(bucket(50, 0))
		pass(time.Second)
		resp, err := n.explain(grant)
		if err != nil {
			t.Fatal(err)
		}
		want := "opened 10/0/0, reported 10/3/0 x3, returned 10/3/2, topped-up 25/3/2, policy 25/3/2 (version 2)"
		if got := story(resp); got != want || resp.GetEnded() || resp.GetGrant().GetOutstandingTokens() != 20 {
			t.Errorf("story %s\nwant  %s\n%v", got, want, resp)
		}
		if e := resp.GetEvents()[1]; e.GetUnixMs() != begun+3000 {
			t.Errorf("reported at %d, want %d", e.GetUnixMs(), begun+3000)
		}
		if resp.GetKeptSinceUnixMs() > begun || resp.GetKeptSinceUnixMs() == 0 {
			t.Errorf("kept since %d", resp.GetKeptSinceUnixMs())
		}
		h.sync(h.closing("acme", grant, 8, 2))
		resp, err = n.explain(grant)
		if err != nil || !resp.GetEnded() || !strings.HasSuffix(story(resp), "closed 25/8/17") || resp.GetGrant().GetSpentTokens() != 8 || resp.GetGrant().GetOutstandingTokens() != 0 {
			t.Errorf("ended: %v, %v", resp, err)
		}
		if len(resp.GetAdvice()) == 0 || !strings.Contains(resp.GetAdvice()[0], "has ended") {
			t.Errorf("advice %q", resp.GetAdvice())
		}
		pass(59 * time.Minute)
		if _, err := n.explain(grant); err != nil {
			t.Errorf("within the hour: %v", err)
		}
		pass(2 * time.Minute)
		_, err = n.explain(grant)
		requireCode(t, err, connect.CodeNotFound)
	})
}

// An orphaned grant says since when it is, and what would free it; resolved, it tells
// whose word that was, even when its owner remembers nothing.
func TestExplainOrphaned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 1)
		n := s.start("a").ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0").hears("acme", 1)
		grant := h.ask("acme", 10).GetGrantId()
		pass(time.Minute)
		n.join("eu", "limiter-0", h.epoch).hears("acme", 1)
		at := time.Now().UTC().Format(time.RFC3339)
		pass(time.Minute)
		resp, err := n.explain(grant)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := story(resp), "opened 10/0/0, orphaned 10/0/0 (epochs below 2 were fenced)"; got != want {
			t.Errorf("story %s\nwant  %s", got, want)
		}
		advice := strings.Join(resp.GetAdvice(), "\n")
		for _, want := range []string{"orphaned since " + at, "epoch 1 of eu/limiter-0", "10 tokens", "journal", "tokenlease grants resolve " + grant} {
			if !strings.Contains(advice, want) {
				t.Errorf("advice without %q:\n%s", want, advice)
			}
		}
		n.stop()
		n = s.start("b").ready()
		resp, err = n.explain(grant)
		if got, want := story(resp), "opened 0/0/0 (as it is stored), orphaned 10/0/0 (epoch 2 registered)"; err != nil || got != want {
			t.Errorf("at a new owner: %s, %v\nwant %s", got, err, want)
		}
		if _, err := n.resolve(grant, false); err != nil {
			t.Fatal(err)
		}
		resp, err = n.explain(grant)
		if err != nil || !resp.GetEnded() || !strings.HasSuffix(story(resp), "resolved 10/10/0 (ann: the disk was shredded)") {
			t.Errorf("resolved: %s, %v", story(resp), err)
		}
		n.stop()
		n = s.start("c").ready()
		resp, err = n.explain(grant)
		if err != nil || !resp.GetEnded() || !strings.HasSuffix(story(resp), "(ann: the disk was shredded)") {
			t.Errorf("resolved, at a new owner: %s, %v", story(resp), err)
		}
		_, err = n.explain("g1-000-0000ffff")
		requireCode(t, err, connect.CodeNotFound)
		_, err = n.explain("g1-0ff-00000001")
		requireCode(t, err, connect.CodeNotFound)
		_, err = n.explain("nonsense")
		requireCode(t, err, connect.CodeInvalidArgument)
	})
}

// Whichever broker is asked, the owner of the shard tells.
func TestExplainPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newLocalSite(t, store.NewMemory(), 8)
		n, m := s.start("a"), s.start("b")
		pass(10 * time.Second)
		n.ready()
		m.ready()
		n.apply(bucket(40, 0))
		h := n.join("eu", "limiter-0")
		for id := range uint32(8) {
			grant := h.hears(accountIn(id, 8), 1).ask(accountIn(id, 8), 10).GetGrantId()
			for _, asked := range []*node{n, m} {
				if resp, err := asked.explain(grant); err != nil || story(resp) != "opened 10/0/0" {
					t.Errorf("shard %d, asked at %s: %v, %v", id, asked.cfg.ID, resp, err)
				}
			}
		}
		if n.passedOn() == 0 || m.passedOn() == 0 {
			t.Error("nothing was passed on")
		}
	})
}
