package tokenleasev1

import "time"

// longest is the most of every length of time in a policy.
const longest = 366 * 24 * time.Hour

// Limits of a policy.
const (
	// MaxCapacityTokens is the largest capacity of a token bucket, limit of a window,
	// or number of slots.
	MaxCapacityTokens = 1_000_000_000_000_000_000
	// MaxRefillInterval is the longest interval that a refill may be spread over.
	MaxRefillInterval = longest
	// MaxSharePercent is the largest share that one holder may have out.
	MaxSharePercent = 100
	// MinWindow is the shortest rolling window.
	MinWindow = time.Millisecond
	// MaxWindow is the longest rolling window.
	MaxWindow = longest
	// MinHold is the shortest Policy.hold_ns.
	MinHold = time.Millisecond
	// MaxHold is the longest Policy.hold_ns.
	MaxHold = longest
	// DefaultHold is what Policy.hold_ns of 0 reads as.
	DefaultHold = time.Minute
	// MinStaleness is the shortest Policy.max_staleness_ns: a limiter asks anew after a
	// third of it.
	MinStaleness = 5 * time.Second
	// MaxStaleness is the longest Policy.max_staleness_ns.
	MaxStaleness = longest
	// MinReclaimMargin is the shortest Policy.reclaim_margin_ns.
	MinReclaimMargin = time.Second
	// MaxReclaimMargin is the longest Policy.reclaim_margin_ns.
	MaxReclaimMargin = longest
	// MaxLocalFor is the longest that a local allowance may last.
	MaxLocalFor = longest
)

// Validate checks every field and how they fit together. The version and the
// time of the update are the broker's and are not looked at. The error is a
// *FieldError.
func (m *Policy) Validate() error { return asError(m.fault()) }

func (m *Policy) fault() *FieldError {
	if e := checkText("operation", m.GetOperation(), 1, MaxOperationBytes); e != nil {
		return e
	}
	if e := m.ruleFault(); e != nil {
		return e
	}
	if e := m.costFault(); e != nil {
		return e
	}
	if s := m.GetMaxSharePercent(); s < 0 || s > MaxSharePercent {
		return faultf("max_share_percent", "must be 1 to %d, or 0 for %d, is %d", MaxSharePercent, MaxSharePercent, s)
	}
	if e := m.reservationFault(); e != nil {
		return e
	}
	if m.GetDisabledBecause() != "" {
		if !m.GetDisabled() {
			return faultf("disabled_because", "must be empty unless disabled is set")
		}
		if e := checkSaid("disabled_because", m.GetDisabledBecause(), MaxBecauseBytes); e != nil {
			return e
		}
	}
	return m.choiceFault()
}

// ruleFault checks that there is a rule, and its numbers.
func (m *Policy) ruleFault() *FieldError {
	switch {
	case m.GetTokenBucket() != nil:
		return m.GetTokenBucket().fault().within("token_bucket")
	case m.GetFixedWindow() != nil:
		return m.GetFixedWindow().fault().within("fixed_window")
	case m.GetRollingWindow() != nil:
		return m.GetRollingWindow().fault().within("rolling_window")
	case m.GetConcurrency() != nil:
		return checkCapacity("slots", m.GetConcurrency().GetSlots()).within("concurrency")
	}
	return faultf("rule", "must be set: want one of token_bucket, fixed_window, rolling_window, concurrency")
}

// reservationFault checks what becomes of reservations.
func (m *Policy) reservationFault() *FieldError {
	if h := m.GetHoldNs(); h != 0 {
		if e := checkDuration("hold_ns", h, MinHold); e != nil {
			return e
		}
	}
	if m.GetPostpaid() && m.GetConcurrency() != nil {
		return faultf("postpaid", "must not be set with concurrency: a slot costs nothing more")
	}
	if m.GetLocal() != nil && m.GetConcurrency() != nil {
		return faultf("local", "must not be set with concurrency: an allowance is spent, and a slot is held")
	}
	return nil
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
	if e := m.reclaimFault(); e != nil {
		return e
	}
	return m.unavailableFault()
}

// reclaimFault checks for how long credit may be spent without a word of the broker,
// and what becomes of it afterwards.
func (m *Policy) reclaimFault() *FieldError {
	staleness, margin := m.GetMaxStalenessNs(), m.GetReclaimMarginNs()
	if staleness != 0 {
		if e := checkDuration("max_staleness_ns", staleness, MinStaleness); e != nil {
			return e
		}
	}
	switch m.GetReclaim() {
	case Reclaim_RECLAIM_UNSPECIFIED, Reclaim_RECLAIM_PROOF:
		if margin != 0 {
			return faultf("reclaim_margin_ns", "must be 0 unless reclaim is RECLAIM_DEADLINE")
		}
		return nil
	case Reclaim_RECLAIM_DEADLINE:
	default:
		return faultf("reclaim", "must be RECLAIM_PROOF or RECLAIM_DEADLINE, is the unknown value %d", m.GetReclaim())
	}
	switch {
	case m.GetConcurrency() != nil:
		return faultf("reclaim", "must be RECLAIM_PROOF with concurrency: no deadline ends the work that holds a slot")
	case m.GetPostpaid():
		return faultf("reclaim", "must be RECLAIM_PROOF with postpaid: what a silent holder owes would be lost")
	case staleness == 0:
		return faultf("max_staleness_ns", "must be set where reclaim is RECLAIM_DEADLINE")
	}
	return checkDuration("reclaim_margin_ns", margin, MinReclaimMargin)
}

// unavailableFault checks what is answered without authority, and that the numbers
// of the local allowance are there where they are used, and nowhere else.
func (m *Policy) unavailableFault() *FieldError {
	switch m.GetOnUnavailable() {
	case Unavailability_UNAVAILABILITY_UNSPECIFIED, Unavailability_UNAVAILABILITY_REJECT:
		if m.GetLocal() != nil {
			return faultf("local", "must be unset unless on_unavailable is UNAVAILABILITY_LOCAL")
		}
		return nil
	case Unavailability_UNAVAILABILITY_LOCAL:
		if m.GetLocal() == nil {
			return faultf("local", "must be set where on_unavailable is UNAVAILABILITY_LOCAL")
		}
		return m.GetLocal().fault().within("local")
	}
	return faultf("on_unavailable", "must be UNAVAILABILITY_REJECT or UNAVAILABILITY_LOCAL, is the unknown value %d", m.GetOnUnavailable())
}

func (m *LocalAllowance) fault() *FieldError {
	// Of a capacity of 0 nothing would ever be admitted: that is called reject.
	if c := m.GetCapacityTokens(); c < 1 || c > MaxCapacityTokens {
		return faultf("capacity_tokens", "must be 1 to %d, is %d", int64(MaxCapacityTokens), c)
	}
	if e := refillFault(m.GetRefillTokens(), m.GetRefillIntervalNs()); e != nil {
		return e
	}
	return checkDuration("for_ns", m.GetForNs(), 1)
}

func (m *TokenBucket) fault() *FieldError {
	if e := checkCapacity("capacity_tokens", m.GetCapacityTokens()); e != nil {
		return e
	}
	return refillFault(m.GetRefillTokens(), m.GetRefillIntervalNs())
}

func (m *FixedWindow) fault() *FieldError {
	if e := checkCapacity("limit_tokens", m.GetLimitTokens()); e != nil {
		return e
	}
	switch m.GetPeriod() {
	case Period_PERIOD_MINUTE, Period_PERIOD_HOUR, Period_PERIOD_DAY, Period_PERIOD_WEEK, Period_PERIOD_MONTH:
	case Period_PERIOD_UNSPECIFIED:
		return faultf("period", "must be set")
	default:
		return faultf("period", "must be a period from PERIOD_MINUTE to PERIOD_MONTH, is the unknown value %d", m.GetPeriod())
	}
	return checkTimeZone("time_zone", m.GetTimeZone())
}

func (m *RollingWindow) fault() *FieldError {
	if e := checkCapacity("limit_tokens", m.GetLimitTokens()); e != nil {
		return e
	}
	return checkDuration("window_ns", m.GetWindowNs(), MinWindow)
}

// refillFault checks what arrives over time.
func refillFault(refill, interval int64) *FieldError {
	switch {
	case refill < 0:
		return faultf("refill_tokens", "must be 0 or more, is %d", refill)
	case interval < 0 || interval > int64(MaxRefillInterval):
		return faultf("refill_interval_ns", "must be 1 to %d (366 days), is %d", int64(MaxRefillInterval), interval)
	case refill > 0 && interval == 0:
		return faultf("refill_interval_ns", "must be 1 or more where refill_tokens is, is 0")
	}
	return nil
}

// checkCapacity holds the most that may be unspent to what a ledger can count.
func checkCapacity(field string, tokens int64) *FieldError {
	if tokens < 0 || tokens > MaxCapacityTokens {
		return faultf(field, "must be 0 to %d, is %d", int64(MaxCapacityTokens), tokens)
	}
	return nil
}

// checkDuration holds a number of nanoseconds to a range, ends included.
func checkDuration(field string, ns int64, least time.Duration) *FieldError {
	if ns < int64(least) || ns > int64(longest) {
		return faultf(field, "must be %d to %d (366 days), is %d", int64(least), int64(longest), ns)
	}
	return nil
}
