package decisionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/tally"
)

// What a line tells.
const (
	Begin      = "begin"      // a file, or a start of the limiter
	Decision   = "decision"   // on one budget
	Settlement = "settlement" // the end of a reservation
	Lost       = "lost"       // that lines could not be written
)

// Line is one line of a log. The names of its fields in JSON are an interface: they
// are added to, and never change their meaning.
type Line struct {
	What string `json:"what"`
	// Log names one start of one limiter: 16 hexadecimal digits.
	Log string `json:"log"`
	// Order numbers the decisions and settlements of the log, from 1 on. 0 in other
	// lines.
	Order    uint64    `json:"order,omitempty"`
	Time     time.Time `json:"time"`
	MonoNs   int64     `json:"mono_ns"` // the same by the monotonic clock, from any origin
	Region   string    `json:"region"`
	Instance string    `json:"instance"`
	Epoch    uint64    `json:"epoch"` // 0: not registered yet
	// Sample is the share of decisions that the log has, above 0 and at most 1.
	Sample float64 `json:"sample"`

	Account   string `json:"account,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Cost in tokens, as it was asked for: up to the largest integer, which is denied.
	// Of a settlement what the work has cost.
	Cost    int64  `json:"cost,omitempty"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // as in metrics
	Shadow  bool   `json:"shadow,omitempty"` // allowed whatever the reason: nothing was spent
	// Replayed says that this is the recorded answer of an earlier line: nothing was
	// spent.
	Replayed bool  `json:"replayed,omitempty"`
	TookNs   int64 `json:"took_ns,omitempty"`
	// PolicyVersion in force here; 0: none is known, and Rule is unset.
	PolicyVersion int64 `json:"policy_version,omitempty"`
	// PolicyUnixMs is when that was applied, by a broker's wall clock.
	PolicyUnixMs int64       `json:"policy_unix_ms,omitempty"`
	Rule         *lease.Rule `json:"rule,omitempty"`
	Grant        string      `json:"grant,omitempty"`
	// DecisionHash of the caller's decision ID: see HashID.
	DecisionHash string `json:"decision_hash,omitempty"`
	// Part of a decision on several budgets, from 1 to Parts. All of them are allowed,
	// or none has spent anything.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`
	// ReservationHash names a reservation, in its decision and its settlement.
	ReservationHash string `json:"reservation_hash,omitempty"`
	// HoldNs is how long the reservation lasts unless it is settled.
	HoldNs int64 `json:"hold_ns,omitempty"`
	// Returned tokens went back to the credit by a settlement.
	Returned int64 `json:"returned,omitempty"`
	// Lost decisions and settlements before this line.
	Lost uint64 `json:"lost,omitempty"`
}

// Key of the budget.
func (l *Line) Key() lease.Key { return lease.Key{Account: l.Account, Operation: l.Operation} }

// Spent says that the line is of a decision that has taken its cost from the budget's
// credit.
func (l *Line) Spent() bool {
	return l.What == Decision && l.Allowed && !l.Shadow && !l.Replayed && l.Reason == tally.Label(pb.Reason_REASON_ALLOWED)
}

// HashID is what a log has in place of an ID: the first 16 bytes of its SHA-256, in
// hexadecimal; empty for none. Whoever knows an ID finds its line.
func HashID(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// Parse reads one line. What is missing that a line of its kind must have is an
// error; fields of later versions are not.
func Parse(text []byte) (*Line, error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("it is no JSON object of a decision log: %w", err)
	}
	if problem := l.problem(); problem != "" {
		return nil, errors.New(problem)
	}
	if l.Rule != nil {
		if err := l.Rule.Validate(); err != nil {
			return nil, fmt.Errorf("its rule is not valid: %w", err)
		}
	}
	return &l, nil
}

func (l *Line) problem() string {
	switch l.What {
	case Begin, Lost, Decision, Settlement:
	case "":
		return `it has no "what": it is of no decision log`
	default:
		return fmt.Sprintf("its \"what\" is %.40q, which this version does not know", l.What)
	}
	numbered := l.What == Decision || l.What == Settlement
	switch {
	case l.Log == "" || l.Region == "" || l.Instance == "" || l.Time.IsZero():
		return `it lacks one of "log", "region", "instance" and "time"`
	case !(l.Sample > 0 && l.Sample <= 1): // NaN is none either
		return fmt.Sprintf("its \"sample\" %v is not above 0 and at most 1", l.Sample)
	case numbered != (l.Order > 0):
		return `its "order" must be 1 or more in decisions and settlements, and 0 elsewhere`
	case numbered && (l.Account == "" || l.Operation == ""):
		return `it lacks "account" or "operation"`
	case l.Cost < 0 || l.TookNs < 0 || l.HoldNs < 0 || l.Returned < 0:
		return "a cost or a duration is negative"
	case l.Spent() && l.Rule == nil:
		return `it is allowed and has no "rule"`
	case l.Rule != nil && l.Rule.Version != l.PolicyVersion:
		return `its rule is of another version than its "policy_version"`
	}
	return ""
}
