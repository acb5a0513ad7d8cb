package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/cmd/tokenlease/monitoring"
)

// monitoringCommand prints what operators watch tokenlease with.
func (p *program) monitoringCommand() *cobra.Command {
	cmd := groupCommand("monitoring", "Print the table of metrics, alert rules and a dashboard",
		p.printCommand("metrics", "Print the table of all metrics, in Markdown", monitoring.Metrics,
			"  tokenlease monitoring metrics | less"),
		p.printCommand("alerts", "Print alert rules for Prometheus", monitoring.Alerts,
			"  tokenlease monitoring alerts > /etc/prometheus/rules/tokenlease.yaml"),
		p.printCommand("grafana", "Print a dashboard for Grafana", monitoring.Dashboard,
			"  tokenlease monitoring grafana > tokenlease.json"),
	)
	cmd.Long = `Print what this version is watched with. No server is asked.

Brokers and limiters tell their metrics at /metrics. The alert rules expect the jobs
that scrape them to be called tokenlease-broker and tokenlease-limiter, and each says
in its runbook what to look at. The dashboard asks for its data source when it is
imported.`
	return cmd
}

// printCommand prints a text.
func (p *program) printCommand(name, short, text, example string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: example, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.stdout, text)
			return err
		},
	}
}
