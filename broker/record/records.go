package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// ErrUnreadable means that a stored record is not in the form of this package.
var ErrUnreadable = errors.New("it was not written by this version of tokenlease; run `tokenlease verify` and keep the store as it is")

// Cluster is the identity of a cluster. Only the declaration of a restore and its
// attestation change it.
type Cluster struct {
	ID         string `json:"id"`
	Shards     uint32 `json:"shards"`
	Generation uint32 `json:"generation"` // raised when a restore is declared
	// Attested is the generation of the last attestation. When it is the current
	// one, every process of earlier generations has ended.
	Attested      uint32 `json:"attested,omitempty"`
	CreatedUnixMs int64  `json:"created_unix_ms"`
}

// Unknown says that a restore was declared, and that processes of earlier
// generations may still run: every budget is unknown credit.
func (c Cluster) Unknown() bool { return c.Generation > 1 && c.Attested != c.Generation }

// Declaration is one declared restore.
type Declaration struct {
	Generation      uint32 `json:"generation"` // that it started
	Replaced        uint32 `json:"replaced"`   // the generation before it, in the copy that was restored
	Nonce           string `json:"nonce"`      // of the request: the same one declares once
	UnixMs          int64  `json:"unix_ms"`
	By              string `json:"by"`
	Because         string `json:"because"`
	AttestedUnixMs  int64  `json:"attested_unix_ms,omitempty"` // 0: not attested
	AttestedBy      string `json:"attested_by,omitempty"`
	AttestedBecause string `json:"attested_because,omitempty"`
}

// Registration is the newest epoch of one holder.
type Registration struct {
	Region           string `json:"region"`
	Instance         string `json:"instance"`
	Epoch            uint64 `json:"epoch"`
	StartNonce       string `json:"start_nonce"`
	Retired          bool   `json:"retired,omitempty"` // an operator attested that the epoch is gone
	RegisteredUnixMs int64  `json:"registered_unix_ms"`
}

// Holder that the registration is of.
func (r Registration) Holder() lease.Holder {
	return lease.Holder{Region: r.Region, Instance: r.Instance}
}

// Serves is the lowest epoch that may still be served.
func (r Registration) Serves() uint64 {
	if r.Retired {
		return r.Epoch + 1
	}
	return r.Epoch
}

// Broker is a live broker.
type Broker struct {
	ID  string `json:"id"`
	URL string `json:"url"` // where other brokers reach it
}

// Owner is a shard's ownership.
type Owner struct {
	Shard       uint32 `json:"shard"`
	BrokerID    string `json:"broker_id"`
	URL         string `json:"url"`
	SinceUnixMs int64  `json:"since_unix_ms,omitempty"` // for display
}

// Move is a shard that an operator has given to a broker. It counts while that
// broker is live; otherwise the shard belongs where it usually does.
type Move struct {
	Shard    uint32 `json:"shard"`
	BrokerID string `json:"broker_id"`
	By       string `json:"by"`
	Because  string `json:"because,omitempty"`
	UnixMs   int64  `json:"unix_ms"`
}

// Head is rewritten by every commit of a shard, which compares its revision: so
// commits form a chain.
type Head struct {
	ClockNs         int64  `json:"clock_ns"`                 // ledger time of the commit
	NextGrant       uint64 `json:"next_grant"`               // sequence of the next grant ID, never reused
	Cleared         uint32 `json:"cleared,omitempty"`        // generation before which no grants are stored any more
	PolicyVersion   int64  `json:"policy_version,omitempty"` // that every stored budget with credit out has been brought to
	CommittedUnixMs int64  `json:"committed_unix_ms"`
}

// Budget is a ledger without its grants, which have keys of their own.
type Budget struct {
	Account    string     `json:"account"`
	Operation  string     `json:"operation"`
	Generation uint32     `json:"generation,omitempty"` // that wrote it; absent: 1
	Rule       lease.Rule `json:"rule"`
	UpdatedNs  int64      `json:"updated_ns"`
	Available  int64      `json:"available"`
	Remainder  int64      `json:"remainder,omitempty"`
	Debt       int64      `json:"debt,omitempty"`   // used beyond reservations, and not paid yet
	Reserved   int64      `json:"reserved"`         // outstanding of all grants, for readers
	Grants     []string   `json:"grants,omitempty"` // keys below the shard's grants/
	Cut        int64      `json:"cut,omitempty"`    // what a lowered capacity hides of what was spent
	CutForNs   int64      `json:"cut_for_ns,omitempty"`

	Recovering  []lease.Release `json:"recovering,omitempty"`    // of a rolling window: spent, and still counted
	Used        int64           `json:"used,omitempty"`          // of a fixed window: spent in its period
	BeganUnixMs int64           `json:"began_unix_ms,omitempty"` // when that period began
	PastNs      int64           `json:"past_ns,omitempty"`       // until when rules of other kinds would remember what was spent
	PastForNs   int64           `json:"past_for_ns,omitempty"`
	Lapsing     bool            `json:"lapsing,omitempty"` // some of its grants lapse
}

// Grant is one grant.
type Grant struct {
	ID           string `json:"id"`
	Account      string `json:"account"`
	Operation    string `json:"operation"`
	Region       string `json:"region"`
	Instance     string `json:"instance"`
	Epoch        uint64 `json:"epoch"`
	Issued       int64  `json:"issued"`
	Spent        int64  `json:"spent"`
	Returned     int64  `json:"returned"`
	Owed         int64  `json:"owed,omitempty"` // used beyond reservations of it
	Sequence     uint64 `json:"sequence"`
	OpenedNs     int64  `json:"opened_ns"`
	Kept         bool   `json:"kept,omitempty"` // ended by its holder; what is outstanding are slots in use
	OpenedUnixMs int64  `json:"opened_unix_ms"` // by the broker's wall clock, for display
	// PolicyVersion is what its holder has installed, as far as is known: credit is
	// handed out together with the policy, and later versions are reported.
	PolicyVersion int64 `json:"policy_version,omitempty"`
	// LapsesAfterNs is how long after its epoch's newest request about the budget it
	// lapses; 0: never.
	LapsesAfterNs int64 `json:"lapses_after_ns,omitempty"`
}

// Key of the budget that the grant is of.
func (g Grant) Key() lease.Key { return lease.Key{Account: g.Account, Operation: g.Operation} }

// Fence is a shard's fence of one holder.
type Fence struct {
	Region      string       `json:"region"`
	Instance    string       `json:"instance"`
	MinEpoch    uint64       `json:"min_epoch"`
	Told        []lease.Told `json:"told,omitempty"`
	HeardUnixMs int64        `json:"heard_unix_ms"`      // when its holder had been heard last as it was written, for display; 0: never
	Attested    uint64       `json:"attested,omitempty"` // up to this epoch an operator attested that no process runs, as far as the shard knows
}

// Audit is one entry of what operators did.
type Audit struct {
	UnixMs int64  `json:"unix_ms"`
	Action string `json:"action"`
	By     string `json:"by"`
	// Verified says that By is the name of a certificate, not the caller's word.
	Verified bool   `json:"verified,omitempty"`
	Because  string `json:"because,omitempty"`
	Forced   bool   `json:"forced,omitempty"` // a safeguard was overridden
	Subject  string `json:"subject"`
	Before   any    `json:"before,omitempty"`
	After    any    `json:"after,omitempty"`
}

// Since is the generation that wrote the record.
func (b Budget) Since() uint32 { return max(1, b.Generation) }

// In is the record as the generation writes it.
func (b Budget) In(generation uint32) Budget {
	b.Generation = 0
	if generation > 1 {
		b.Generation = generation
	}
	return b
}

// FromLedger splits a ledger into its record; its grants are recorded apart.
func FromLedger(l *lease.Ledger) Budget {
	b := Budget{
		Account: l.Key.Account, Operation: l.Key.Operation, Rule: l.Rule,
		UpdatedNs: int64(l.Updated), Available: l.Available, Remainder: l.Remainder, Debt: l.Debt, Reserved: l.Reserved(),
		Cut: l.Cut, CutForNs: int64(l.CutFor),
		Recovering: l.Recovering, Used: l.Used, BeganUnixMs: l.Began, PastNs: int64(l.Past), PastForNs: int64(l.PastFor),
	}
	for _, g := range l.Grants {
		b.Grants = append(b.Grants, GrantPath(g.Holder, g.Epoch, g.ID))
		b.Lapsing = b.Lapsing || g.Lasts > 0
	}
	return b
}

// FromGrant is the record of a grant of the budget.
func FromGrant(key lease.Key, g lease.Grant, openedUnixMs int64) Grant {
	return Grant{
		ID: g.ID.String(), Account: key.Account, Operation: key.Operation,
		Region: g.Holder.Region, Instance: g.Holder.Instance, Epoch: g.Epoch,
		Issued: g.Issued, Spent: g.Spent, Returned: g.Returned, Owed: g.Owed, Sequence: g.Sequence,
		OpenedNs: int64(g.Opened), OpenedUnixMs: openedUnixMs, Kept: g.Kept,
		LapsesAfterNs: int64(g.Lasts),
	}
}

// Grant is the grant that was recorded.
func (g Grant) Grant() (lease.Grant, error) {
	id, err := lease.ParseGrantID(g.ID)
	if err != nil {
		return lease.Grant{}, err
	}
	return lease.Grant{
		ID: id, Holder: lease.Holder{Region: g.Region, Instance: g.Instance}, Epoch: g.Epoch,
		Issued: g.Issued, Spent: g.Spent, Returned: g.Returned, Owed: g.Owed, Sequence: g.Sequence, Opened: lease.Time(g.OpenedNs), Kept: g.Kept,
		Lasts: time.Duration(g.LapsesAfterNs),
	}, nil
}

// Bare is the ledger of a budget whose grants are not at hand: one without an ID
// stands for what they have outstanding.
func (b Budget) Bare() lease.Ledger {
	return lease.Ledger{
		Key: lease.Key{Account: b.Account, Operation: b.Operation}, Rule: b.Rule,
		Updated: lease.Time(b.UpdatedNs), Available: b.Available, Remainder: b.Remainder, Debt: b.Debt,
		Cut: b.Cut, CutFor: time.Duration(b.CutForNs),
		Recovering: b.Recovering, Used: b.Used, Began: b.BeganUnixMs, Past: lease.Time(b.PastNs), PastFor: time.Duration(b.PastForNs),
		Grants: []lease.Grant{{Issued: b.Reserved}},
	}
}

// Ledger puts a budget and its grants together again, in any order of grants,
// and checks every invariant of the result.
func (b Budget) Ledger(grants []Grant) (lease.Ledger, error) {
	l := b.Bare()
	l.Grants = nil
	if len(grants) != len(b.Grants) {
		return l, fmt.Errorf("budget %s/%s lists %d grants, %d are stored", b.Account, b.Operation, len(b.Grants), len(grants))
	}
	for _, r := range grants {
		g, err := r.Grant()
		if err != nil {
			return l, err
		}
		if r.Key() != l.Key {
			return l, fmt.Errorf("grant %s is of budget %s/%s, not %s/%s", r.ID, r.Account, r.Operation, b.Account, b.Operation)
		}
		l.Grants = append(l.Grants, g)
	}
	lease.SortGrants(l.Grants)
	if reserved := l.Reserved(); reserved != b.Reserved {
		return l, fmt.Errorf("budget %s/%s records %d reserved, its grants have %d", b.Account, b.Operation, b.Reserved, reserved)
	}
	return l, l.Check()
}

// FromFence is the record of a fence.
func FromFence(f *lease.Fence, unixMs int64) Fence {
	return Fence{Region: f.Holder.Region, Instance: f.Holder.Instance, MinEpoch: f.MinEpoch, Told: f.Told, HeardUnixMs: unixMs}
}

// Fence is the fence that was recorded.
func (f Fence) Fence() lease.Fence {
	return lease.Fence{Holder: lease.Holder{Region: f.Region, Instance: f.Instance}, MinEpoch: f.MinEpoch, Told: f.Told}
}

// Encode is the stored form of a record.
func Encode(record any) []byte {
	b, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("record: %T cannot be encoded: %v", record, err)) // plain data: a bug in this package
	}
	return b
}

// Decode reads the stored form. Its error is ErrUnreadable, names the key and
// says what to do.
func Decode[T any](kv store.KeyValue) (T, error) {
	var r T
	if g, ok := any(&r).(*Grant); ok {
		if g.quick(kv.Value) {
			return r, nil
		}
		*g = Grant{}
	}
	if err := json.Unmarshal(kv.Value, &r); err != nil {
		return r, fmt.Errorf("the record at %s cannot be read (%w): %w", kv.Key, err, ErrUnreadable)
	}
	return r, nil
}
