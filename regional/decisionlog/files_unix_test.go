//go:build unix

package decisionlog_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
)

// stuckFile makes a file that takes no writes until it is let go: a pipe that is
// full.
func stuckFile(t *testing.T, path string) (letGo func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no FIFO can be made here: %v", err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 4096)
	raw, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = syscall.Write(int(fd), full)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() }) // which ends the reading, too
	return func() { go func() { _, _ = io.Copy(io.Discard, pipe) }() }
}

// notify is a logger that tells when it has something to say.
func notify(said chan struct{}) *slog.Logger { return slog.New(herald{said}) }

type herald struct{ said chan struct{} }

func (h herald) Enabled(context.Context, slog.Level) bool { return true }

func (h herald) Handle(context.Context, slog.Record) error {
	select {
	case h.said <- struct{}{}:
	default:
	}
	return nil
}

func (h herald) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h herald) WithGroup(string) slog.Handler      { return h }
