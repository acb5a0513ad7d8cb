package etcdstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tokenlease/tokenlease/broker/store"
)

// Defaults of EmbeddedConfig.
const (
	DefaultClientAddr = "127.0.0.1:0"
	// DefaultQuotaBytes is the most that etcd's authors recommend.
	DefaultQuotaBytes = 8 << 30
	// DefaultHistory is short because history costs space in proportion to the
	// rate of writes: 50,000 puts of 250 bytes a second fill 1.5 GiB in the two
	// minutes that are kept at most. Nothing depends on it but watches that were
	// away for longer, which read afresh, and the pages of slow listings.
	DefaultHistory = time.Minute
	// DefaultReadyTimeout leaves time to replay a large log on a slow disk.
	DefaultReadyTimeout = time.Minute
)

// EmbeddedConfig says how to run an etcd cluster of one member in this process.
type EmbeddedConfig struct {
	// Dir holds the data. It is created if needed, and must be empty or hold
	// what an earlier StartEmbedded wrote. One process at a time uses it.
	Dir string
	// ClientAddr is the address for etcd clients such as etcdctl. Port 0 takes a
	// free one, which Endpoints tells. It must be a loopback address: there is no
	// authentication. Empty: DefaultClientAddr.
	ClientAddr string
	// QuotaBytes is the size of the database above which etcd refuses writes.
	// 0: DefaultQuotaBytes.
	QuotaBytes int64
	// History is how long old revisions are kept, for watches and paged reads.
	// At any time between one and two times as much is there. 0: DefaultHistory.
	History time.Duration
	// MaxTxnOps is the limit of one transaction, for the server and for the
	// store on it. 0: store.DefaultMaxTxnOps.
	MaxTxnOps int
	// ReadyTimeout bounds the wait for the member to serve. 0: DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// RequestTimeout is Config.RequestTimeout of the store.
	RequestTimeout time.Duration
	// UnsafeNoFsync does not wait for the disk. A crash of the machine then loses
	// or corrupts acknowledged transactions: for tests only.
	UnsafeNoFsync bool
	// Logger receives etcd's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Validate checks the fields together and reports all faults.
func (c EmbeddedConfig) Validate() error {
	var faults []error
	report := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		report("no data directory: name one that is empty, or that an earlier start has used")
	}
	if c.ClientAddr != "" {
		if addr, err := netip.ParseAddrPort(c.ClientAddr); err != nil {
			report("client address %q is not an IP address and a port, such as 127.0.0.1:2379", c.ClientAddr)
		} else if !addr.Addr().IsLoopback() {
			report("client address %s is not a loopback address: embedded etcd has no authentication; "+
				"for access from other machines run an etcd cluster with TLS and connect to it", c.ClientAddr)
		}
	}
	if c.QuotaBytes < 0 || c.History < 0 || c.MaxTxnOps < 0 || c.ReadyTimeout < 0 || c.RequestTimeout < 0 {
		report("quota, history, transaction operations and timeouts must not be negative")
	}
	if c.History > 0 && c.History < time.Second {
		report("a history of %v is too short: keep at least a second", c.History)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("etcdstore: invalid configuration of the embedded etcd: %w", err)
	}
	return nil
}

// withDefaults fills in what is zero.
func (c EmbeddedConfig) withDefaults() EmbeddedConfig {
	if c.ClientAddr == "" {
		c.ClientAddr = DefaultClientAddr
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuotaBytes
	}
	if c.History == 0 {
		c.History = DefaultHistory
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = store.DefaultMaxTxnOps
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = DefaultReadyTimeout
	}
	return c
}

// Ticks of the member, in milliseconds. A single member has nobody to send
// heartbeats to; shorter ticks than the default of 100 let it take office sooner.
const (
	tickMs     = 20
	electionMs = 200
)

// serverConfig is the configuration of the etcd server. Its log is hushed while
// hushed is true.
func (c EmbeddedConfig) serverConfig(hushed *atomic.Bool) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "tokenlease"
	cfg.Dir = c.Dir
	cfg.TickMs, cfg.ElectionMs = tickMs, electionMs

	client := url.URL{Scheme: "http", Host: c.ClientAddr}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	// A single member listens to no peers. The URL names it in its own data, where
	// it is read back at a restart; it never changes, whatever the ports.
	peer := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", "0")}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()

	cfg.QuotaBackendBytes = c.QuotaBytes
	// Compaction by time, because the one by revisions runs only every five
	// minutes, however fast they come.
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = c.History.String()
	cfg.MaxTxnOps = uint(c.MaxTxnOps)
	cfg.MaxRequestBytes = store.MaxTxnBytes
	cfg.SnapshotCatchUpEntries = 100 // kept in memory for other members: there are none
	cfg.UnsafeNoFsync = c.UnsafeNoFsync
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapLogger(c.Logger, hushed))
	return cfg
}
