package plainjson

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// Limits of the bodies.
const (
	// MaxBodyBytes is the largest body of a decision or a check.
	MaxBodyBytes = 64 << 10
	// MaxBatchBytes is the largest body of a batch.
	MaxBatchBytes = 1 << 20
	// MaxBatch is the most checks of a batch.
	MaxBatch = pb.MaxBatchChecks
)

// Endpoint is what an endpoint of a check stands for.
type Endpoint struct {
	// Operation of the budget.
	Operation string
	// Cost of one request in tokens, 1 or more. 0: 1 for each of requestCount, and
	// the policy's default without it.
	Cost int64
}

// Config of the API.
type Config struct {
	// Decider decides. Required.
	Decider decision.Decider
	// Ready says whether the limiter can decide. nil: always.
	Ready func() bool
	// Account is the account of an API key; an error refuses the key with its text,
	// which must not repeat it. It may be called concurrently. nil: HashedKey.
	Account func(apiKey string) (string, error)
	// Endpoints are those of checks; others are refused. nil: the endpoint is the
	// operation.
	Endpoints map[string]Endpoint
	// Answers writes the header fields.
	Answers httpanswer.Writer
}

// Validate checks the fields. It joins all that is wrong.
func (c Config) Validate() error {
	faults := []error{c.Answers.Validate()}
	if c.Decider == nil {
		faults = append(faults, errors.New("there is no decider"))
	}
	if c.Endpoints != nil && len(c.Endpoints) == 0 {
		faults = append(faults, errors.New("there is a table of endpoints without any: name some, or leave it out"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Endpoints)) {
		e := c.Endpoints[name]
		if err := (&pb.BudgetKey{Account: "any", Operation: e.Operation}).Validate(); err != nil {
			faults = append(faults, fmt.Errorf("endpoint %s: %w", quote(name), err))
		}
		if e.Cost < 0 {
			faults = append(faults, fmt.Errorf("endpoint %s: the cost is %d: want 1 or more, or 0 for the default", quote(name), e.Cost))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("plainjson: %w", err)
	}
	return nil
}

// hashDigits is how many hexadecimal digits of a hash an account has: 128 bits, so
// that nobody finds a second key for an account.
const hashDigits = 32

// HashedKey is the account of an API key: "key:" and the first 32 hexadecimal
// digits of its SHA-256.
func HashedKey(apiKey string) (string, error) {
	sum := sha256.Sum256([]byte(apiKey))
	return clientkey.APIKeyPrefix + hex.EncodeToString(sum[:])[:hashDigits], nil
}

// HashedKeyWith is like HashedKey with HMAC-SHA-256 under a secret, for keys that
// could be guessed. All limiters of a cluster must have the same secret: else a
// key has several budgets.
func HashedKeyWith(secret []byte) func(apiKey string) (string, error) {
	secret = slices.Clone(secret)
	return func(apiKey string) (string, error) {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(apiKey))
		return clientkey.APIKeyPrefix + hex.EncodeToString(mac.Sum(nil))[:hashDigits], nil
	}
}
