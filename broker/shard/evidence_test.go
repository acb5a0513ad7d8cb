package shard

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// Each contradiction is counted, and one in a second is logged.
func TestEvidenceFillsNoLog(t *testing.T) {
	var log bytes.Buffer
	s := &Shard{log: slog.New(slog.NewTextHandler(&log, nil))}
	for second := range 3 {
		s.moment.Mono = time.Duration(second) * time.Second
		for range 1000 {
			s.evidence(errors.New("spent more than was issued"))
		}
		if got := bytes.Count(log.Bytes(), []byte("\n")); got != second+1 {
			t.Errorf("%d lines after %d s, want %d", got, second, second+1)
		}
	}
	if s.stats.Evidence != 3000 {
		t.Errorf("%d counted, want 3000", s.stats.Evidence)
	}
}
