package envoydoctor_test

import (
	"testing"

	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/envoydoctor"
)

// FuzzRead: whatever the file is, it is read or refused, and each finding says
// where and what to do.
func FuzzRead(f *testing.F) {
	f.Add(envoy.FailClosedConfig())
	f.Add([]byte(`{"configs":[{"@type":"x/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[{"active_state":{"listener":{"@type":"x/envoy.config.listener.v3.Listener","filterChains":[{"filters":[{"typedConfig":{"@type":"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","httpFilters":[{"typedConfig":{"@type":"envoy.extensions.filters.http.ratelimit.v3.RateLimit","failureModeDeny":true}}],"rds":{}}}]}]}}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := envoydoctor.Read(data)
		if err != nil {
			return
		}
		if report.Listeners == 0 || report.Limiters == 0 && report.Count(envoydoctor.FailsOpen) == 0 {
			t.Errorf("%+v", report)
		}
		for _, finding := range report.Findings {
			if finding.Path == "" || finding.Problem == "" || finding.Change == "" || finding.Rule == "" {
				t.Errorf("%+v", finding)
			}
		}
	})
}
