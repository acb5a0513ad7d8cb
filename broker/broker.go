package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
)

// DefaultSessionTTL is how long a broker may be silent before others take its
// shards.
const DefaultSessionTTL = 5 * time.Second

// Config of a broker.
type Config struct {
	// Store holds the cluster. Required. The broker does not close it.
	Store store.Store
	// Prefix of every key. Default record.DefaultPrefix.
	Prefix string
	// Shards of a new cluster. An existing cluster keeps its number. Default
	// DefaultShards.
	Shards uint32
	// ClusterID, if not empty, must be the ID of the cluster in the store.
	ClusterID string
	// ID is unique among live brokers. Default: random.
	ID string
	// AdvertiseURL is where other brokers reach this one. Required.
	AdvertiseURL string
	// SessionTTL is how long the broker may be silent before others take its
	// shards; at least 2 s. Default DefaultSessionTTL.
	SessionTTL time.Duration
	// HTTPClient calls other brokers. Required.
	HTTPClient *http.Client
	// ClientOptions are for the RPC clients of other brokers.
	ClientOptions []connect.ClientOption
	// CertificateExpires is when the certificate that this broker shows does, for
	// those who ask. nil: it has none.
	CertificateExpires func() time.Time
	// ProgramVersion is told to operators; empty: not known.
	ProgramVersion string
	// AuditRetention is how long audit entries are kept, by the wall clock of the owner
	// of shard 0. Default DefaultAuditRetention. At most the newest 100,000 are kept,
	// and the newest 1,000 whatever their age.
	AuditRetention time.Duration
	Clock          Clock                 // default SystemClock()
	Registerer     prometheus.Registerer // nil: metrics go nowhere
	Logger         *slog.Logger          // nil discards
}

// Validate checks the fields together.
func (c Config) Validate() error {
	var faults []error
	if c.Store == nil {
		faults = append(faults, errors.New("no store"))
	}
	if c.HTTPClient == nil {
		faults = append(faults, errors.New("no HTTP client"))
	}
	if u, err := url.Parse(c.AdvertiseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		faults = append(faults, fmt.Errorf("advertise URL %q is not of the form http://host:port", c.AdvertiseURL))
	}
	if c.SessionTTL != 0 && c.SessionTTL < 2*time.Second {
		faults = append(faults, fmt.Errorf("session TTL %v is below 2s, the shortest that etcd keeps reliably", c.SessionTTL))
	}
	if c.AuditRetention < 0 {
		faults = append(faults, fmt.Errorf("audit retention %v is negative", c.AuditRetention))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// Broker serves the shards that it owns and passes on the requests for others.
type Broker struct {
	cfg       Config
	layout    record.Layout
	cluster   record.Cluster
	ownership *ownership
	obs       *metrics
	peers     *peers
	dryRuns   chan struct{} // has an element while policies are changed to see what that would do
}

// New opens the cluster in the store, and creates it if the store is new. The
// broker serves once Run is called.
//
// Errors: ErrOtherCluster, what Validate finds, or the store's.
func New(ctx context.Context, cfg Config) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = SystemClock()
	}
	if cfg.SessionTTL == 0 {
		cfg.SessionTTL = DefaultSessionTTL
	}
	if cfg.AuditRetention == 0 {
		cfg.AuditRetention = DefaultAuditRetention
	}
	if cfg.ID == "" {
		cfg.ID = "broker-" + randomID()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	layout := record.NewLayout(cfg.Prefix)
	cluster, err := openCluster(ctx, cfg.Store, layout, cfg.Shards, cfg.Clock)
	if err != nil {
		return nil, err
	}
	if cfg.ClusterID != "" && cfg.ClusterID != cluster.ID {
		return nil, fmt.Errorf("%w: %s is stored under %s, %s is configured; point the broker at the right etcd or prefix",
			ErrOtherCluster, cluster.ID, layout.Prefix(), cfg.ClusterID)
	}
	if cfg.Shards != 0 && cfg.Shards != cluster.Shards {
		cfg.Logger.Warn("the number of shards was fixed when the cluster was created", "shards", cluster.Shards, "configured", cfg.Shards)
	}
	obs := newMetrics(cfg.Registerer)
	b := &Broker{
		cfg: cfg, layout: layout, cluster: cluster, obs: obs,
		ownership: newOwnership(cfg, layout, cluster, obs),
		dryRuns:   make(chan struct{}, 1),
		peers:     newPeers(cfg.HTTPClient, cfg.ID, strings.HasPrefix(cfg.AdvertiseURL, "https://"), cfg.ClientOptions),
	}
	cfg.Registerer.MustRegister(newObserver(b))
	return b, nil
}

// Run owns and serves shards until ctx ends; then it gives them up in order.
func (b *Broker) Run(ctx context.Context) error {
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { b.keepAudit(keeping) })
	defer keeper.Wait()
	defer stop()
	return b.ownership.run(ctx)
}

// ClusterID is the identity of the cluster.
func (b *Broker) ClusterID() string { return b.cluster.ID }

// Shards is the number of shards of the cluster.
func (b *Broker) Shards() uint32 { return b.cluster.Shards }

// Ready says that every shard has an owner that this broker knows of, that none
// of its own was found to be set back, and that it is not stopping.
func (b *Broker) Ready() bool {
	select {
	case <-b.ownership.ended:
		return false
	default:
	}
	for id := range b.cluster.Shards {
		local, remote, _ := b.ownership.route(id)
		if local == nil && remote.URL == "" || local != nil && local.setBack.Load() {
			return false
		}
	}
	return true
}

// WaitReady returns when Ready does, or with the error of ctx.
func (b *Broker) WaitReady(ctx context.Context) error {
	for {
		_, _, changed := b.ownership.route(0)
		if b.Ready() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
