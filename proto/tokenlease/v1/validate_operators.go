package tokenleasev1

// Limits of the requests by which operators see and act.
const (
	// MaxSearchBytes bounds ListBudgetsRequest.search.
	MaxSearchBytes = 256
	// MaxGrantIDPrefixBytes bounds ListGrantsRequest.grant_id_prefix.
	MaxGrantIDPrefixBytes = 64
	// MaxActionBytes bounds ListAuditRequest.action.
	MaxActionBytes = 64
	// MaxTopBudgets is the longest ranking.
	MaxTopBudgets = 100
	// MaxBrokerIDBytes bounds MoveShardRequest.to_broker_id.
	MaxBrokerIDBytes = 128
	// MaxShardNumber is the highest number of a shard in any cluster.
	MaxShardNumber = 4095
)

// Validate checks the holder and that the attestation is complete; a dry run may
// leave its words out. The error is a *FieldError.
func (m *RetireHolderRequest) Validate() error { return asError(m.fault()) }

func (m *RetireHolderRequest) fault() *FieldError {
	if e := m.GetHolder().fault().within("holder"); e != nil {
		return e
	}
	if m.GetDryRun() {
		if e := checkText("attested_by", m.GetAttestedBy(), 0, MaxPersonBytes); e != nil {
			return e
		}
		return checkText("because", m.GetBecause(), 0, MaxBecauseBytes)
	}
	if m.GetEpoch() == 0 {
		return faultf("epoch", "must be the current one, as a dry run tells it")
	}
	if e := checkSaid("attested_by", m.GetAttestedBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// Validate checks the form of the ID. The error is a *FieldError.
func (m *ExplainGrantRequest) Validate() error {
	return asError(checkGrantID(m.GetGrantId()))
}

// Validate checks the order and the length. The error is a *FieldError.
func (m *TopBudgetsRequest) Validate() error { return asError(m.fault()) }

func (m *TopBudgetsRequest) fault() *FieldError {
	switch m.GetOrder() {
	case BudgetOrder_BUDGET_ORDER_UNSPECIFIED, BudgetOrder_BUDGET_ORDER_BUSIEST, BudgetOrder_BUDGET_ORDER_STARVED:
	default:
		return faultf("order", "must be BUDGET_ORDER_BUSIEST, BUDGET_ORDER_STARVED or unspecified, is the unknown value %d", m.GetOrder())
	}
	if m.GetLimit() > MaxTopBudgets {
		return faultf("limit", "must be at most %d, is %d", MaxTopBudgets, m.GetLimit())
	}
	return nil
}

// Validate finds nothing: the request has no fields yet.
func (m *ListShardsRequest) Validate() error { return nil }

// Validate checks the shard's number, the broker's name and whose word it is. The
// error is a *FieldError.
func (m *MoveShardRequest) Validate() error { return asError(m.fault()) }

func (m *MoveShardRequest) fault() *FieldError {
	if m.GetShard() > MaxShardNumber {
		return faultf("shard", "must be at most %d, is %d", MaxShardNumber, m.GetShard())
	}
	if m.GetToBrokerId() != "" {
		if e := checkPrintable("to_broker_id", m.GetToBrokerId(), MaxBrokerIDBytes); e != nil {
			return e
		}
	}
	if e := checkSaid("moved_by", m.GetMovedBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkText("because", m.GetBecause(), 0, MaxBecauseBytes)
}

// Validate checks the selection and the page. The error is a *FieldError.
func (m *ListAuditRequest) Validate() error { return asError(m.fault()) }

func (m *ListAuditRequest) fault() *FieldError {
	if e := checkNotNegative("since_unix_ms", m.GetSinceUnixMs()); e != nil {
		return e
	}
	if e := checkNotNegative("until_unix_ms", m.GetUntilUnixMs()); e != nil {
		return e
	}
	if m.GetUntilUnixMs() != 0 && m.GetUntilUnixMs() <= m.GetSinceUnixMs() {
		return faultf("until_unix_ms", "must be after since_unix_ms, or 0")
	}
	if e := checkText("action", m.GetAction(), 0, MaxActionBytes); e != nil {
		return e
	}
	if e := checkText("by", m.GetBy(), 0, MaxPersonBytes); e != nil {
		return e
	}
	return pageFault(m.GetPageSize(), m.GetPageToken())
}

// Validate finds nothing: the request has no fields yet.
func (m *ShowClusterRequest) Validate() error { return nil }

// checkGrantIDPrefix holds the beginning of a grant ID to printable ASCII without
// spaces; it may be empty.
func checkGrantIDPrefix(value string) *FieldError {
	if value == "" {
		return nil
	}
	return checkPrintable("grant_id_prefix", value, MaxGrantIDPrefixBytes)
}

// Validate finds nothing: the request has no fields.
func (m *WhoAmIRequest) Validate() error { return nil }
