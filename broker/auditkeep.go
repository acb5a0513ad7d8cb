package broker

import (
	"context"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
)

const (
	// DefaultAuditRetention is how long audit entries are kept.
	DefaultAuditRetention = 90 * 24 * time.Hour
	// maxAudits is how many entries are kept at most: the newest.
	maxAudits = 100_000
	// minAudits is how many are kept whatever their age: how old an entry is, the wall
	// clock of the owner of shard 0 says, which may be far ahead.
	minAudits = 1_000
	// auditEvery is how often entries are looked at.
	auditEvery = 10 * time.Minute
	// auditBatch is how many are deleted at a time.
	auditBatch = 100
)

// keepAudit deletes audit entries that are too old or too many, until ctx ends; the
// newest minAudits stay. The owner of shard 0 does it.
func (b *Broker) keepAudit(ctx context.Context) {
	for ctx.Err() == nil {
		if r := b.ownership.runner(0); r != nil {
			if err := b.pruneAudit(ctx, r.shard.OwnerRevision()); err != nil && ctx.Err() == nil {
				b.cfg.Logger.Warn("old audit entries cannot be deleted; trying again later", "error", err)
			}
		}
		b.ownership.pause(ctx, auditEvery)
	}
}

// pruneAudit deletes what is too old, and the oldest beyond those that are kept. Each
// transaction is small, and compares that this broker still owns shard 0.
func (b *Broker) pruneAudit(ctx context.Context, revision int64) error {
	from, end := record.All(b.layout.Audits())
	keys, err := b.view(ctx).keys(span{from, end})
	if err != nil {
		return err
	}
	old := b.layout.AuditFrom(max(0, b.cfg.Clock.Now().Add(-b.cfg.AuditRetention).UnixMilli()))
	many := max(0, len(keys)-maxAudits)
	n := 0
	for n < len(keys)-minAudits && (n < many || keys[n] < old) {
		n++
	}
	for _, part := range chunks(keys[:n], min(auditBatch, b.cfg.Store.MaxTxnOps())) {
		txn := store.Txn{If: []store.Compare{{Key: b.layout.Owner(0), Target: store.CreateRevision, Revision: revision}}}
		for _, key := range part {
			txn.Then = append(txn.Then, store.Op{Kind: store.OpDelete, Key: key})
		}
		res, err := b.cfg.Store.Txn(ctx, txn)
		if err != nil || !res.Succeeded {
			return err
		}
	}
	return nil
}

func chunks(keys []string, size int) [][]string {
	var parts [][]string
	for len(keys) > 0 {
		n := min(size, len(keys))
		parts, keys = append(parts, keys[:n]), keys[n:]
	}
	return parts
}
