package regional

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decisionlog"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// Defaults of Config.
const (
	DefaultFirstGrantWait = 500 * time.Millisecond
	DefaultMaxWaiters     = 10_000
	DefaultRequestTimeout = 2 * time.Second
	DefaultStopTimeout    = 5 * time.Second

	DefaultReplayFor       = time.Minute
	DefaultMaxReplays      = 100_000
	DefaultMaxReservations = 100_000
	DefaultMaxQueue        = 1_000
	DefaultMaxQueueTotal   = 10_000
)

// MaxChecksPerSecond bounds Config.MaxChecksPerSecond.
const MaxChecksPerSecond = 10_000_000

// MaxSyncInterval is the longest SyncInterval: a bound on staleness, of 5 s at the least, is
// renewed after a third of it.
const MaxSyncInterval = time.Second

// Config of a limiter.
type Config struct {
	// Region and Instance name the holder: 1 to 64 bytes of letters, digits, '.',
	// '_' and '-'. Two limiters that run at once must not share a name.
	Region, Instance string
	// Brokers are URLs of brokers, in order of preference. Any broker will do.
	Brokers []string
	// HTTPClient calls the brokers. Required with Brokers.
	HTTPClient *http.Client
	// Clients replace Brokers and HTTPClient, for other transports.
	Clients []tokenleasev1connect.BrokerClient

	// JournalMode says what the journal proves after a crash. Default
	// holder.JournalBlock.
	JournalMode holder.Journal
	// JournalDir is where the journal is kept; it must be on a disk of this
	// machine. Required unless JournalMode is holder.JournalOff.
	JournalDir string

	// FirstGrantWait bounds how long a check waits for credit or a denial.
	// Default 500 ms, enough for two round trips across the world.
	FirstGrantWait time.Duration
	// MaxWaiters bounds how many checks wait at once; more are answered
	// unavailable. Default 10,000.
	MaxWaiters int
	// SyncInterval is how often active budgets are looked at, at most MaxSyncInterval.
	// Default 100 ms.
	SyncInterval time.Duration
	// IdleAfter is how long a budget may go unused before its credit is returned.
	// Default 10 s.
	IdleAfter time.Duration
	// RequestTimeout bounds a request to the broker. Default 2 s.
	RequestTimeout time.Duration
	// StopTimeout bounds how long Run tries to hand in the final account. What is
	// not confirmed by then, the next start's journal accounts for. Default 5 s.
	StopTimeout time.Duration

	// ReplayFor is how long an answer is recorded under its decision ID, and a
	// settlement under its reservation's. Default 60 s.
	ReplayFor time.Duration
	// MaxReplays bounds the recorded answers; the oldest are forgotten early beyond
	// it. Default 100,000.
	MaxReplays int
	// MaxReservations bounds the reservations that are open; more are answered
	// overloaded. Default 100,000.
	MaxReservations int
	// MaxQueue bounds how many wait for their turn at one budget, and MaxQueueTotal
	// at all of them; more are decided as those that do not wait. Defaults 1,000
	// and 10,000.
	MaxQueue, MaxQueueTotal int

	// MaxConcurrentChecks and MaxChecksPerSecond protect this process: what is above
	// them is shed as overloaded before any other work. They count the checks of
	// Decide, Reserve and the RPCs, each check of a batch; handles are not held to
	// them. In any interval of T seconds at most T*MaxChecksPerSecond, and a tenth of
	// a second's or one beside, are let in. At most MaxChecksPerSecond. 0: none.
	MaxConcurrentChecks, MaxChecksPerSecond int

	// DecisionLog, if not nil, gets the decisions and settlements, as far as it samples
	// them. What is shed is not among them, nor what is not valid, nor Budget.Allow and
	// AllowN. The limiter does not close it.
	DecisionLog *decisionlog.Log

	Clock      Clock                 // default SystemClock()
	Registerer prometheus.Registerer // nil: metrics go nowhere
	Logger     *slog.Logger          // nil discards
}

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Validate checks the fields together.
func (c Config) Validate() error {
	var faults []error
	for _, name := range []struct{ field, value string }{{"region", c.Region}, {"instance", c.Instance}} {
		if !validName.MatchString(name.value) || name.value == "." || name.value == ".." {
			faults = append(faults, fmt.Errorf("%s %.80q is not 1 to 64 letters, digits, '.', '_' or '-'", name.field, name.value))
		}
	}
	if len(c.Clients) == 0 {
		faults = append(faults, c.validateBrokers()...)
	}
	switch c.JournalMode {
	case "", holder.JournalBlock, holder.JournalConfirm:
		if c.JournalDir == "" {
			faults = append(faults, errors.New("no journal directory: name one on a local disk, or turn the journal off, with which credit of a crash stays reserved until an operator resolves it"))
		}
	case holder.JournalOff:
	default:
		faults = append(faults, fmt.Errorf("journal mode %q is not block, confirm or off", c.JournalMode))
	}
	if c.SyncInterval > MaxSyncInterval {
		faults = append(faults, fmt.Errorf("a sync interval of %v is above %v, within which a bound on staleness has to be renewed", c.SyncInterval, MaxSyncInterval))
	}
	if c.anyNegative() {
		faults = append(faults, errors.New("durations and bounds must not be negative"))
	}
	if c.MaxChecksPerSecond > MaxChecksPerSecond {
		faults = append(faults, fmt.Errorf("max checks per second of %d is above %d: 0 is for no bound", c.MaxChecksPerSecond, MaxChecksPerSecond))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("regional: %w", err)
	}
	return nil
}

func (c Config) anyNegative() bool {
	return min(c.FirstGrantWait, c.SyncInterval, c.IdleAfter, c.RequestTimeout, c.StopTimeout, c.ReplayFor) < 0 ||
		min(c.MaxWaiters, c.MaxReplays, c.MaxReservations, c.MaxQueue, c.MaxQueueTotal, c.MaxConcurrentChecks, c.MaxChecksPerSecond) < 0
}

func (c Config) validateBrokers() []error {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, errors.New("no broker URL"))
	}
	if c.HTTPClient == nil {
		faults = append(faults, errors.New("no HTTP client"))
	}
	for _, raw := range c.Brokers {
		if u, err := url.Parse(raw); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("broker URL %q is not of the form http://host:port", raw))
		}
	}
	return faults
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.FirstGrantWait, DefaultFirstGrantWait)
	set(&c.RequestTimeout, DefaultRequestTimeout)
	set(&c.StopTimeout, DefaultStopTimeout)
	set(&c.ReplayFor, DefaultReplayFor)
	for bound, value := range map[*int]int{
		&c.MaxWaiters: DefaultMaxWaiters, &c.MaxReplays: DefaultMaxReplays, &c.MaxReservations: DefaultMaxReservations,
		&c.MaxQueue: DefaultMaxQueue, &c.MaxQueueTotal: DefaultMaxQueueTotal,
	} {
		if *bound == 0 {
			*bound = value
		}
	}
	if c.JournalMode == "" {
		c.JournalMode = holder.JournalBlock
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Clients) == 0 {
		for _, url := range c.Brokers {
			c.Clients = append(c.Clients, tokenleasev1connect.NewBrokerClient(c.HTTPClient, url))
		}
	}
	return c
}
