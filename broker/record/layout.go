package record

import (
	"fmt"
	"net/url"
	"strconv"
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
func (l Layout) Holder(h lease.Holder) string { return l.Holders() + HolderPath(h) }

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

// BudgetsOf is the prefix of the account's budgets in the shard.
func (l Layout) BudgetsOf(shard uint32, account string) string {
	return l.Budgets(shard) + url.PathEscape(account) + "/"
}

// Grants is the prefix of the shard's grants.
func (l Layout) Grants(shard uint32) string { return l.Shard(shard) + "grants/" }

// GrantsIn is the prefix of one region's grants in the shard.
func (l Layout) GrantsIn(shard uint32, region string) string {
	return l.Grants(shard) + RegionPath(region)
}

// GrantsOf is the prefix of one holder's grants in the shard.
func (l Layout) GrantsOf(shard uint32, h lease.Holder) string {
	return l.Grants(shard) + HolderPath(h) + "/"
}

// GrantsOfEpoch is the prefix of one epoch's grants in the shard.
func (l Layout) GrantsOfEpoch(shard uint32, h lease.Holder, epoch uint64) string {
	return l.GrantsOf(shard, h) + epochPath(epoch) + "/"
}

// GrantPath is the part of a grant's key below Grants; budgets list their
// grants by it.
func GrantPath(h lease.Holder, epoch uint64, id lease.GrantID) string {
	return HolderPath(h) + "/" + epochPath(epoch) + "/" + id.String()
}

// ParseGrantKey tells whose grant a key of one is about, without its record: the
// holder, its epoch, and the grant's ID. ok is false for other keys.
func ParseGrantKey(key string) (h lease.Holder, epoch uint64, id string, ok bool) {
	rest, id, ok1 := cutLast(key)
	rest, number, ok2 := cutLast(rest)
	rest, instance, ok3 := cutLast(rest)
	_, region, ok4 := cutLast(rest)
	epoch, err := strconv.ParseUint(number, 10, 64)
	return lease.Holder{Region: region, Instance: instance}, epoch, id, ok1 && ok2 && ok3 && ok4 && err == nil
}

// cutLast cuts at the last slash. Holders' names need no escapes.
func cutLast(path string) (rest, last string, ok bool) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", path, false
	}
	return path[:at], path[at+1:], true
}

// Moves is the prefix of the shards that operators have given to a broker.
func (l Layout) Moves() string { return l.prefix + "moves/" }

// Move is the key of that for one shard.
func (l Layout) Move(shard uint32) string { return fmt.Sprintf("%s%03x", l.Moves(), shard) }

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
func (l Layout) Fence(shard uint32, h lease.Holder) string { return l.Fences(shard) + HolderPath(h) }

// Audits is the prefix of the audit entries.
func (l Layout) Audits() string { return l.prefix + "audit/" }

// Audit is the key of one audit entry: in order of time, unique by what.
func (l Layout) Audit(unixMs int64, what string) string {
	return fmt.Sprintf("%s%015d-%s", l.Audits(), unixMs, url.PathEscape(what))
}

// AuditFrom is before every entry of a time, and after every one of before.
func (l Layout) AuditFrom(unixMs int64) string { return fmt.Sprintf("%s%015d", l.Audits(), unixMs) }

// All spans every key with the prefix, for a range.
func All(prefix string) (key, end string) { return prefix, store.PrefixEnd(prefix) }

// HolderPath is how a holder is named in keys.
func HolderPath(h lease.Holder) string {
	return RegionPath(h.Region) + url.PathEscape(h.Instance)
}

// RegionPath begins the names of all holders of a region.
func RegionPath(region string) string { return url.PathEscape(region) + "/" }

// epochPath keeps the keys of a generation in order of epoch.
func epochPath(epoch uint64) string { return fmt.Sprintf("%010d", epoch) }
