// Package monitoring has what operators watch tokenlease with: the table of its
// metrics, alert rules for Prometheus and a dashboard for Grafana. A test holds all of
// them to the metrics that brokers and limiters have.
package monitoring

import _ "embed" // for the files

// Metrics documents every metric, in Markdown.
//
//go:embed METRICS.md
var Metrics string

// Alerts are rules for Prometheus, in YAML. They expect the jobs to be called
// tokenlease-broker and tokenlease-limiter.
//
//go:embed alerts.yaml
var Alerts string

// Dashboard is for Grafana, in JSON: import it, and choose a Prometheus data source.
//
//go:embed grafana.json
var Dashboard string
