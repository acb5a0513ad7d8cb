package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/regional/decisionlog"
)

// decisionLogFlush bounds how long a limiter waits at its end for the decision log.
const decisionLogFlush = 3 * time.Second

// decisionLogSettings say where a limiter logs its decisions.
type decisionLogSettings struct {
	file     string
	sample   float64
	maxBytes int64
}

// register adds the settings to flags.
func (s *decisionLogSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.file, "decision-log", "", "`file` to log decisions to, one JSON object a line, for \"verify decisions\" (default: they are not logged)")
	flags.Float64Var(&s.sample, "decision-log-sample", 1, "share of the decisions to log, above 0 and at most 1; less than 1 cannot prove that all conform")
	flags.Int64Var(&s.maxBytes, "decision-log-max-bytes", decisionlog.DefaultMaxBytes, "beyond so many `bytes` the file is put aside with .1 behind its name, in place of the one before")
}

// validate checks the settings together.
func (s *decisionLogSettings) validate() error {
	switch {
	case !(s.sample > 0 && s.sample <= 1): // NaN is none either
		return usageErrorf("--decision-log-sample %v must be above 0 and at most 1", s.sample)
	case s.maxBytes < decisionlog.MinMaxBytes:
		return usageErrorf("--decision-log-max-bytes %d must be %d or more", s.maxBytes, decisionlog.MinMaxBytes)
	}
	return nil
}

// open starts the log of a limiter, if it is on; close ends it, with what waits
// written.
func (s *decisionLogSettings) open(region, instance string, reg prometheus.Registerer, log *slog.Logger) (decisions *decisionlog.Log, closeLog func(), err error) {
	if s.file == "" {
		return nil, func() {}, nil
	}
	decisions, err = decisionlog.Open(decisionlog.Config{
		Path: s.file, Region: region, Instance: instance, Sample: s.sample, MaxBytes: s.maxBytes, Registerer: reg, Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	return decisions, func() {
		ctx, cancel := context.WithTimeout(context.Background(), decisionLogFlush)
		defer cancel()
		if err := decisions.Close(ctx); err != nil {
			log.Warn("the decision log is not complete", "error", err)
		}
	}, nil
}
