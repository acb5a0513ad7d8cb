package tokenleasev1

import "math"

// Limits of one SyncRequest. A holder with more to say sends several.
const (
	// MaxSyncBudgets is the most reports in one request.
	MaxSyncBudgets = 1000
	// MaxSyncCloses is the most closes in one request.
	MaxSyncCloses = 1000
	// MaxSyncAccounts is the most final accounts in one request.
	MaxSyncAccounts = 100
	// MaxAccountGrants is the most grants in one final account; one with more is
	// sent in parts.
	MaxAccountGrants = 1000
	// MaxWaitMillis is the longest that a Sync may ask to be held, in
	// milliseconds.
	MaxWaitMillis = 60_000
)

// Validate checks the holder and the nonce. The error is a *FieldError.
func (m *RegisterRequest) Validate() error { return asError(m.fault()) }

func (m *RegisterRequest) fault() *FieldError {
	if e := m.GetHolder().fault(); e != nil {
		return e.within("holder")
	}
	return checkNonce("start_nonce", m.GetStartNonce())
}

// checkNonce holds what makes a request unique to letters and digits, enough of
// them that nobody draws it twice.
func checkNonce(field, nonce string) *FieldError {
	if e := checkLength(field, nonce, MinNonceBytes, MaxNonceBytes); e != nil {
		return e
	}
	for i := 0; i < len(nonce); i++ {
		if !isAlphanumeric(nonce[i]) {
			return faultf(field, "must be of letters and digits, has %q at byte %d", nonce[i], i)
		}
	}
	return nil
}

// Validate checks the holder and the epoch. The error is a *FieldError.
func (m *WatchRequest) Validate() error { return asError(m.fault()) }

func (m *WatchRequest) fault() *FieldError {
	if e := m.GetHolder().fault(); e != nil {
		return e.within("holder")
	}
	return checkEpoch("epoch", m.GetEpoch())
}

// Validate checks every field, the sizes of the lists, and that no key is
// reported twice. The error is a *FieldError.
func (m *SyncRequest) Validate() error { return asError(m.fault()) }

func (m *SyncRequest) fault() *FieldError {
	if e := m.GetHolder().fault(); e != nil {
		return e.within("holder")
	}
	if e := checkEpoch("epoch", m.GetEpoch()); e != nil {
		return e
	}
	if e := checkNotNegative("highest_head", m.GetHighestHead()); e != nil {
		return e
	}
	if w := m.GetWaitMs(); w > MaxWaitMillis {
		return faultf("wait_ms", "must be at most %d, is %d", MaxWaitMillis, w)
	}
	if e := checkNotNegative("round_trip_ns", m.GetRoundTripNs()); e != nil {
		return e
	}
	if e := m.budgetsFault(); e != nil {
		return e
	}
	if e := grantsFault("closes", m.GetCloses(), MaxSyncCloses); e != nil {
		return e
	}
	return m.accountsFault()
}

func (m *SyncRequest) budgetsFault() *FieldError {
	budgets := m.GetBudgets()
	if e := checkCount("budgets", len(budgets), MaxSyncBudgets); e != nil {
		return e
	}
	for i, b := range budgets {
		if e := b.fault(); e != nil {
			return e.withinItem("budgets", i)
		}
	}
	if first, second, found := duplicateKey(budgets); found {
		return faultf(item("budgets", second)+".key", "must be unique, repeats that of %s", item("budgets", first))
	}
	return nil
}

func (m *SyncRequest) accountsFault() *FieldError {
	if e := checkCount("accounts", len(m.GetAccounts()), MaxSyncAccounts); e != nil {
		return e
	}
	for i, a := range m.GetAccounts() {
		if a.GetEpoch() > m.GetEpoch() {
			return faultf(item("accounts", i)+".epoch", "must be at most the sender's epoch, %d, is %d", m.GetEpoch(), a.GetEpoch())
		}
		if e := a.fault(); e != nil {
			return e.withinItem("accounts", i)
		}
	}
	return nil
}

func (m *BudgetReport) fault() *FieldError {
	if e := m.GetKey().fault(); e != nil {
		return e.within("key")
	}
	if m.GetSequence() == 0 {
		return faultf("sequence", "must be 1 or more, is 0")
	}
	if e := checkNotNegative("want_tokens", m.GetWantTokens()); e != nil {
		return e
	}
	if e := checkNotNegative("need_tokens", m.GetNeedTokens()); e != nil {
		return e
	}
	if e := countersFault(m.GetSpentTokens(), m.GetReturnedTokens(), m.GetHeldTokens()); e != nil {
		return e
	}
	if e := checkNotNegative("owed_tokens", m.GetOwedTokens()); e != nil {
		return e
	}
	if e := checkNotNegative("policy_version", m.GetPolicyVersion()); e != nil {
		return e
	}
	if e := checkNotNegative("bound_ns", m.GetBoundNs()); e != nil {
		return e
	}
	if m.GetGrantId() != "" {
		return checkGrantID(m.GetGrantId())
	}
	if m.GetSpentTokens() != 0 || m.GetReturnedTokens() != 0 || m.GetHeldTokens() != 0 || m.GetOwedTokens() != 0 {
		return faultf("grant_id", "must be set where spent_tokens, returned_tokens, held_tokens or owed_tokens is not 0")
	}
	return nil
}

func (m *EpochAccount) fault() *FieldError {
	if e := checkEpoch("epoch", m.GetEpoch()); e != nil {
		return e
	}
	switch m.GetSource() {
	case AccountSource_ACCOUNT_SOURCE_HOLDER, AccountSource_ACCOUNT_SOURCE_JOURNAL:
	default:
		return faultf("source", "must be ACCOUNT_SOURCE_HOLDER or ACCOUNT_SOURCE_JOURNAL, is %d", m.GetSource())
	}
	return grantsFault("grants", m.GetGrants(), MaxAccountGrants)
}

func (m *GrantAccount) fault() *FieldError {
	if e := checkGrantID(m.GetGrantId()); e != nil {
		return e
	}
	if e := countersFault(m.GetSpentTokens(), m.GetReturnedTokens(), m.GetHeldTokens()); e != nil {
		return e
	}
	if e := checkNotNegative("owed_tokens", m.GetOwedTokens()); e != nil {
		return e
	}
	if m.GetKey() == nil {
		return nil
	}
	return m.GetKey().fault().within("key")
}

// grantsFault checks a list of accounts of grants.
func grantsFault(field string, grants []*GrantAccount, most int) *FieldError {
	if e := checkCount(field, len(grants), most); e != nil {
		return e
	}
	for i, g := range grants {
		if e := g.fault(); e != nil {
			return e.withinItem(field, i)
		}
	}
	return nil
}

// countersFault checks the cumulative counters of a grant, and what of it is held.
// Together they are at most what was issued, so their sum fits as well.
func countersFault(spent, returned, held int64) *FieldError {
	if e := checkNotNegative("spent_tokens", spent); e != nil {
		return e
	}
	if e := checkNotNegative("returned_tokens", returned); e != nil {
		return e
	}
	if e := checkNotNegative("held_tokens", held); e != nil {
		return e
	}
	if returned > math.MaxInt64-spent {
		return faultf("returned_tokens", "must fit in 64 bits together with spent_tokens, %d, is %d", spent, returned)
	}
	if held > math.MaxInt64-spent-returned {
		return faultf("held_tokens", "must fit in 64 bits together with spent_tokens and returned_tokens, %d, is %d", spent+returned, held)
	}
	return nil
}

// checkEpoch holds an epoch to 1 and above: 0 stands for none.
func checkEpoch(field string, epoch uint64) *FieldError {
	if epoch == 0 {
		return faultf(field, "must be 1 or more, is 0")
	}
	return nil
}
