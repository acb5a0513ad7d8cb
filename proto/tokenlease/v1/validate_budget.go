package tokenleasev1

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
