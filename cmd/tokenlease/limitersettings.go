package main

import (
	"time"

	"github.com/spf13/pflag"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional"
)

// limiterSettings configure a regional limiter.
type limiterSettings struct {
	listen         string
	metricsListen  string
	brokers        []string
	region         string
	instance       string
	journalDir     string
	journal        choice
	firstGrantWait time.Duration
	maxWaiters     int
	syncInterval   time.Duration
	tls            tlsSettings
	brokerTLS      clientTLS
	gateway        gatewaySettings
	decisions      decisionLogSettings
	trace          traceSettings
	log            logSettings
}

// register adds the settings to flags.
func (s *limiterSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7700", "`address` to serve on")
	flags.StringVar(&s.metricsListen, "metrics-listen", "", "`address` for metrics and health, besides --listen; clear text on loopback (default: none)")
	flags.StringSliceVar(&s.brokers, "brokers", []string{"http://127.0.0.1:7600"}, "`URLs` of brokers, with commas between")
	flags.StringVar(&s.region, "region", "", "`name` of the region (required)")
	flags.StringVar(&s.instance, "instance", "", "`name` of this limiter, unique in its region and the same at each start (required)")
	flags.StringVar(&s.journalDir, "journal-dir", "", "`directory` of the journal, on storage that never goes back")
	choiceVar(flags, &s.journal, "journal", "when credit may be spent: once it is in the journal (block), once the broker has seen that too (confirm), at once and without a journal (off)", "block", "confirm", "off")
	flags.DurationVar(&s.firstGrantWait, "first-grant-wait", 500*time.Millisecond, "how long a check waits for the first credit of its budget")
	flags.IntVar(&s.maxWaiters, "max-waiters", 10_000, "how many checks may wait at once; the rest is answered as unavailable")
	flags.DurationVar(&s.syncInterval, "sync-interval", 100*time.Millisecond, "how often a budget is reported while it is used")
	s.tls.register(flags)
	flags.StringVar(&s.brokerTLS.ca, "broker-ca", "", "`file` of the authorities that brokers are checked by (default: --tls-client-ca)")
	flags.StringVar(&s.brokerTLS.cert, "broker-cert", "", "`file` of the certificate to show to brokers (default: --tls-cert)")
	flags.StringVar(&s.brokerTLS.key, "broker-key", "", "`file` of its key (default: --tls-key)")
	s.gateway.register(flags)
	s.decisions.register(flags)
	s.trace.register(flags)
	s.log.register(flags)
}

// validate checks the settings together.
func (s *limiterSettings) validate() error {
	if err := checkAddress("listen", s.listen); err != nil {
		return err
	}
	if s.metricsListen != "" {
		if err := checkAddress("metrics-listen", s.metricsListen); err != nil {
			return err
		}
	}
	for _, broker := range s.brokers {
		if err := checkURL("brokers", broker); err != nil {
			return err
		}
	}
	holder := &tokenleasev1.Holder{Region: s.region, Instance: s.instance}
	if err := holder.Validate(); err != nil {
		return usageErrorf("--%w", err)
	}
	if err := s.validateTLS(); err != nil {
		return err
	}
	return s.validateNumbers()
}

// validateNumbers checks what is counted or timed, and the journal.
func (s *limiterSettings) validateNumbers() error {
	switch {
	case len(s.brokers) == 0:
		return usageErrorf("--brokers must name at least one broker")
	case (s.journal.value == "off") != (s.journalDir == ""):
		return usageErrorf("--journal %s and --journal-dir %q do not fit: a journal needs a directory, and --journal off has none", s.journal.value, s.journalDir)
	case s.firstGrantWait < 0 || s.firstGrantWait > time.Minute:
		return usageErrorf("--first-grant-wait %v must be 0 to 1m", s.firstGrantWait)
	case s.maxWaiters < 0:
		return usageErrorf("--max-waiters %d must be 0 or more", s.maxWaiters)
	case s.syncInterval < time.Millisecond || s.syncInterval > regional.MaxSyncInterval:
		return usageErrorf("--sync-interval %v must be 1ms to 1s", s.syncInterval)
	}
	for _, check := range []func() error{s.decisions.validate, func() error { return s.trace.validate(s.tls.allowPlaintext) }} {
		if err := check(); err != nil {
			return err
		}
	}
	return s.gateway.validate()
}

// validateTLS checks who is trusted on either side.
func (s *limiterSettings) validateTLS() error {
	if err := s.tls.validate([2]string{"listen", s.listen}, [2]string{"metrics-listen", s.metricsListen}, [2]string{"envoy-listen", s.gateway.envoyListen}); err != nil {
		return err
	}
	if err := s.brokerTLS.validate("broker-cert", "broker-key"); err != nil {
		return err
	}
	for _, broker := range s.brokers {
		if isClear(broker) && !s.tls.allowPlaintext {
			return usageErrorf("--brokers %s is clear text: whoever is on the way could hand out credit; name it with https, or say --%s", broker, plaintextFlag)
		}
	}
	return nil
}

// towardsBrokers is what the limiter shows to brokers, and checks them by.
func (s *limiterSettings) towardsBrokers() clientTLS {
	t := s.brokerTLS
	if t.ca == "" {
		t.ca = s.tls.clientCA
	}
	if t.cert == "" {
		t.cert, t.key = s.tls.cert, s.tls.key
	}
	return t
}
