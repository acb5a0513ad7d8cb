package broker

import (
	"context"
	"encoding/json"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// word is whose word a change rests on, for its audit entry: the name in the
// caller's certificate, or else what the caller claims.
func (b *Broker) word(ctx context.Context, claimed, because string) record.Audit {
	by, verified := person(ctx, claimed)
	return record.Audit{UnixMs: b.cfg.Clock.Now().UnixMilli(), By: by, Verified: verified, Because: because}
}

// audit is the operation that records what an operator did, in the transaction that
// does it.
func (b *Broker) audit(word record.Audit) store.Op {
	return store.Op{
		Kind: store.OpPut, Key: b.layout.Audit(word.UnixMs, word.Action+"-"+word.Subject+"-"+randomID()), Value: record.Encode(word),
	}
}

// storedAudit is an entry as it is read: what stood before and after is of the kind
// that its action is about.
type storedAudit struct {
	record.Audit

	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// ListAudit implements tokenleasev1connect.AdminHandler.
func (s adminService) ListAudit(ctx context.Context, req *connect.Request[pb.ListAuditRequest]) (*connect.Response[pb.ListAuditResponse], error) {
	v, m := s.b.view(ctx), req.Msg
	resp := &pb.ListAuditResponse{}
	prefix := s.b.layout.Audits()
	take := func(kv store.KeyValue) (bool, error) {
		r, err := record.Decode[storedAudit](kv)
		if err != nil || !matches(m.GetAction(), r.Action) || !matches(m.GetBy(), r.By) {
			return false, err
		}
		resp.Entries = append(resp.Entries, &pb.AuditEntry{
			Id: kv.Key[len(prefix):], UnixMs: r.UnixMs, Action: r.Action, By: r.By, Verified: r.Verified, Because: r.Because,
			Subject: r.Subject, BeforeJson: string(r.Before), AfterJson: string(r.After), Forced: r.Forced,
		})
		return true, nil
	}
	next, err := v.auditPage(m, take)
	if err != nil {
		return nil, wireError(err)
	}
	resp.NextPageToken, resp.Revision = next, v.revision
	return connect.NewResponse(resp), nil
}
