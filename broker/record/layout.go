package record

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// DefaultPrefix is where a cluster is stored unless configured otherwise.
const DefaultPrefix = "/tokenlease/"

// Layout builds the keys of one cluster.
type Layout struct{ prefix string }

// NewLayout is the layout under prefix; a missing slash at its end is added,
// and an empty prefix is DefaultPrefix.
func NewLayout(prefix string) Layout {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return Layout{prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

// Prefix is the prefix of every key.
func (l Layout) Prefix() string { return l.prefix }

// Cluster is the key of the cluster record.
func (l Layout) Cluster() string { return l.prefix + "cluster" }

// Declarations is the prefix of the declared restores.
func (l Layout) Declarations() string { return l.prefix + "declarations/" }

// Declaration is the key of the restore that started the generation.
func (l Layout) Declaration(generation uint32) string {
	return fmt.Sprintf("%s%010d", l.Declarations(), generation)
}

// Policies is the prefix of all policies.
func (l Layout) Policies() string { return l.prefix + "policies/" }

// Policy is the key of one operation's policy.
func (l Layout) Policy(operation string) string { return l.Policies() + url.PathEscape(operation) }

// Holders is the prefix of all registrations.
func (l Layout) Holders() string { return l.prefix + "holders/" }

// Holder is the key of one holder's registration.
func (l Layout) Holder(h lease.Holder) string { return l.Holders() + holderPath(h) }

// Brokers is the prefix of the live brokers.
func (l Layout) Brokers() string { return l.prefix + "brokers/" }

// Broker is the key of one live broker.
func (l Layout) Broker(id string) string { return l.Brokers() + url.PathEscape(id) }

// Shards is the prefix of everything that shards store.
func (l Layout) Shards() string { return l.prefix + "shards/" }

// Shard is the prefix of everything that one shard stores.
func (l Layout) Shard(shard uint32) string { return fmt.Sprintf("%sshards/%03x/", l.prefix, shard) }

// Owners is the prefix of all ownerships.
func (l Layout) Owners() string { return l.prefix + "owners/" }

// Owner is the key of the shard's ownership. It stands apart from what the shard
// stores, so that ownerships can be watched without every commit.
func (l Layout) Owner(shard uint32) string { return fmt.Sprintf("%s%03x", l.Owners(), shard) }

// Head is the key that every commit of the shard rewrites.
func (l Layout) Head(shard uint32) string { return l.Shard(shard) + "head" }

// Budgets is the prefix of the shard's budgets.
func (l Layout) Budgets(shard uint32) string { return l.Shard(shard) + "budgets/" }

// Budget is the key of one budget.
func (l Layout) Budget(shard uint32, key lease.Key) string {
	return l.Budgets(shard) + url.PathEscape(key.Account) + "/" + url.PathEscape(key.Operation)
}

// Grants is the prefix of the shard's grants.
func (l Layout) Grants(shard uint32) string { return l.Shard(shard) + "grants/" }

// GrantsOf is the prefix of one holder's grants in the shard.
func (l Layout) GrantsOf(shard uint32, h lease.Holder) string {
	return l.Grants(shard) + holderPath(h) + "/"
}

// GrantsOfEpoch is the prefix of one epoch's grants in the shard.
func (l Layout) GrantsOfEpoch(shard uint32, h lease.Holder, epoch uint64) string {
	return l.GrantsOf(shard, h) + epochPath(epoch) + "/"
}

// GrantPath is the part of a grant's key below Grants; budgets list their
// grants by it.
func GrantPath(h lease.Holder, epoch uint64, id lease.GrantID) string {
	return holderPath(h) + "/" + epochPath(epoch) + "/" + id.String()
}

// Templates is the prefix of the shard's templates.
func (l Layout) Templates(shard uint32) string { return l.Shard(shard) + "templates/" }

// Template is the key of what the operation's budgets without a record have since
// a restore was attested.
func (l Layout) Template(shard uint32, operation string) string {
	return l.Templates(shard) + url.PathEscape(operation)
}

// Fences is the prefix of the shard's fences.
func (l Layout) Fences(shard uint32) string { return l.Shard(shard) + "fences/" }

// Fence is the key of one holder's fence in the shard.
func (l Layout) Fence(shard uint32, h lease.Holder) string { return l.Fences(shard) + holderPath(h) }

// Audits is the prefix of the audit entries.
func (l Layout) Audits() string { return l.prefix + "audit/" }

// Audit is the key of one audit entry: in order of time, unique by what.
func (l Layout) Audit(unixMs int64, what string) string {
	return fmt.Sprintf("%s%015d-%s", l.Audits(), unixMs, url.PathEscape(what))
}

// All spans every key with the prefix, for a range.
func All(prefix string) (key, end string) { return prefix, store.PrefixEnd(prefix) }

func holderPath(h lease.Holder) string {
	return url.PathEscape(h.Region) + "/" + url.PathEscape(h.Instance)
}

// epochPath keeps the keys of a generation in order of epoch.
func epochPath(epoch uint64) string { return fmt.Sprintf("%010d", epoch) }
