package etcdstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tokenlease/tokenlease/broker/store"
)

// fakeLease answers keep-alives as the test says.
type fakeLease func(ctx context.Context, elapsed time.Duration) (*clientv3.LeaseKeepAliveResponse, error)

type leaseSince struct {
	start  time.Time
	answer fakeLease
}

func (l leaseSince) KeepAliveOnce(ctx context.Context, _ clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return l.answer(ctx, time.Since(l.start))
}

// When a session must be known to be over, for a time to live of 6 s that starts
// at 0. Times are those of a bubble with a clock of its own.
func TestSessionEnds(t *testing.T) {
	ok := &clientv3.LeaseKeepAliveResponse{TTL: 6}
	cases := []struct {
		name   string
		answer fakeLease
		want   time.Duration
	}{
		{"no answer: at the deadline", func(ctx context.Context, _ time.Duration) (*clientv3.LeaseKeepAliveResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 6 * time.Second},
		{"refusals: at the deadline", func(context.Context, time.Duration) (*clientv3.LeaseKeepAliveResponse, error) {
			return nil, errors.New("no leader")
		}, 6 * time.Second},
		{"answers until 20 s, each after 1 s: the time counts from the request", func(_ context.Context, elapsed time.Duration) (*clientv3.LeaseKeepAliveResponse, error) {
			if elapsed > 20*time.Second {
				return nil, errors.New("cut off")
			}
			<-time.After(time.Second) // of the bubble
			return ok, nil
		}, 26 * time.Second},
		{"revoked: at the next request", func(_ context.Context, elapsed time.Duration) (*clientv3.LeaseKeepAliveResponse, error) {
			if elapsed > 3*time.Second {
				return nil, rpctypes.ErrLeaseNotFound
			}
			return ok, nil
		}, 4 * time.Second},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				keepAlive(t.Context(), leaseSince{start, tc.answer}, 1, start.Add(6*time.Second), 6*time.Second, slog.New(slog.DiscardHandler))
				if got := time.Since(start); got != tc.want {
					t.Errorf("over after %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestWholeSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		time.Millisecond: 2, 2 * time.Second: 2, 2*time.Second + 1: 3, 10 * time.Second: 10,
	} {
		if got := wholeSeconds(ttl); got != want {
			t.Errorf("wholeSeconds(%v) = %d, want %d", ttl, got, want)
		}
	}
}

func TestNewSessionRefusesNoTimeToLive(t *testing.T) {
	if _, err := shared.Store().NewSession(t.Context(), 0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}

// A session outlives its time to live while it is kept alive, and is over once
// its lease has been revoked behind its back.
func TestSessionKeptAliveThenRevoked(t *testing.T) {
	s := openShared(t)
	session, err := s.NewSession(t.Context(), MinSessionTTL)
	if err != nil {
		t.Fatal(err)
	}
	lease := clientv3.LeaseID(session.ID())
	select {
	case <-session.Done():
		t.Fatal("the session ended by itself")
	case <-time.After(MinSessionTTL + time.Second):
	}
	if _, err := s.client.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	select {
	case <-session.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the session did not notice that it is over")
	}
}
