package tokenleasev1

// Limits of the requests about policies.
const (
	// MaxPolicies is the most policies for everybody in one ApplyPoliciesRequest, and
	// the most of one plan and of one account. As many plans, as many accounts and as
	// many removals of each may stand in one request. How many of them may change is
	// bounded by what fits into one transaction of the store.
	MaxPolicies = 1000
	// MaxPlanNameBytes bounds Plan.name.
	MaxPlanNameBytes = 64
)

// Validate checks every policy, plan and account, that nothing stands twice, and who
// applies them; a dry run may leave that out. The error is a *FieldError.
func (m *ApplyPoliciesRequest) Validate() error { return asError(m.fault()) }

func (m *ApplyPoliciesRequest) fault() *FieldError {
	if m.empty() {
		return faultf("policies", "must have 1 to %d elements, has 0, unless the request names plans, accounts, a default plan or what to remove", MaxPolicies)
	}
	if e := policiesFault("policies", m.GetPolicies()); e != nil {
		return e
	}
	if e := m.plansFault(); e != nil {
		return e
	}
	if e := m.accountsFault(); e != nil {
		return e
	}
	if m.DefaultPlan != nil {
		if e := checkPlan("default_plan", m.GetDefaultPlan()); e != nil {
			return e
		}
	}
	if e := m.removalFault(); e != nil {
		return e
	}
	if e := checkNotNegative("if_version", m.GetIfVersion()); e != nil {
		return e
	}
	if e := checkText("applied_by", m.GetAppliedBy(), leastSaid(m.GetDryRun()), MaxPersonBytes); e != nil {
		return e
	}
	return checkText("because", m.GetBecause(), 0, MaxBecauseBytes)
}

// empty says that the request names nothing at all.
func (m *ApplyPoliciesRequest) empty() bool {
	return len(m.GetPolicies())+len(m.GetPlans())+len(m.GetAccounts())+
		len(m.GetRemoveOperations())+len(m.GetRemovePlans())+len(m.GetRemoveAccounts()) == 0 && m.DefaultPlan == nil
}

// policiesFault checks policies, each of another operation.
func policiesFault(field string, policies []*Policy) *FieldError {
	if e := checkCount(field, len(policies), MaxPolicies); e != nil {
		return e
	}
	for i, p := range policies {
		if e := p.fault(); e != nil {
			return e.withinItem(field, i)
		}
	}
	return uniqueFault(field, ".operation", len(policies), func(i int) string { return policies[i].GetOperation() })
}

func (m *ApplyPoliciesRequest) plansFault() *FieldError {
	plans := m.GetPlans()
	if e := checkCount("plans", len(plans), MaxPolicies); e != nil {
		return e
	}
	for i, p := range plans {
		if e := checkName("name", p.GetName(), MaxPlanNameBytes); e != nil {
			return e.withinItem("plans", i)
		}
		if e := policiesFault("policies", p.GetPolicies()); e != nil {
			return e.withinItem("plans", i)
		}
	}
	return uniqueFault("plans", ".name", len(plans), func(i int) string { return plans[i].GetName() })
}

func (m *ApplyPoliciesRequest) accountsFault() *FieldError {
	accounts := m.GetAccounts()
	if e := checkCount("accounts", len(accounts), MaxPolicies); e != nil {
		return e
	}
	for i, a := range accounts {
		e := checkText("account", a.GetAccount(), 1, MaxAccountBytes)
		if e == nil {
			e = checkPlan("plan", a.GetPlan())
		}
		if e == nil {
			e = policiesFault("policies", a.GetPolicies())
		}
		if e != nil {
			return e.withinItem("accounts", i)
		}
	}
	return uniqueFault("accounts", ".account", len(accounts), func(i int) string { return accounts[i].GetAccount() })
}

// removalFault checks what is to be removed, and that it is not put in force as well.
func (m *ApplyPoliciesRequest) removalFault() *FieldError {
	operation := func(name string) *FieldError { return checkText("", name, 1, MaxOperationBytes) }
	e := removedFault("remove_operations", m.GetRemoveOperations(), operation,
		"policies", len(m.GetPolicies()), func(i int) string { return m.GetPolicies()[i].GetOperation() })
	if e != nil {
		return e
	}
	plan := func(name string) *FieldError { return checkName("", name, MaxPlanNameBytes) }
	e = removedFault("remove_plans", m.GetRemovePlans(), plan,
		"plans", len(m.GetPlans()), func(i int) string { return m.GetPlans()[i].GetName() })
	if e != nil {
		return e
	}
	account := func(name string) *FieldError { return checkText("", name, 1, MaxAccountBytes) }
	return removedFault("remove_accounts", m.GetRemoveAccounts(), account,
		"accounts", len(m.GetAccounts()), func(i int) string { return m.GetAccounts()[i].GetAccount() })
}

// removedFault checks a list of names against their form, and that none is of those
// that another list puts in force.
func removedFault(field string, names []string, check func(name string) *FieldError, kept string, count int, name func(int) string) *FieldError {
	if e := checkCount(field, len(names), MaxPolicies); e != nil {
		return e
	}
	for i, removed := range names {
		if e := check(removed); e != nil {
			return &FieldError{Field: item(field, i), Problem: e.Problem}
		}
		for at := range count {
			if name(at) == removed {
				return faultf(item(field, i), "must not be named by %s as well", item(kept, at))
			}
		}
	}
	return uniqueFault(field, "", len(names), func(i int) string { return names[i] })
}

// uniqueFault finds a name that stands twice in a list of at most MaxPolicies.
func uniqueFault(list, field string, count int, name func(int) string) *FieldError {
	for i := range count {
		for earlier := range i {
			if name(earlier) == name(i) {
				return faultf(item(list, i)+field, "must be unique, repeats that of %s", item(list, earlier))
			}
		}
	}
	return nil
}

// checkPlan is checkName for the name of a plan that may be empty.
func checkPlan(field, value string) *FieldError {
	if value == "" {
		return nil
	}
	return checkName(field, value, MaxPlanNameBytes)
}

// leastSaid is how long a word of an operator has to be: of a dry run nothing is
// recorded.
func leastSaid(dryRun bool) int {
	if dryRun {
		return 0
	}
	return 1
}

// Validate finds nothing: the request has no fields yet.
func (m *ListPoliciesRequest) Validate() error { return nil }

// Validate checks the selection and the page. The error is a *FieldError.
func (m *ListAccountsRequest) Validate() error { return asError(m.fault()) }

func (m *ListAccountsRequest) fault() *FieldError {
	if e := checkText("account", m.GetAccount(), 0, MaxAccountBytes); e != nil {
		return e
	}
	if e := checkText("account_prefix", m.GetAccountPrefix(), 0, MaxAccountBytes); e != nil {
		return e
	}
	if e := checkPlan("plan", m.GetPlan()); e != nil {
		return e
	}
	return pageFault(m.GetPageSize(), m.GetPageToken())
}

// Validate checks the version. The error is a *FieldError.
func (m *ShowPolicyStatusRequest) Validate() error {
	return asError(checkNotNegative("version", m.GetVersion()))
}

// Validate checks the page. The error is a *FieldError.
func (m *ListPolicyHistoryRequest) Validate() error {
	return asError(pageFault(m.GetPageSize(), m.GetPageToken()))
}

// Validate checks the versions, and that the rollback says who and why; a dry run may
// leave that out. The error is a *FieldError.
func (m *RollbackPoliciesRequest) Validate() error { return asError(m.fault()) }

func (m *RollbackPoliciesRequest) fault() *FieldError {
	if e := checkNotNegative("to_version", m.GetToVersion()); e != nil {
		return e
	}
	if e := checkNotNegative("if_version", m.GetIfVersion()); e != nil {
		return e
	}
	if m.GetDryRun() {
		if e := checkText("applied_by", m.GetAppliedBy(), 0, MaxPersonBytes); e != nil {
			return e
		}
		return checkText("because", m.GetBecause(), 0, MaxBecauseBytes)
	}
	if e := checkSaid("applied_by", m.GetAppliedBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// Validate checks the operation, and that who disables it says why. The error is a
// *FieldError.
func (m *DisableOperationRequest) Validate() error { return asError(m.fault()) }

func (m *DisableOperationRequest) fault() *FieldError {
	if e := checkText("operation", m.GetOperation(), 1, MaxOperationBytes); e != nil {
		return e
	}
	if e := checkSaid("disabled_by", m.GetDisabledBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkSaid("because", m.GetBecause(), MaxBecauseBytes)
}

// Validate checks the operation and who enables it. The error is a *FieldError.
func (m *EnableOperationRequest) Validate() error { return asError(m.fault()) }

func (m *EnableOperationRequest) fault() *FieldError {
	if e := checkText("operation", m.GetOperation(), 1, MaxOperationBytes); e != nil {
		return e
	}
	if e := checkSaid("enabled_by", m.GetEnabledBy(), MaxPersonBytes); e != nil {
		return e
	}
	return checkText("because", m.GetBecause(), 0, MaxBecauseBytes)
}
