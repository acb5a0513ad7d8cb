package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Embedded is an etcd cluster of one member in this process.
type Embedded struct {
	etcd  *embed.Etcd
	lock  io.Closer
	store *Store
	close func() error
	// hushed holds while the member starts and stops, when etcd warns of what is
	// normal then. A start that fails says why in its error.
	hushed *atomic.Bool
}

// StartEmbedded starts the member, or restarts it on the data of an earlier
// start, and waits until it serves. The address may differ from start to start.
//
// Errors say what to do. ErrDirInUse, ErrDirForeign and ErrDirCorrupt are about
// the data directory; an address in use, an unwritable directory, and a member
// that is not ready in time have no error of their own.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	lock, err := claimDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("etcdstore: embedded etcd in %s: %w", cfg.Dir, err)
	}
	hushed := new(atomic.Bool)
	hushed.Store(true)
	etcd, err := startServer(cfg, hushed)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("etcdstore: embedded etcd in %s: %w", cfg.Dir, err)
	}
	err = waitReady(ctx, etcd, cfg.ReadyTimeout)
	if err == nil {
		err = markServed(cfg.Dir)
	}
	if err != nil {
		etcd.Server.Stop() // before Close, which waits for what only a ready member does
		etcd.Close()
		_ = lock.Close()
		return nil, fmt.Errorf("etcdstore: embedded etcd in %s: %w", cfg.Dir, err)
	}
	hushed.Store(false)
	e := &Embedded{etcd: etcd, lock: lock, hushed: hushed}
	e.store = newStore(v3client.New(etcd.Server), Config{
		MaxTxnOps: cfg.MaxTxnOps, RequestTimeout: cfg.RequestTimeout, Logger: cfg.Logger,
	}.withDefaults())
	e.close = sync.OnceValue(e.shutdown)
	return e, nil
}

// startServer starts the server. etcd panics, or logs as fatal, at damage that
// claimDir did not find; that becomes an error.
func startServer(cfg EmbeddedConfig, hushed *atomic.Bool) (etcd *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			etcd, err = nil, fmt.Errorf("%w: etcd gave up at the start: %v; end this process, "+
				"which may hold the directory, before the next attempt", ErrDirCorrupt, p)
		}
	}()
	etcd, err = embed.StartEtcd(cfg.serverConfig(hushed))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("client address %s is in use: stop the process that uses it, or choose another port (0 takes a free one): %w",
			cfg.ClientAddr, err)
	}
	return etcd, err
}

// waitReady waits until the member serves.
func waitReady(ctx context.Context, etcd *embed.Etcd, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case <-etcd.Server.StopNotify():
		return errors.New("the server stopped while starting: see its log")
	case err := <-etcd.Err():
		return fmt.Errorf("the server stopped serving while starting: %w", err)
	case <-timer.C:
		return fmt.Errorf("not ready after %v: check the disk's speed and free space, or allow more time", timeout)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the server to be ready: %w", ctx.Err())
	}
}

// Endpoints are the real client URLs, such as "http://127.0.0.1:34567".
func (e *Embedded) Endpoints() []string {
	endpoints := make([]string, len(e.etcd.Clients))
	for i, listener := range e.etcd.Clients {
		endpoints[i] = "http://" + listener.Addr().String()
	}
	return endpoints
}

// Store is the store on the member, which calls it without a network in between.
// It is the same for every call, and is closed by Close.
func (e *Embedded) Store() *Store { return e.store }

// Done is closed when the server has stopped, by Close or by a failure.
func (e *Embedded) Done() <-chan struct{} { return e.etcd.Server.StopNotify() }

// Close closes the store, stops the server and gives the directory free. It
// waits for all of it, up to some seconds if clients keep connections open. Later
// calls return the first one's result.
func (e *Embedded) Close() error { return e.close() }

// shutdown closes the store first: calls into a stopped server would fail badly.
func (e *Embedded) shutdown() error {
	e.hushed.Store(true)
	err := e.store.Close()
	e.etcd.Close()
	return errors.Join(err, e.lock.Close())
}
