package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tokenlease/tokenlease/broker/store"
)

// How a silently cut connection is noticed: a ping after keepAliveTime without
// traffic while calls wait (gRPC allows no less than 10 s), and the connection is
// given up when a ping or any sent byte stays unanswered for keepAliveTimeout.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// oneAttempt is the client's number of attempts for a unary call. Its setting is
// named after retries but counts attempts, and 0 would mean 100.
const oneAttempt = 1

// Store is a store.Store on an etcd cluster. Make one with Open or StartEmbedded.
type Store struct {
	client         *clientv3.Client
	logger         *slog.Logger
	maxTxnOps      int
	requestTimeout time.Duration

	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // calls, watches and sessions under way
}

var _ store.Store = (*Store)(nil)

// Open connects to the cluster and waits until one member answers a linearizable
// read. If none does before DialTimeout or the end of ctx, the error names each
// endpoint, what went wrong with it and what to check.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	client, err := clientv3.New(clientConfig(cfg))
	if err != nil {
		return nil, unreachable(cfg, err)
	}
	if err := ping(ctx, client); err != nil {
		_ = client.Close()
		return nil, unreachable(cfg, err)
	}
	return newStore(client, cfg), nil
}

func clientConfig(cfg Config) clientv3.Config {
	options := []grpc.DialOption{grpc.WithDisableRetry()}
	if cfg.CurrentTLS != nil {
		options = append(options, grpc.WithTransportCredentials(renewedCredentials(cfg.CurrentTLS)))
	}
	return clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialTimeout:          cfg.DialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		MaxUnaryRetries:      oneAttempt,
		DialOptions:          options,
		Logger:               zapLogger(cfg.Logger, nil),
	}
}

func newStore(client *clientv3.Client, cfg Config) *Store {
	ctx, cancel := context.WithCancel(context.Background())
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Store{
		client: client, logger: logger, maxTxnOps: cfg.MaxTxnOps, requestTimeout: cfg.RequestTimeout,
		ctx: ctx, cancel: cancel,
	}
}

// ping asks for a key that need not exist. A refusal of permission is an answer.
func ping(ctx context.Context, client *clientv3.Client) error {
	_, err := client.Get(ctx, "health")
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil
	}
	return err
}

// MaxTxnOps is the largest number of compares or operations of a transaction.
func (s *Store) MaxTxnOps() int { return s.maxTxnOps }

// begin registers something under way. Its context ends with the caller's and
// with the store; done must be called at the end.
func (s *Store) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, store.ErrClosed
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.calls.Done()
	}, nil
}

// call is begin for one request, bounded by the request timeout.
func (s *Store) call(ctx context.Context) (_ context.Context, done func(), err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTimeout)
	return ctx, func() { cancel(); end() }, nil
}

// Range reads keys. Errors are store.ErrCompacted, store.ErrInvalid,
// store.ErrClosed, or that the cluster could not answer. It is tried once.
func (s *Store) Range(ctx context.Context, req store.RangeRequest) (store.RangeResult, error) {
	if err := req.Validate(); err != nil {
		return store.RangeResult{}, err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return store.RangeResult{}, err
	}
	defer done()
	opts := append(rangeOptions(req.End), clientv3.WithLimit(req.Limit), clientv3.WithRev(req.Revision))
	if req.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	resp, err := s.client.Get(ctx, firstKey(req.Key), opts...)
	if err != nil {
		return store.RangeResult{}, readError("reading keys", err)
	}
	result := store.RangeResult{KVs: keyValues(resp.Kvs), More: resp.More, Revision: req.Revision}
	if result.Revision == 0 {
		result.Revision = resp.Header.Revision
	}
	return result, nil
}

// Compact forgets the history before revision rev. It is for tests and for
// clusters that do not compact by themselves.
func (s *Store) Compact(ctx context.Context, rev int64) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = s.client.Compact(ctx, rev)
	return readError("compacting", err)
}

// readError gives the errors of reads and watches their meaning.
func readError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrCompacted):
		return store.ErrCompacted
	default:
		return fmt.Errorf("etcdstore: %s: %w", doing, err)
	}
}

// Close ends the calls, watches and keep-alives under way, waits for them and
// closes the connections. Later calls return store.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.calls.Wait()
	if already {
		return nil
	}
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcdstore: closing the connections: %w", err)
	}
	return nil
}
