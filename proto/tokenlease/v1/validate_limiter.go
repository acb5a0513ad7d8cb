package tokenleasev1

// Limits of the requests to a limiter.
const (
	// MaxBatchChecks is the most that one CheckBatchRequest, or one message of a
	// stream, may ask.
	MaxBatchChecks = 1000
	// MaxCheckParts is the most further budgets of one decision.
	MaxCheckParts = 15
	// MaxDecisionIDBytes bounds CheckRequest.decision_id.
	MaxDecisionIDBytes = 128
	// MaxCheckWaitMillis is the longest that a check may wait for its turn, in
	// milliseconds.
	MaxCheckWaitMillis = 600_000
	// ReservationIDBytes is the length of a reservation's ID, in hexadecimal digits.
	ReservationIDBytes = 32
)

// Validate checks every field, and that no budget stands twice. A cost may be 0 or
// more: whether 0 is permitted is the policy's word. The error is a *FieldError.
func (m *CheckRequest) Validate() error { return asError(m.fault()) }

func (m *CheckRequest) fault() *FieldError {
	if e := m.GetKey().fault(); e != nil {
		return e.within("key")
	}
	if e := checkNotNegative("cost_tokens", m.GetCostTokens()); e != nil {
		return e
	}
	if m.GetDecisionId() != "" {
		if e := checkPrintable("decision_id", m.GetDecisionId(), MaxDecisionIDBytes); e != nil {
			return e
		}
	}
	if e := checkNotNegative("policy_version", m.GetPolicyVersion()); e != nil {
		return e
	}
	if w := m.GetMaxWaitMs(); w > MaxCheckWaitMillis {
		return faultf("max_wait_ms", "must be at most %d, is %d", MaxCheckWaitMillis, w)
	}
	switch m.GetPriority() {
	case Priority_PRIORITY_UNSPECIFIED, Priority_PRIORITY_NORMAL, Priority_PRIORITY_HIGH:
	default:
		return faultf("priority", "must be PRIORITY_NORMAL or PRIORITY_HIGH, is the unknown value %d", m.GetPriority())
	}
	return m.partsFault()
}

// partsFault checks the further budgets. They are few, so that comparing all pairs
// is cheaper than a set.
func (m *CheckRequest) partsFault() *FieldError {
	parts := m.GetAlso()
	if e := checkCount("also", len(parts), MaxCheckParts); e != nil {
		return e
	}
	for i, p := range parts {
		if e := p.fault(); e != nil {
			return e.withinItem("also", i)
		}
		if sameKey(p.GetKey(), m.GetKey()) {
			return faultf(item("also", i)+".key", "must be unique, repeats key")
		}
		for j, earlier := range parts[:i] {
			if sameKey(p.GetKey(), earlier.GetKey()) {
				return faultf(item("also", i)+".key", "must be unique, repeats that of %s", item("also", j))
			}
		}
	}
	return nil
}

func (m *CheckPart) fault() *FieldError {
	if e := m.GetKey().fault(); e != nil {
		return e.within("key")
	}
	return checkNotNegative("cost_tokens", m.GetCostTokens())
}

// Validate checks the number of checks alone. Each check is decided on its own,
// so the limiter validates each, and answers a wrong one with REASON_INVALID in
// its place. The error is a *FieldError.
func (m *CheckBatchRequest) Validate() error {
	return asError(checkCount("checks", len(m.GetChecks()), MaxBatchChecks))
}

// Validate checks the number of checks alone, as that of a CheckBatchRequest does.
func (m *CheckStreamRequest) Validate() error {
	return asError(checkCount("checks", len(m.GetChecks()), MaxBatchChecks))
}

// Validate checks the check, which has one budget. The error is a *FieldError.
func (m *ReserveRequest) Validate() error { return asError(m.fault()) }

func (m *ReserveRequest) fault() *FieldError {
	if m.GetCheck() == nil {
		return faultf("check", "must be set: it says what to reserve")
	}
	if n := len(m.GetCheck().GetAlso()); n > 0 {
		return faultf("check.also", "must be empty: a reservation is of one budget, has %d elements", n)
	}
	return m.GetCheck().fault().within("check")
}

// Validate checks the key, the form of the ID, and the cost. The error is a
// *FieldError.
func (m *SettleRequest) Validate() error { return asError(m.fault()) }

func (m *SettleRequest) fault() *FieldError {
	if e := m.GetKey().fault(); e != nil {
		return e.within("key")
	}
	if e := checkReservationID(m.GetReservationId()); e != nil {
		return e
	}
	return checkNotNegative("cost_tokens", m.GetCostTokens())
}

// checkReservationID holds an ID to the form in which reservations are named.
func checkReservationID(value string) *FieldError {
	const field = "reservation_id"
	if e := checkLength(field, value, ReservationIDBytes, ReservationIDBytes); e != nil {
		return e
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return faultf(field, "must be of hexadecimal digits in lower case, has %q at byte %d", c, i)
		}
	}
	return nil
}
