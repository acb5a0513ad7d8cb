package main

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/broker/dashboard"
)

// dashboardSettings configure the operators' page.
type dashboardSettings struct {
	path  string // empty: none is served
	names []string
}

// register adds the settings to flags.
func (s *dashboardSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.path, "dashboard-path", dashboard.DefaultPath, "`path` of the operators' page; empty turns it off")
	flags.StringSliceVar(&s.names, "dashboard-names", nil, "`names` by which browsers may reach this broker in clear text, with commas between, besides localhost, IP addresses and the host of --advertise")
}

// validate checks the settings together.
func (s *dashboardSettings) validate() error {
	if s.path == "" {
		return nil
	}
	if err := dashboard.CheckPath(s.path); err != nil {
		return usageErrorf("--dashboard-path: %w", err)
	}
	return nil
}

// known are the names of the broker: those that are set, and the host of advertise,
// a URL of it.
func (s *dashboardSettings) known(advertise string) []string {
	if u, err := url.Parse(advertise); err == nil && u.Hostname() != "" {
		return append(slices.Clip(s.names), u.Hostname())
	}
	return s.names
}

// serve adds the page to what a broker serves, and keeps browsers from acting and
// reading for other sites, page or no page.
func (s *dashboardSettings) serve(mux *http.ServeMux, advertise string) (http.Handler, error) {
	names := s.known(advertise)
	if s.path != "" {
		page, err := dashboard.New(dashboard.Config{Path: s.path, Names: names})
		if err != nil {
			return nil, err
		}
		page.Mount(mux)
	}
	return dashboard.Guard(mux, names...), nil
}
