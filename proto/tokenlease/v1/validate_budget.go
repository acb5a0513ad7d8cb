package tokenleasev1

import "time"

// Limits of a policy.
const (
	// MaxCapacityTokens is the largest capacity of a token bucket.
	MaxCapacityTokens = 1_000_000_000_000_000_000
	// MaxRefillInterval is the longest interval that a refill may be spread over.
	MaxRefillInterval = 366 * 24 * time.Hour
	// MaxSharePercent is the largest share that one holder may have out.
	MaxSharePercent = 100
)

// Validate checks both parts of the key. The error is a *FieldError.
func (m *BudgetKey) Validate() error { return asError(m.fault()) }

func (m *BudgetKey) fault() *FieldError {
	if e := checkText("account", m.GetAccount(), 1, MaxAccountBytes); e != nil {
		return e
	}
	return checkText("operation", m.GetOperation(), 1, MaxOperationBytes)
}

// Validate checks both parts of the name. The error is a *FieldError.
func (m *Holder) Validate() error { return asError(m.fault()) }

func (m *Holder) fault() *FieldError {
	if e := checkName("region", m.GetRegion(), MaxHolderNameBytes); e != nil {
		return e
	}
	return checkName("instance", m.GetInstance(), MaxHolderNameBytes)
}

// Validate checks every field and how they fit together. The version and the
// time of the update are the broker's and are not looked at. The error is a
// *FieldError.
func (m *Policy) Validate() error { return asError(m.fault()) }

func (m *Policy) fault() *FieldError {
	if e := checkText("operation", m.GetOperation(), 1, MaxOperationBytes); e != nil {
		return e
	}
	if m.GetTokenBucket() == nil {
		return faultf("token_bucket", "must be set: a policy needs a rule")
	}
	if e := m.GetTokenBucket().fault(); e != nil {
		return e.within("token_bucket")
	}
	if e := m.costFault(); e != nil {
		return e
	}
	if s := m.GetMaxSharePercent(); s < 0 || s > MaxSharePercent {
		return faultf("max_share_percent", "must be 1 to %d, or 0 for %d, is %d", MaxSharePercent, MaxSharePercent, s)
	}
	return m.choiceFault()
}

// costFault checks the costs against each other.
//
// A cost above the capacity is allowed here: such a check is denied for good,
// and a capacity of 0 is the way to close an operation.
func (m *Policy) costFault() *FieldError {
	cost, most := m.GetDefaultCostTokens(), m.GetMaxCostTokens()
	switch {
	case cost < 0:
		return faultf("default_cost_tokens", "must be 1 or more, is %d", cost)
	case cost == 0 && !m.GetAllowZeroCost():
		return faultf("default_cost_tokens", "must be 1 or more, is 0; only allow_zero_cost permits that")
	case most < 0:
		return faultf("max_cost_tokens", "must be 0 or more, is %d", most)
	case most > 0 && cost > most:
		return faultf("default_cost_tokens", "must be at most max_cost_tokens, %d, is %d", most, cost)
	}
	return nil
}

// choiceFault checks that the enumerations have values that are known.
func (m *Policy) choiceFault() *FieldError {
	switch m.GetReclaim() {
	case Reclaim_RECLAIM_UNSPECIFIED, Reclaim_RECLAIM_PROOF:
	default:
		return faultf("reclaim", "must be RECLAIM_PROOF, is the unknown value %d", m.GetReclaim())
	}
	switch m.GetOnUnavailable() {
	case Unavailability_UNAVAILABILITY_UNSPECIFIED, Unavailability_UNAVAILABILITY_REJECT:
	default:
		return faultf("on_unavailable", "must be UNAVAILABILITY_REJECT, is the unknown value %d", m.GetOnUnavailable())
	}
	return nil
}

func (m *TokenBucket) fault() *FieldError {
	capacity, refill, interval := m.GetCapacityTokens(), m.GetRefillTokens(), m.GetRefillIntervalNs()
	switch {
	case capacity < 0 || capacity > MaxCapacityTokens:
		return faultf("capacity_tokens", "must be 0 to %d, is %d", int64(MaxCapacityTokens), capacity)
	case refill < 0:
		return faultf("refill_tokens", "must be 0 or more, is %d", refill)
	case interval < 0 || interval > int64(MaxRefillInterval):
		return faultf("refill_interval_ns", "must be 1 to %d (366 days), is %d", int64(MaxRefillInterval), interval)
	case refill > 0 && interval == 0:
		return faultf("refill_interval_ns", "must be 1 or more where refill_tokens is, is 0")
	}
	return nil
}
