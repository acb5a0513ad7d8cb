package scenario

import (
	"strconv"
	"strings"
)

// Party is whom a target or an end means.
type Party struct {
	Limiters []Limiter
	Brokers  []int // indexes into Scenario.Brokers
	Store    bool
}

// Limiter is one of a region's.
type Limiter struct {
	Region int // index into Scenario.Regions
	Index  int // within the region, from 0; its name is one more
}

// The names that mean more than one process, or none.
const (
	AllBrokers = "brokers"
	TheStore   = "store"
	total      = "total"
)

// Party is whom a name means: a region means all its limiters. It is false for a
// name that means nobody.
func (s *Scenario) Party(name string) (Party, bool) {
	switch name {
	case TheStore:
		return Party{Store: true}, true
	case AllBrokers:
		var p Party
		for i := range s.Brokers {
			p.Brokers = append(p.Brokers, i)
		}
		return p, true
	}
	for i, b := range s.Brokers {
		if b.Name == name {
			return Party{Brokers: []int{i}}, true
		}
	}
	region, instance, one := strings.Cut(name, "/")
	i := s.region(region)
	if i < 0 {
		return Party{}, false
	}
	var p Party
	for l := range s.Regions[i].Limiters {
		if !one || instance == strconv.Itoa(l+1) {
			p.Limiters = append(p.Limiters, Limiter{Region: i, Index: l})
		}
	}
	return p, len(p.Limiters) > 0
}

// region is the index of a region, or -1.
func (s *Scenario) region(name string) int {
	for i, r := range s.Regions {
		if r.Name == name {
			return i
		}
	}
	return -1
}

// talk says whether messages go between two parties, which differ. One of them
// is always a broker.
func talk(a, b Party) bool { return len(a.Brokers) > 0 || len(b.Brokers) > 0 }
