package decisionlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Defaults and bounds of Config.
const (
	DefaultMaxBytes = 1 << 30
	MinMaxBytes     = 64 << 10
	DefaultBuffer   = 8192
)

// Config of a log.
type Config struct {
	Path             string  // of the file. Required
	Region, Instance string  // of the limiter. Required
	Sample           float64 // share of the decisions to write, above 0 and at most 1
	MaxBytes         int64   // of each of the two files; MinMaxBytes or more. 0: DefaultMaxBytes
	Buffer           int     // entries that may wait. 0: DefaultBuffer
	// Now and Mono are the limiter's clocks. Nil: those of this machine.
	Now        func() time.Time
	Mono       func() time.Duration
	Registerer prometheus.Registerer // nil: metrics go nowhere
	Logger     *slog.Logger          // nil discards
}

// Validate checks the fields together.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("decisionlog: no file is named")
	case c.Region == "" || c.Instance == "":
		return errors.New("decisionlog: the region or the instance is empty")
	case !(c.Sample > 0 && c.Sample <= 1): // NaN is none either
		return fmt.Errorf("decisionlog: a sample of %v is not above 0 and at most 1: leave the log off to write nothing", c.Sample)
	case c.MaxBytes != 0 && c.MaxBytes < MinMaxBytes:
		return fmt.Errorf("decisionlog: %d bytes are below %d, the least that a file may have", c.MaxBytes, MinMaxBytes)
	case c.Buffer < 0:
		return errors.New("decisionlog: the buffer is negative")
	}
	return nil
}

// Entry is one decision on one budget, or one settlement.
type Entry struct {
	What       string // Decision or Settlement
	Key        lease.Key
	Epoch      uint64
	Cost       int64
	Returned   int64
	Allowed    bool
	Reason     pb.Reason
	Shadow     bool
	Replayed   bool
	Policy     *lease.Policy // that decided; nil: none is known
	GrantID    string
	DecisionID string
	Part       int
	Parts      int
	// ReservationID and Hold of a reservation.
	ReservationID string
	Hold          time.Duration
	Took          time.Duration
}

// stamped is an entry with its place.
type stamped struct {
	Entry
	order uint64
	at    time.Time
	mono  time.Duration
}

// Log is a log that is written. Its methods may be called concurrently.
type Log struct {
	cfg       Config
	id        string
	seed      uint64
	threshold uint64 // of Sampled; math.MaxUint64: all
	seen      atomic.Uint64
	order     atomic.Uint64
	lost      atomic.Uint64
	queue     chan stamped
	stop      chan struct{}
	stopping  sync.Once
	stopped   chan struct{}
	file      file

	// Of the writer alone.
	told  uint64 // of lost
	ill   bool   // the last write failed
	lines prometheus.Counter
}

// Open starts a log. A file that cannot be written is not an error: decisions go on,
// and the log's metrics and the program's log tell.
//
// Errors: what Validate finds.
func Open(cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	l := &Log{
		cfg: cfg, id: hex.EncodeToString(random[:8]), seed: binary.LittleEndian.Uint64(random[8:]), threshold: math.MaxUint64,
		queue: make(chan stamped, cfg.Buffer), stop: make(chan struct{}), stopped: make(chan struct{}),
		file: file{path: cfg.Path, most: cfg.MaxBytes},
	}
	if cfg.Sample < 1 {
		l.threshold = uint64(math.Ldexp(cfg.Sample, 64))
	}
	l.observe(cfg.Registerer)
	go l.run() // ends with Close
	return l, nil
}

func (c Config) withDefaults() Config {
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Mono == nil {
		origin := time.Now()
		c.Mono = func() time.Duration { return time.Since(origin) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func (l *Log) observe(reg prometheus.Registerer) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "tokenlease", Subsystem: "limiter", Name: "decision_log_" + name, Help: help}
	}
	l.lines = prometheus.NewCounter(opts("lines_total", "Decisions and settlements that were written to the decision log."))
	reg.MustRegister(l.lines, prometheus.NewCounterFunc(
		opts("lost_total", "Decisions and settlements that the decision log lost, since its disk was slow or full."),
		func() float64 { return float64(l.lost.Load()) }))
}

// Sampled says whether the next decision is to be recorded. Whatever one asks for has
// no influence on it.
func (l *Log) Sampled() bool {
	if l.threshold == math.MaxUint64 {
		return true
	}
	return mix(l.seed+l.seen.Add(1)) < l.threshold
}

// mix is the finalizer of splitmix64 (Steele, Lea and Flood, 2014): consecutive
// numbers come out as if drawn at random.
func mix(z uint64) uint64 {
	z *= 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Record hands an entry over, or loses it. It never blocks.
func (l *Log) Record(e Entry) {
	s := stamped{Entry: e, order: l.order.Add(1), at: l.cfg.Now(), mono: l.cfg.Mono()}
	select {
	case l.queue <- s:
	default:
		l.lost.Add(1)
	}
}

// Mono is the monotonic clock, by which Entry.Took is measured.
func (l *Log) Mono() time.Duration { return l.cfg.Mono() }

// Close writes what was recorded before it, and waits for that until ctx ends.
func (l *Log) Close(ctx context.Context) error {
	l.stopping.Do(func() { close(l.stop) })
	select {
	case <-l.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("decisionlog: %s cannot be written in time, its last lines are lost: %w", l.cfg.Path, ctx.Err())
	}
}
