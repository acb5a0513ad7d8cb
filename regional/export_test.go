package regional

import "github.com/tokenlease/tokenlease/regional/decision"

// Budgets is how many budgets are in memory.
func Budgets(l *Limiter) int { return l.budgets.Size() }

// Allowances is how many local allowances are remembered.
func Allowances(l *Limiter) int {
	l.fallback.mu.Lock()
	defer l.fallback.mu.Unlock()
	return len(l.fallback.used)
}

// TryToHold takes what a request for several budgets costs, without looking first, as
// it is when somebody else was faster in between. What it takes is given back, unless
// it says that all were taken.
func TryToHold(l *Limiter, req decision.Request) bool {
	unknown, failed := l.several(&req).try(holds)
	return unknown == nil && !failed
}
