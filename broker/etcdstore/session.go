package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tokenlease/tokenlease/broker/store"
)

// MinSessionTTL is the shortest time to live of a session: etcd grants none
// shorter than about one and a half of its default election timeouts.
const MinSessionTTL = 2 * time.Second

// keepAliver is the part of the etcd client that keeps a lease alive.
type keepAliver interface {
	KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error)
}

// session keeps one etcd lease alive.
//
// It does not use the client's own keep-alive, which counts the time to live from
// when an answer arrives and looks at it once a second, so that it notices the
// end of a lease late. Here the time counts from before a request was sent, so
// unless the lease was revoked, Done is closed before etcd can expire it. (A
// paused process still notices late: sessions elect, they never protect.)
type session struct {
	store  *Store
	id     clientv3.LeaseID
	cancel context.CancelFunc
	done   chan struct{}
}

// NewSession starts a session of at least MinSessionTTL. If it fails, a lease may
// be left behind, without keys, until its time to live has passed.
func (s *Store) NewSession(ctx context.Context, ttl time.Duration) (store.Session, error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("%w: a session's time to live of %v is not positive", store.ErrInvalid, ttl)
	}
	callCtx, callDone, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer callDone()
	sent := time.Now()
	resp, err := s.client.Grant(callCtx, wholeSeconds(ttl))
	if err != nil {
		return nil, fmt.Errorf("etcdstore: starting a session: %w", err)
	}
	runCtx, runDone, err := s.begin(context.Background())
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(runCtx)
	session := &session{store: s, id: resp.ID, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with Close of the session or the store, or with the lease
		defer runDone()
		defer cancel()
		defer close(session.done)
		keepAlive(runCtx, s.client.Lease, resp.ID, sent.Add(seconds(resp.TTL)), seconds(resp.TTL), s.logger)
	}()
	return session, nil
}

// wholeSeconds is a time to live as etcd counts it, rounded up.
func wholeSeconds(ttl time.Duration) int64 {
	return int64((max(ttl, MinSessionTTL) + time.Second - 1) / time.Second)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// keepAlive renews the lease three times in its time to live, and more often
// after a failure. It returns when ctx ends, when etcd says that the lease is
// gone, or when the deadline passes without an answer.
func keepAlive(ctx context.Context, lease keepAliver, id clientv3.LeaseID, deadline time.Time, ttl time.Duration, logger *slog.Logger) {
	pause := ttl / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, time.Until(deadline))):
		}
		sent := time.Now()
		if !sent.Before(deadline) { // the lease may be gone from its deadline on
			return
		}
		attempt, cancel := context.WithTimeout(ctx, min(ttl/3, deadline.Sub(sent)))
		resp, err := lease.KeepAliveOnce(attempt, id)
		cancel()
		switch {
		case err == nil:
			ttl = seconds(resp.TTL)
			deadline, pause = sent.Add(ttl), ttl/3
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return
		default:
			logger.Debug("etcd session not renewed, trying again", "session", int64(id), "error", err)
			pause = ttl / 12
		}
	}
}

func (s *session) ID() store.SessionID { return store.SessionID(s.id) }

func (s *session) Done() <-chan struct{} { return s.done }

// Close ends the session and revokes its lease, which deletes its keys. If that
// fails they go when the time to live has passed. Closing twice is not an error.
func (s *session) Close(ctx context.Context) error {
	s.cancel()
	<-s.done
	ctx, done, err := s.store.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = s.store.client.Revoke(ctx, s.id)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcdstore: ending a session (its keys go when its time to live has passed): %w", err)
	}
	return nil
}
