package store

import "context"

// Health is how a store is, as far as it tells.
type Health struct {
	Members []Member
	Alarms  []string // that are raised, such as "NOSPACE"
}

// Member is one member of a store.
type Member struct {
	Name       string // or address
	Reached    bool   // it answered
	Version    string
	SizeBytes  int64 // of its database
	QuotaBytes int64 // that it may have; 0: not told
	Leader     bool  // it leads
	Problem    string
}

// HealthTeller is a store that tells how it is. It may be called concurrently, and
// asks every member. What cannot be reached is told as such, not as an error.
type HealthTeller interface {
	Health(ctx context.Context) Health
}
