package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapLogger is the logger that etcd wants, on top of ours; nil discards. It passes
// on warnings and errors only, as debug messages while hushed is true (nil: never).
// Where etcd would end the process, it panics with an error, so that a failing
// start can be reported.
func zapLogger(logger *slog.Logger, hushed *atomic.Bool) *zap.Logger {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	core := &slogCore{logger: logger.With("component", "etcd"), hushed: hushed}
	return zap.New(core, zap.WithFatalHook(panicHook{}), zap.WithPanicHook(panicHook{}))
}

// slogCore is a zapcore.Core that writes to a slog.Logger.
type slogCore struct {
	logger *slog.Logger
	hushed *atomic.Bool
}

func (c *slogCore) Enabled(level zapcore.Level) bool {
	return level >= zapcore.WarnLevel && c.logger.Enabled(context.Background(), c.level(level))
}

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{logger: c.logger.With(attributes(fields)...), hushed: c.hushed}
}

func (c *slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := c.level(entry.Level)
	if harmless(entry.Message) {
		level = slog.LevelDebug
	}
	c.logger.Log(context.Background(), level, entry.Message, attributes(fields)...)
	return nil
}

func (c *slogCore) Sync() error { return nil }

func (c *slogCore) level(level zapcore.Level) slog.Level {
	switch {
	case c.hushed != nil && c.hushed.Load():
		return slog.LevelDebug
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	default:
		return slog.LevelWarn
	}
}

// harmless are messages of every first start: the database does not yet say which
// version of etcd wrote it, which matters for going back to an older etcd only.
func harmless(message string) bool {
	return message == "Failed to detect schema version" || message == "failed to update storage version"
}

// attributes are the fields as key and value, ordered by key.
func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	out := make([]any, 0, len(encoder.Fields))
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		out = append(out, slog.Any(key, encoder.Fields[key]))
	}
	return out
}

// panicHook panics with what was logged as an error.
type panicHook struct{}

func (panicHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			panic(fmt.Errorf("%s: %w", entry.Message, err))
		}
	}
	panic(errors.New(entry.Message))
}
