package tokenleasev1

// MaxPageSize is the largest page of a list.
const MaxPageSize = 1000

// Validate checks the selection and the page. The error is a *FieldError.
func (m *ListBudgetsRequest) Validate() error { return asError(m.fault()) }

func (m *ListBudgetsRequest) fault() *FieldError {
	if e := selectionFault(m.GetAccount(), m.GetOperation()); e != nil {
		return e
	}
	if e := checkText("search", m.GetSearch(), 0, MaxSearchBytes); e != nil {
		return e
	}
	return pageFault(m.GetPageSize(), m.GetPageToken())
}

// Validate checks the key. The error is a *FieldError.
func (m *ShowBudgetRequest) Validate() error {
	return asError(m.GetKey().fault().within("key"))
}

// Validate checks the selection and the page. The error is a *FieldError.
func (m *ListGrantsRequest) Validate() error { return asError(m.fault()) }

func (m *ListGrantsRequest) fault() *FieldError {
	if e := checkOptionalName("region", m.GetRegion()); e != nil {
		return e
	}
	if e := checkOptionalName("instance", m.GetInstance()); e != nil {
		return e
	}
	if e := selectionFault(m.GetAccount(), m.GetOperation()); e != nil {
		return e
	}
	switch m.GetState() {
	case GrantState_GRANT_STATE_UNSPECIFIED, GrantState_GRANT_STATE_LIVE, GrantState_GRANT_STATE_ORPHANED:
	default:
		return faultf("state", "must be GRANT_STATE_LIVE, GRANT_STATE_ORPHANED or unspecified, is the unknown value %d", m.GetState())
	}
	if e := checkNotNegative("min_age_ms", m.GetMinAgeMs()); e != nil {
		return e
	}
	if e := checkGrantIDPrefix(m.GetGrantIdPrefix()); e != nil {
		return e
	}
	return pageFault(m.GetPageSize(), m.GetPageToken())
}

// Validate checks the form of the ID. The error is a *FieldError.
func (m *ShowGrantRequest) Validate() error {
	return asError(checkGrantID(m.GetGrantId()))
}

// Validate checks the selection. The error is a *FieldError.
func (m *ListHoldersRequest) Validate() error {
	return asError(checkOptionalName("region", m.GetRegion()))
}

// Validate checks the holder. The error is a *FieldError.
func (m *ShowHolderRequest) Validate() error {
	return asError(m.GetHolder().fault().within("holder"))
}

// Validate checks that the attestation is complete. The error is a *FieldError.
func (m *ResolveGrantRequest) Validate() error { return asError(m.fault()) }

func (m *ResolveGrantRequest) fault() *FieldError {
	if e := checkGrantID(m.GetGrantId()); e != nil {
		return e
	}
	if e := checkSaid("attested_by", m.GetAttestedBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// Validate finds nothing: the request has no fields yet.
func (m *VerifyRequest) Validate() error { return nil }

// Validate finds nothing: the request has no fields yet.
func (m *ShowRestoreRequest) Validate() error { return nil }

// Validate checks that the declaration is complete. The error is a *FieldError.
func (m *DeclareRestoreRequest) Validate() error { return asError(m.fault()) }

func (m *DeclareRestoreRequest) fault() *FieldError {
	if m.GetReplacedGeneration() == 0 {
		return faultf("replaced_generation", "must be the generation in force, 1 or more")
	}
	if e := checkNonce("nonce", m.GetNonce()); e != nil {
		return e
	}
	if e := checkSaid("declared_by", m.GetDeclaredBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// Validate checks that the attestation is complete. The error is a *FieldError.
func (m *AttestRestoreRequest) Validate() error { return asError(m.fault()) }

func (m *AttestRestoreRequest) fault() *FieldError {
	if m.GetGeneration() < 2 {
		return faultf("generation", "must be one that a restore has started, 2 or more, is %d", m.GetGeneration())
	}
	if e := checkSaid("attested_by", m.GetAttestedBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// selectionFault checks an optional account and operation.
func selectionFault(account, operation string) *FieldError {
	if e := checkText("account", account, 0, MaxAccountBytes); e != nil {
		return e
	}
	return checkText("operation", operation, 0, MaxOperationBytes)
}

// pageFault checks where a page begins and how long it is.
func pageFault(size uint32, token string) *FieldError {
	if size > MaxPageSize {
		return faultf("page_size", "must be at most %d, is %d", MaxPageSize, size)
	}
	return checkText("page_token", token, 0, MaxPageTokenBytes)
}

// checkOptionalName is checkName for a field that may be empty.
func checkOptionalName(field, value string) *FieldError {
	if value == "" {
		return nil
	}
	return checkName(field, value, MaxHolderNameBytes)
}
