package tokenleasev1

// MaxBatchChecks is the most that one CheckBatchRequest may ask.
const MaxBatchChecks = 1000

// Validate checks the key and the cost, which may be 0 or more: whether 0 is
// permitted is the policy's word. The error is a *FieldError.
func (m *CheckRequest) Validate() error { return asError(m.fault()) }

func (m *CheckRequest) fault() *FieldError {
	if e := m.GetKey().fault(); e != nil {
		return e.within("key")
	}
	return checkNotNegative("cost_tokens", m.GetCostTokens())
}

// Validate checks the number of checks alone. Each check is decided on its own,
// so the limiter validates each, and answers a wrong one with REASON_INVALID in
// its place. The error is a *FieldError.
func (m *CheckBatchRequest) Validate() error {
	return asError(checkCount("checks", len(m.GetChecks()), 0, MaxBatchChecks))
}

// MaxCheckWaitMillis is the longest that a check may wait for its turn, in
// milliseconds.
const MaxCheckWaitMillis = 600_000
