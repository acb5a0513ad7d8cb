package tlsfiles

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the files of one use.
type metrics struct {
	expires     prometheus.Gauge
	authorities prometheus.Gauge
	failures    prometheus.Counter
	ok          prometheus.Gauge
}

func newMetrics(cfg Config) metrics {
	use := prometheus.Labels{"use": cfg.Use}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tokenlease", Subsystem: "tls", Name: name, Help: help, ConstLabels: use})
	}
	m := metrics{
		expires:     gauge("certificate_expires_timestamp_seconds", "When the certificate in use expires; 0: there is none."),
		authorities: gauge("authorities_expire_timestamp_seconds", "When the first of the authorities in use expires; 0: those of the system are used."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "tokenlease", Subsystem: "tls", Name: "reload_failures_total", ConstLabels: use,
			Help: "Changes of the files for TLS that were not taken.",
		}),
		ok: gauge("reload_ok", "1 if what is in use is what the files say, 0 if their last change was not taken."),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m.expires, m.authorities, m.failures, m.ok)
	}
	return m
}

// read records what was put in force.
func (m metrics) read(s *state) {
	var expires time.Time
	if s.certificate != nil {
		expires = s.certificate.Leaf.NotAfter
	}
	m.expires.Set(seconds(expires))
	m.authorities.Set(seconds(s.authorities))
}

// failed records a part that was not.
func (m metrics) failed() { m.failures.Inc() }

// judged records whether what is in force is all that the files say.
func (m metrics) judged(ok bool) {
	if ok {
		m.ok.Set(1)
	} else {
		m.ok.Set(0)
	}
}

// seconds is a time as metrics have it; the zero time is 0.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
