package etcdstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tokenlease/tokenlease/broker/store"
)

var _ store.HealthTeller = (*Store)(nil)

// Health asks every member for its status, and one for the alarms that are raised.
func (s *Store) Health(ctx context.Context) store.Health {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.Health{Members: []store.Member{{Problem: err.Error()}}}
	}
	defer done()
	endpoints := s.client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{""} // the member in this process
	}
	health := store.Health{Members: make([]store.Member, len(endpoints))}
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { health.Members[i] = s.member(ctx, endpoint) })
	}
	health.Alarms = s.alarms(ctx)
	all.Wait()
	return health
}

// member is what one member tells.
func (s *Store) member(ctx context.Context, endpoint string) store.Member {
	m := store.Member{Name: cmp.Or(endpoint, "embedded")}
	status, err := s.client.Status(ctx, endpoint)
	if err != nil {
		m.Problem = err.Error()
		return m
	}
	m.Reached, m.Version, m.SizeBytes, m.QuotaBytes = true, status.Version, status.DbSize, status.DbSizeQuota
	m.Leader = status.Leader != 0 && status.Leader == status.Header.GetMemberId()
	switch {
	case len(status.Errors) > 0:
		m.Problem = strings.Join(status.Errors, "; ")
	case status.Leader == 0:
		m.Problem = "it knows of no leader"
	case status.IsLearner:
		m.Problem = "it is a learner, and does not vote"
	}
	return m
}

// alarms are those that are raised, at whichever member.
func (s *Store) alarms(ctx context.Context) []string {
	resp, err := s.client.AlarmList(ctx)
	if err != nil {
		return nil
	}
	var alarms []string
	for _, a := range resp.Alarms {
		if a.Alarm != etcdserverpb.AlarmType_NONE {
			alarms = append(alarms, a.Alarm.String())
		}
	}
	slices.Sort(alarms)
	return slices.Compact(alarms)
}
