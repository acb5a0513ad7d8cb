package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Verify implements tokenleasev1connect.AdminHandler: it reads everything at one
// revision and checks every invariant, within ledgers and between records.
func (s adminService) Verify(ctx context.Context, _ *connect.Request[pb.VerifyRequest]) (*connect.Response[pb.VerifyResponse], error) {
	c := &checker{b: s.b, v: s.b.view(ctx), resp: &pb.VerifyResponse{}}
	if err := c.run(); err != nil {
		return nil, wireError(err)
	}
	c.resp.Revision = c.v.revision
	return connect.NewResponse(c.resp), nil
}

type checker struct {
	b    *Broker
	v    *view
	era  record.Cluster
	resp *pb.VerifyResponse

	version int64 // of the policies
}

func (c *checker) report(format string, args ...any) {
	c.resp.Violations = append(c.resp.Violations, fmt.Sprintf(format, args...))
}

func (c *checker) run() error {
	err := c.cluster()
	if err != nil {
		return err
	}
	if err := c.policies(); err != nil {
		return err
	}
	c.v.registrations = map[lease.Holder]record.Registration{}
	err = c.v.each(c.b.layout.Holders(), func(kv store.KeyValue) error {
		c.resp.Holders++
		r, err := record.Decode[record.Registration](kv)
		if err != nil {
			c.report("%v", err)
			return nil
		}
		c.v.registrations[r.Holder()] = r
		if g := lease.GenerationOf(r.Epoch); g > c.era.Generation {
			c.report("holder %v is registered at epoch %d, of generation %d, which is still to come", r.Holder(), r.Epoch, g)
		}
		c.place(kv.Key, c.b.layout.Holder(r.Holder()))
		return nil
	})
	if err != nil {
		return err
	}
	for id := range c.b.cluster.Shards {
		if err := c.shard(id); err != nil {
			return err
		}
	}
	return nil
}

// cluster checks that the generation in force was declared.
func (c *checker) cluster() (err error) {
	if c.era, err = c.v.era(); err != nil || c.era.Generation == 1 {
		return err
	}
	kv, err := c.v.get(c.b.layout.Declaration(c.era.Generation))
	if err == nil && kv == nil {
		c.report("the cluster is in generation %d, whose declaration is not stored: its shards cannot be served", c.era.Generation)
	}
	return err
}

// place checks that a record is stored where what it says belongs.
func (c *checker) place(at, want string) {
	if at != want {
		c.report("the record at %s belongs at %s", at, want)
	}
}

// fences reads the fences of a shard for the view, which would not go on at one
// that cannot be read.
func (c *checker) fences(id uint32) error {
	c.v.fences[id] = map[lease.Holder]uint64{}
	return c.v.each(c.b.layout.Fences(id), func(kv store.KeyValue) error {
		f, err := record.Decode[record.Fence](kv)
		if err != nil {
			c.report("%v", err)
			return nil
		}
		h := lease.Holder{Region: f.Region, Instance: f.Instance}
		c.v.fences[id][h] = f.MinEpoch
		c.place(kv.Key, c.b.layout.Fence(id, h))
		return nil
	})
}

// shard checks one shard: each ledger with its grants, and that every grant
// belongs to one.
func (c *checker) shard(id uint32) error {
	head, err := c.v.head(id)
	if errors.Is(err, record.ErrUnreadable) {
		c.report("%v", err)
		return nil // nothing can be said about the rest
	}
	if err != nil {
		return err
	}
	if err := c.fences(id); err != nil {
		return err
	}
	grants := map[string]record.Grant{}
	prefix := c.b.layout.Grants(id)
	err = c.v.each(prefix, func(kv store.KeyValue) error {
		g, err := record.Decode[record.Grant](kv)
		if err == nil && c.earlier(g) {
			return nil
		}
		c.resp.Grants++
		if err != nil {
			c.report("%v", err)
			return nil
		}
		path := kv.Key[len(prefix):]
		grants[path] = g
		return c.grant(id, head, path, g)
	})
	if err != nil {
		return err
	}
	err = c.v.each(c.b.layout.Budgets(id), func(kv store.KeyValue) error {
		c.resp.Budgets++
		c.budget(head, kv, grants)
		return nil
	})
	if err == nil {
		err = c.templates(id, head)
	}
	for _, path := range slices.Sorted(maps.Keys(grants)) {
		g := grants[path]
		c.report("grant %s of budget %s/%s is not listed by its budget", g.ID, g.Account, g.Operation)
	}
	return err
}

// grant checks what a grant says against the shard and its holder.
func (c *checker) grant(id uint32, head record.Head, path string, g record.Grant) error {
	parsed, err := lease.ParseGrantID(g.ID)
	if err != nil {
		c.report("%v", err)
		return nil
	}
	h := lease.Holder{Region: g.Region, Instance: g.Instance}
	minEpoch, err := c.v.minEpoch(id, h)
	if err != nil {
		return err
	}
	registered := c.v.registrations[h].Epoch
	c.place(c.b.layout.Grants(id)+path, c.b.layout.Grants(id)+record.GrantPath(h, g.Epoch, parsed))
	switch {
	case parsed.Shard != id:
		c.report("grant %s is stored in shard %d", g.ID, id)
	case parsed.Generation > c.era.Generation || lease.GenerationOf(g.Epoch) != parsed.Generation:
		c.report("grant %s is of epoch %d, in generation %d of the cluster", g.ID, g.Epoch, c.era.Generation)
	case parsed.Sequence >= head.NextGrant:
		c.report("grant %s is above the shard's next grant %d: an ID could be used twice", g.ID, head.NextGrant)
	case g.OpenedNs > head.ClockNs:
		c.report("grant %s was opened after the shard's clock", g.ID)
	case g.Epoch > registered:
		c.report("grant %s is of epoch %d of %v, whose newest is %d: the store was set back", g.ID, g.Epoch, h, registered)
	}
	if g.PolicyVersion > c.version {
		c.report("the holder of grant %s has installed policy version %d, and version %d is in force: the policies were set back", g.ID, g.PolicyVersion, c.version)
	}
	if outstanding := g.Issued - g.Spent - g.Returned; g.Epoch < minEpoch {
		c.resp.OrphanedTokens += outstanding
	}
	return nil
}

// budget checks a ledger, and takes its grants out of grants.
func (c *checker) budget(head record.Head, kv store.KeyValue, grants map[string]record.Grant) {
	b, err := record.Decode[record.Budget](kv)
	if err != nil {
		c.report("%v", err)
		return
	}
	switch since := b.Since(); {
	case since > c.era.Generation:
		c.report("budget %s/%s was written by generation %d, which is still to come", b.Account, b.Operation, since)
	case since < c.era.Generation:
		c.before(kv.Key, b)
		return
	}
	var own []record.Grant
	for _, path := range b.Grants {
		g, ok := grants[path]
		if !ok {
			c.report("budget %s/%s lists grant %s, which is not stored", b.Account, b.Operation, path)
			continue
		}
		own = append(own, g)
		delete(grants, path)
	}
	c.resp.ReservedTokens += b.Reserved
	if b.Rule.Version > c.version {
		c.report("budget %s/%s is under policy version %d, and version %d is in force: the policies were set back; apply them again until the version is above", b.Account, b.Operation, b.Rule.Version, c.version)
	}
	if _, err := b.Ledger(own); err != nil {
		c.report("%v", err)
	}
	key := lease.Key{Account: b.Account, Operation: b.Operation}
	c.place(kv.Key, c.b.layout.Budget(lease.ShardOf(key, c.b.cluster.Shards), key))
	if b.UpdatedNs > head.ClockNs {
		c.report("budget %s/%s was updated after the shard's clock", b.Account, b.Operation)
	}
}

// earlier says that a restore was declared since the grant was opened: it is gone.
func (c *checker) earlier(g record.Grant) bool {
	id, err := lease.ParseGrantID(g.ID)
	return err == nil && !id.IsZero() && id.Generation < c.era.Generation
}

// before counts a budget of before a restore, of which all is unknown until that
// is attested.
func (c *checker) before(at string, b record.Budget) {
	id := lease.ShardOf(lease.Key{Account: b.Account, Operation: b.Operation}, c.b.cluster.Shards)
	_, unknown, err := c.v.inForce(id, b)
	if err != nil {
		c.report("budget at %s: %v", at, err)
	}
	c.resp.ReservedTokens += unknown.GetOutstandingTokens()
	c.resp.OrphanedTokens += unknown.GetOutstandingTokens()
}

// templates checks what budgets without a record have since a restore was
// attested.
func (c *checker) templates(id uint32, head record.Head) error {
	return c.v.each(c.b.layout.Templates(id), func(kv store.KeyValue) error {
		t, err := record.Decode[record.Budget](kv)
		if err != nil {
			c.report("%v", err)
			return nil
		}
		if t.Since() < c.era.Generation {
			return nil
		}
		c.place(kv.Key, c.b.layout.Template(id, t.Operation))
		if _, err := t.Ledger(nil); err != nil {
			c.report("template: %v", err)
		}
		if t.UpdatedNs > head.ClockNs {
			c.report("the template of %s was updated after the shard's clock", t.Operation)
		}
		return nil
	})
}
