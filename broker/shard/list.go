package shard

import (
	"github.com/tokenlease/tokenlease/broker/record"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// listPage is how many grants are read at a time for a list.
const listPage = 500

// listing is the list of a holder's grants on its way.
type listing struct {
	pager pager
	done  bool
}

// runList reads the holder's unresolved grants of all epochs, so that it can
// close what it never held and repeat its journal's accounts (C5.7). It comes
// after everything else of the request.
func (j *syncJob) runList(s *Shard, b *batch) bool {
	if !j.req.GetListGrants() || j.list.done {
		return true
	}
	for {
		if !j.list.pager.load(b, s.cfg.Layout.GrantsOf(s.cfg.ID, j.holder), listPage) {
			return false
		}
		if j.list.pager.err != nil {
			j.err = j.list.pager.err
			return false
		}
		for _, r := range j.list.pager.page {
			if s.era.Fences(r.Epoch) {
				continue // of another history
			}
			j.resp.Grants = append(j.resp.Grants, GrantToWire(r, s.fence(j.holder).MinEpoch))
		}
		if !j.list.pager.more {
			break
		}
		j.list.pager.loaded = false
	}
	j.list.done, j.resp.Listed, j.gave = true, true, true
	return true
}

// GrantToWire is a stored grant in the form of answers; below minEpoch it is
// orphaned.
func GrantToWire(r record.Grant, minEpoch uint64) *pb.Grant {
	state := pb.GrantState_GRANT_STATE_LIVE
	if r.Epoch < minEpoch {
		state = pb.GrantState_GRANT_STATE_ORPHANED
	}
	return &pb.Grant{
		GrantId: r.ID, Budget: &pb.BudgetKey{Account: r.Account, Operation: r.Operation},
		Holder: &pb.Holder{Region: r.Region, Instance: r.Instance}, Epoch: r.Epoch,
		IssuedTokens: r.Issued, SpentTokens: r.Spent, ReturnedTokens: r.Returned,
		OutstandingTokens: r.Issued - r.Spent - r.Returned, State: state, OpenedLedgerNs: r.OpenedNs, OpenedUnixMs: r.OpenedUnixMs, Kept: r.Kept,
		PolicyVersion: r.PolicyVersion, OwedTokens: r.Owed, LapsesAfterNs: r.LapsesAfterNs,
	}
}
