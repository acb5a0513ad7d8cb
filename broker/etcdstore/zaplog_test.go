package etcdstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
)

func TestZapLogger(t *testing.T) {
	var out bytes.Buffer
	var hushed atomic.Bool
	logger := zapLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), &hushed)
	logger.Debug("hidden")
	logger.Info("hidden")
	logger.With(zap.String("member", "m")).Warn("slow", zap.Int("b", 2), zap.Int("a", 1))
	logger.Error("broken", zap.Error(errors.New("cause")))
	hushed.Store(true)
	logger.Error("closed")
	got := out.String()
	for _, want := range []string{
		"level=WARN msg=slow component=etcd member=m a=1 b=2\n",
		"level=ERROR msg=broken component=etcd error=cause\n",
		"level=DEBUG msg=closed component=etcd\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "hidden") {
		t.Errorf("the log is not quiet:\n%s", got)
	}
}

// etcd's way to end the process becomes an error that can be recovered, also when
// nothing is logged.
func TestZapLoggerDoesNotEndTheProcess(t *testing.T) {
	cause := errors.New("cause")
	for name, logger := range map[string]*zap.Logger{
		"logging": zapLogger(slog.New(slog.NewTextHandler(new(bytes.Buffer), nil)), nil),
		"silent":  zapLogger(nil, nil),
	} {
		for level, end := range map[string]func(string, ...zap.Field){"fatal": logger.Fatal, "panic": logger.Panic} {
			err := recovered(func() { end("giving up", zap.String("path", "p"), zap.Error(cause)) })
			if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "giving up") {
				t.Errorf("%s, %s: %v", name, level, err)
			}
		}
	}
}

func recovered(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}
