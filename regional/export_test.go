package regional

// Budgets is how many budgets are in memory.
func Budgets(l *Limiter) int { return l.budgets.Size() }
