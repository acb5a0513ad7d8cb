package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/pflag"
)

// TestDashboardSettings: where the page is served, by which names, and that browsers
// are kept from acting for other sites without a page as well.
func TestDashboardSettings(t *testing.T) {
	const host, origin = "broker.example:7600", "http://broker.example:7600"
	tests := []struct {
		name, path        string
		flags             []string
		advertise         string
		page, own, others int // the answers
	}{
		{name: "default", path: "/ui/", advertise: "http://broker.example:7600", page: 200, own: 200, others: 403},
		{name: "elsewhere", path: "/ops/", flags: []string{"--dashboard-path=/ops/"}, advertise: "http://broker.example:7600", page: 200, own: 200, others: 403},
		{name: "off", path: "/ui/", flags: []string{"--dashboard-path="}, advertise: "http://broker.example:7600", page: 404, own: 200, others: 403},
		{name: "by another name", path: "/ui/", advertise: "http://10.0.0.5:7600", page: 403, own: 403, others: 403},
		{name: "by a name that is set", path: "/ui/", flags: []string{"--dashboard-names=a.example,broker.example"}, advertise: "http://10.0.0.5:7600", page: 200, own: 200, others: 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &dashboardSettings{}
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			s.register(flags)
			if err := flags.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			if err := s.validate(); err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("POST /service", func(http.ResponseWriter, *http.Request) {})
			handler, err := s.serve(mux, test.advertise)
			if err != nil {
				t.Fatal(err)
			}
			answer := func(method, path, origin string) int {
				req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
				req.Host = host
				if origin != "" {
					req.Header.Set("Origin", origin)
				}
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, req)
				return rec.Code
			}
			if got := answer(http.MethodGet, test.path, ""); got != test.page {
				t.Errorf("the page: %d, want %d", got, test.page)
			}
			if got := answer(http.MethodPost, "/service", origin); got != test.own {
				t.Errorf("a request of the page: %d, want %d", got, test.own)
			}
			if got := answer(http.MethodPost, "/service", "http://elsewhere.example"); got != test.others {
				t.Errorf("a request of another site: %d, want %d", got, test.others)
			}
			if got := answer(http.MethodPost, "/service", ""); got != http.StatusOK {
				t.Errorf("a request of a client: %d, want 200", got)
			}
		})
	}
}
