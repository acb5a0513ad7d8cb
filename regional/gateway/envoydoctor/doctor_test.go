package envoydoctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/envoydoctor"
)

// Places of the shipped configuration.
const (
	chain    = `listener "edge" / filter chain 0`
	filter   = chain + ` / http filter "envoy.filters.http.ratelimit"`
	host     = chain + ` / route config "edge" / virtual host "api"`
	create   = host + ` / route 1 "create-report"`
	rest     = host + ` / route 2 "everything-else"`
	filterAt = "                  - name: envoy.filters.http.ratelimit\n"
)

// changed is the shipped configuration with some text replaced, all of it.
func changed(t *testing.T, changes ...string) []byte {
	t.Helper()
	file := string(envoy.FailClosedConfig())
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(file, changes[i]) {
			t.Fatalf("the shipped configuration has no %q", changes[i])
		}
		file = strings.ReplaceAll(file, changes[i], changes[i+1])
	}
	return []byte(file)
}

// told is a report in one line for each finding.
func told(r envoydoctor.Report) []string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, fmt.Sprintf("%s %s @ %s: %s", f.Severity, f.Rule, f.Path, f.Problem))
	}
	return all
}

// TestRemedyOfDisabled: actions are of no use to a filter that is disabled.
func TestRemedyOfDisabled(t *testing.T) {
	const onRoute = `{"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}`
	for _, test := range []struct {
		name    string
		changes []string
		want    string
	}{
		{"on a route", perRoute(onRoute), "remove disabled, unless that is meant"},
		{"everywhere", []string{filterAt, filterAt + "                    disabled: true\n"}, "remove disabled, unless that is meant"},
		{
			"without actions", []string{"                              - actions:\n                                  " + actions, "                              - stage: 1\n                                actions:\n                                  " + actions},
			"add rate_limits to the route or its virtual host, unless that is meant",
		},
	} {
		report, err := envoydoctor.Read(changed(t, test.changes...))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range report.Findings {
			if f.Rule != "never-asked" {
				continue
			}
			if found = true; f.Change != test.want {
				t.Errorf("%s: %s: %q, want %q", test.name, f.Path, f.Change, test.want)
			}
		}
		if !found {
			t.Errorf("%s: no route is told", test.name)
		}
	}
}

// perRoute is a configuration of the filter for the routes of the second route.
func perRoute(config string) []string {
	const at = "                        - name: everything-else\n"
	return []string{at, at + "                          typed_per_filter_config:\n                            envoy.filters.http.ratelimit: " + config + "\n"}
}

const perRouteType = `"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute`

// actions are those of the second route alone.
const actions = `- generic_key: { descriptor_key: operation, descriptor_value: api.read }`

func TestFindings(t *testing.T) {
	tests := []struct {
		name    string
		changes []string
		want    []string
	}{
		{
			"fail open by default",
			[]string{"failure_mode_deny: true", "stat_prefix: x"},
			[]string{"fails-open failure-mode-deny @ " + filter + ": failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error"},
		},
		{
			"fail open by word",
			[]string{"failure_mode_deny: true", "failureModeDeny: false"},
			[]string{"fails-open failure-mode-deny @ " + filter + ": failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error"},
		},
		{"the name of the JSON form", []string{"failure_mode_deny: true", "failureModeDeny: true"}, nil},
		{
			"half of the errors",
			[]string{"failure_mode_deny: true", "failure_mode_deny: true\n                      failure_mode_deny_percent: { default_value: { numerator: 50 } }"},
			[]string{"fails-open failure-mode-deny-percent @ " + filter + ": failure_mode_deny_percent is 50 of HUNDRED: only that share of errors are denied, the others are permission"},
		},
		{
			"not all requests",
			[]string{"filter_enabled: { default_value: { numerator: 100, denominator: HUNDRED } }", "filter_enabled: { default_value: { numerator: 9999, denominator: TEN_THOUSAND } }"},
			[]string{"fails-open filter-enabled @ " + filter + ": filter_enabled is 9999 of TEN_THOUSAND: only that share of requests are asked about, the others pass"},
		},
		{
			"not enforced",
			[]string{"filter_enforced: { default_value: { numerator: 100, denominator: HUNDRED } }", "filter_enforced: { default_value: {} }"},
			[]string{"fails-open filter-enforced @ " + filter + ": filter_enforced is 0 of HUNDRED: only that share of denials are enforced, the others pass"},
		},
		{
			"the runtime switches it off",
			[]string{
				"                      filter_enabled: { default_value: { numerator: 100, denominator: HUNDRED } }\n", "",
				"static_layer: {}", "static_layer: { ratelimit: { http_filter_enabled: 10 } }",
			},
			[]string{"fails-open filter-enabled @ " + filter + ": the runtime sets ratelimit.http_filter_enabled to 10: only that share of requests are asked about, the others pass"},
		},
		{
			"the runtime, by a key of its own",
			[]string{
				"filter_enforced: { default_value: { numerator: 100, denominator: HUNDRED } }", "filter_enforced: { default_value: { numerator: 100 }, runtime_key: mine }",
				"static_layer: {}", "static_layer: { mine: { numerator: 1, denominator: HUNDRED } }",
			},
			[]string{"fails-open filter-enforced @ " + filter + ": the runtime sets mine to map[denominator:HUNDRED numerator:1]: only that share of denials are enforced, the others pass"},
		},
		{"the runtime, of no effect", []string{"static_layer: {}", "static_layer: { ratelimit.http_filter_enabled: 10 }"}, nil},
		{
			"no timeout",
			[]string{"timeout: 0.75s", "stat_prefix: x"},
			[]string{"warning timeout @ " + filter + ": no timeout, so it is 20 ms: under load that is an error where the limiter would have answered"},
		},
		{
			"a short one",
			[]string{"timeout: 0.75s", "timeout: 0.005s"},
			[]string{"warning timeout @ " + filter + ": the timeout is 5ms: under load that is an error where the limiter would have answered"},
		},
		{
			"none at all",
			[]string{"timeout: 0.75s", "timeout: 0s"},
			[]string{"warning timeout @ " + filter + ": the timeout is 0, so there is none: requests wait for a limiter that hangs"},
		},
		{
			"429 for errors",
			[]string{"status_on_error: { code: ServiceUnavailable }", "status_on_error: { code: 429 }"},
			[]string{"warning status-on-error @ " + filter + ": status_on_error is 429: clients take an error of the limiter for a budget that is used up"},
		},
		{
			"Envoy's own Retry-After, one kind of requests, optional",
			[]string{"domain: api\n", "domain: api\n                      enable_retry_after_header: true\n                      request_type: external\n", filterAt, filterAt + "                    is_optional: true\n"},
			[]string{
				`warning request-type @ ` + filter + `: request_type is "external": other requests are never asked about`,
				"warning retry-after @ " + filter + ": enable_retry_after_header: a denial that waiting cannot help tells clients to come back after a second",
				"warning optional @ " + filter + ": is_optional: an Envoy that was built without the filter passes everything",
			},
		},
		{
			"no such cluster",
			[]string{"{ cluster_name: tokenlease }", "{ cluster_name: tokenleese }"},
			[]string{`warning no-cluster @ ` + filter + `: the cluster "tokenleese" is not in the file: every request to the limiter is an error`},
		},
		{
			"no service",
			[]string{"rate_limit_service:\n                        transport_api_version: V3\n                        grpc_service:\n                          envoy_grpc: { cluster_name: tokenlease }", "rate_limit_service: {}"},
			[]string{"fails-open no-service @ " + filter + ": no rate_limit_service: every request passes"},
		},
		{
			"a field of a later Envoy",
			[]string{"domain: api\n", "domain: api\n                      from_the_future: {a: [1, {b: c}]}\n"},
			[]string{`warning unreadable @ ` + filter + `: could not be read: the field or value "from_the_future" is not known here`},
		},
		{
			"a value that is none",
			[]string{"failure_mode_deny: true", "failure_mode_deny: yes"},
			[]string{`fails-open unreadable-limiter @ ` + filter + `: a rate limit filter that could not be read: invalid value for bool field failureModeDeny: "yes". Nobody can say that it fails closed`},
		},
		{
			"another version",
			[]string{"filters.http.ratelimit.v3.RateLimit\n", "filters.http.ratelimit.v4.RateLimit\n"},
			[]string{
				`fails-open unreadable-limiter @ ` + filter + `: a rate limit filter that could not be read: the type "envoy.extensions.filters.http.ratelimit.v4.RateLimit" is of another version of Envoy's API. Nobody can say that it fails closed`,
				"warning never-asked @ " + chain + ": no rate limit filter: nothing that arrives here is limited",
			},
		},
		{
			"a structure with the name of a type",
			[]string{
				`"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit` + "\n",
				`"@type": type.googleapis.com/xds.type.v3.TypedStruct` + "\n                      type_url: type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit\n                      value: {domain: api, timeout: 1s, rate_limit_service: {grpc_service: {envoy_grpc: {cluster_name: tokenlease}}}}\n",
			},
			[]string{"fails-open failure-mode-deny @ " + filter + ": failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error"},
		},
		{
			"unknown filters",
			[]string{"                  - name: envoy.filters.http.router\n", "                  - name: mine\n                    typed_config: {\"@type\": type.googleapis.com/example.Mine}\n                  - name: other\n                    typed_config: {a: b}\n                  - name: envoy.filters.http.router\n"},
			[]string{
				`warning unreadable @ ` + chain + ` / http filter "mine": could not be read: the type "example.Mine" is not known here`,
				`warning unreadable @ ` + chain + ` / http filter "other": could not be read: its typed_config does not say of which type it is`,
			},
		},
		{
			"authorization",
			[]string{"                  - name: envoy.filters.http.router\n", "                  - name: auth\n                    typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, failure_mode_allow: true}\n                  - name: envoy.filters.http.router\n"},
			[]string{`warning authorization-fails-open @ ` + chain + ` / http filter "auth": failure_mode_allow: an error of the authorization service is permission, and if that is tokenlease's forward-auth endpoint, of the limiter`},
		},
		{
			"within a composite",
			[]string{"                  - name: envoy.filters.http.router\n", "                  - name: some\n                    typed_config: {\"@type\": type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher, extension_config: {name: x, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, timeout: 1s, rate_limit_service: {grpc_service: {google_grpc: {}}}}}}\n                  - name: envoy.filters.http.router\n"},
			[]string{
				"fails-open failure-mode-deny @ the file.static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[2].typed_config.extension_config.typed_config: failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error",
				"warning unreadable @ the file.static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[2].typed_config.extension_config.typed_config: could not be read: a rate limit filter within something else: on which routes it is asked, and when, is not known here",
			},
		},
		{
			"a limiter of connections",
			[]string{"        - filters:\n", "        - filters:\n            - {name: tcp, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.network.ratelimit.v3.RateLimit, failure_mode_deny: false}}\n"},
			[]string{`fails-open failure-mode-deny @ ` + chain + ` / filter 0 "tcp": failure_mode_deny is not set: what arrives passes when the limiter is down, slow, or answers with an error`},
		},
		{
			"disabled on a route",
			perRoute(`{"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}`),
			[]string{`warning never-asked @ ` + rest + `: the filter "envoy.filters.http.ratelimit" is disabled: nothing here is limited`},
		},
		{
			"disabled but for a route",
			append(perRoute(`{"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}`), filterAt, filterAt+"                    disabled: true\n"),
			[]string{`warning never-asked @ ` + create + `: the filter "envoy.filters.http.ratelimit" is disabled: nothing here is limited`},
		},
		{
			"a configuration that is unknown",
			perRoute(`{"@type": type.googleapis.com/example.Mine}`),
			[]string{`warning unreadable @ ` + rest + `: could not be read: its configuration of the rate limit filter is of the type "example.Mine", which is not known here`},
		},
		{
			"only afterwards",
			[]string{"                              - actions:\n                                  " + actions, "                              - apply_on_stream_done: true\n                                actions:\n                                  " + actions},
			[]string{"warning never-asked @ " + rest + ": the limiter is charged when the stream is done, and never asked before: nothing here is limited"},
		},
		{
			"of another stage",
			[]string{"                              - actions:\n                                  " + actions, "                              - stage: 1\n                                actions:\n                                  " + actions},
			[]string{"warning never-asked @ " + rest + ": no rate limit actions apply: nothing here is limited"},
		},
		{
			"not asked without the claim",
			[]string{"                                      skip_if_absent: true\n", ""},
			[]string{
				`warning asked-sometimes @ ` + create + `: a request for which the metadata of "envoy.filters.http.jwt_authn" is missing passes, and no limiter is asked`,
				`warning asked-sometimes @ ` + rest + `: a request for which the metadata of "envoy.filters.http.jwt_authn" is missing passes, and no limiter is asked`,
			},
		},
		{
			"not asked without a header",
			[]string{actions, "- request_headers: { header_name: x-key, descriptor_key: key }"},
			[]string{`warning asked-sometimes @ ` + rest + `: a request for which the header "x-key" is missing passes, and no limiter is asked`},
		},
		{"asked about the path", []string{actions, `- request_headers: { header_name: ":path", descriptor_key: path }`}, nil},
		{
			"nothing certain",
			[]string{actions, "- request_headers: { header_name: x-key, descriptor_key: key, skip_if_absent: true }"},
			[]string{`warning asked-sometimes @ ` + rest + `: a request for which no action adds anything passes, and no limiter is asked`},
		},
		{
			"switches and refusals",
			[]string{
				"                              - actions:\n                                  " + actions,
				"                              - disable_key: off\n                                limit: {}\n                                hits_addend: {number: 3, is_negative_hits: true}\n                                actions:\n                                  " + actions,
			},
			[]string{
				"warning limit-override @ " + rest + ": a rate limit has a limit of its own: tokenlease refuses such descriptors, as the policy decides",
				"warning negative-hits @ " + rest + ": a rate limit has negative hits: tokenlease refuses such descriptors, as they would mint tokens",
				"warning disable-key @ " + rest + ": the runtime key ratelimit.off.http_filter_enabled can switch a rate limit off",
			},
		},
		{
			"switched off",
			[]string{
				"                              - actions:\n                                  " + actions, "                              - disable_key: mine\n                                actions:\n                                  " + actions,
				"static_layer: {}", "static_layer: { ratelimit.mine.http_filter_enabled: 0 }",
			},
			[]string{"fails-open disable-key @ " + rest + ": the runtime sets ratelimit.mine.http_filter_enabled to 0: only that share of requests is asked about, the others pass"},
		},
		{
			"no filter",
			[]string{"envoy.extensions.filters.http.ratelimit.v3.RateLimit\n", "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit\n"},
			[]string{
				"warning never-asked @ " + chain + ": no rate limit filter: nothing that arrives here is limited",
				"fails-open no-limiter @ the file: no rate limit filter anywhere: nothing asks a limiter",
			},
		},
		{
			"routes from elsewhere",
			[]string{"route_config:\n                  name: edge\n", "rds: { route_config_name: far }\n                ignored:\n                  name: edge\n"},
			[]string{`warning unreadable @ ` + chain + ` / route config "far": could not be read: its routes are discovered, and not in the file: give the doctor the output of /config_dump`},
		},
		{
			"a filter from elsewhere",
			[]string{"                  - name: envoy.filters.http.router\n", "                  - name: far\n                    config_discovery: {type_urls: [x]}\n                  - name: envoy.filters.http.router\n"},
			[]string{`warning unreadable @ ` + chain + ` / http filter "far": could not be read: its configuration is discovered, and not in the file: give the doctor the output of /config_dump`},
		},
		{
			"more listeners from elsewhere",
			[]string{"static_resources:\n", "dynamic_resources: {lds_config: {ads: {}}, cds_config: {ads: {}}}\nstatic_resources:\n"},
			[]string{"warning unreadable @ dynamic_resources: could not be read: more listeners come from a management server: give the doctor the output of /config_dump"},
		},
	}
	for _, test := range tests {
		report, err := envoydoctor.Read(changed(t, test.changes...))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := told(report); !slices.Equal(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
		for _, f := range report.Findings {
			if f.Change == "" {
				t.Errorf("%s: %q does not say what to change", test.name, f.Problem)
			}
		}
	}
}

func TestRoutesOfAFilterThatFailsOpen(t *testing.T) {
	changes := append(perRoute(`{"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}`), "failure_mode_deny: true", "failure_mode_deny: false")
	report, err := envoydoctor.Read(changed(t, changes...))
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(envoydoctor.FailsOpen); n != 1 || report.Count(envoydoctor.Warning) != 1 {
		t.Fatalf("%+v", report)
	}
	for _, f := range report.Findings {
		if f.Severity == envoydoctor.FailsOpen && !slices.Equal(f.Routes, []string{create}) {
			t.Errorf("routes %q", f.Routes)
		}
	}
}

// TestRateLimitsOfVirtualHosts: which rate limits apply is chosen as Envoy does.
func TestRateLimitsOfVirtualHosts(t *testing.T) {
	const hostLimits = `rate_limits: [{actions: [{generic_key: {descriptor_value: host}}]}]`
	tests := []struct {
		name, route, host, perRoute string
		asked                       bool
	}{
		{"neither", "", "", "", false},
		{"of the host", "", hostLimits, "", true},
		{"of the host, ignored", "", hostLimits, "vh_rate_limits: IGNORE", false},
		{"of the host, ignored by number", "", hostLimits, "vh_rate_limits: 2", false},
		{"of the route, late", "rate_limits: [{apply_on_stream_done: true, actions: [{remote_address: {}}]}]", hostLimits, "", false},
		{"of the route, late, and the host", "rate_limits: [{apply_on_stream_done: true, actions: [{remote_address: {}}]}]", hostLimits, "vh_rate_limits: INCLUDE", true},
		{"of the route, late, and the host in the old way", "include_vh_rate_limits: true, rate_limits: [{apply_on_stream_done: true, actions: [{remote_address: {}}]}]", hostLimits, "", true},
		{"of another stage, which hides the host's", "rate_limits: [{stage: 3, actions: [{remote_address: {}}]}]", hostLimits, "", false},
		{"embedded", "", "", "rate_limits: [{actions: [{remote_address: {}}]}]", true},
		{"embedded, which hides the others", "rate_limits: [{actions: [{remote_address: {}}]}]", hostLimits, "rate_limits: [{apply_on_stream_done: true, actions: [{remote_address: {}}]}]", false},
	}
	for _, test := range tests {
		own := ""
		if test.perRoute != "" {
			own = "typed_per_filter_config: {limit: {" + perRouteType + ", " + test.perRoute + "}}, "
		}
		action := "cluster: c"
		if test.route != "" {
			action += ", " + test.route
		}
		file := `static_resources: {listeners: [{name: l, filter_chains: [{filters: [{typed_config: {
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
  http_filters: [{name: limit, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit,
    failure_mode_deny: true, timeout: 1s, rate_limit_service: {grpc_service: {google_grpc: {}}}}}],
  route_config: {virtual_hosts: [{name: h, ` + test.host + `, routes: [{` + own + `match: {prefix: /}, route: {` + action + `}}]}]}}}]}]}]}`
		if test.host == "" {
			file = strings.Replace(file, "name: h, ,", "name: h,", 1)
		}
		report, err := envoydoctor.Read([]byte(file))
		if err != nil {
			t.Fatalf("%s: %v\n%s", test.name, err, file)
		}
		if asked := len(report.Findings) == 0; asked != test.asked {
			t.Errorf("%s: got %q", test.name, told(report))
		}
	}
}

func TestNoConfiguration(t *testing.T) {
	for file, want := range map[string]string{
		"":                                    "the configuration is empty: want a configuration of Envoy, or what its admin endpoint /config_dump says",
		"[]":                                  "the configuration is no configuration: want an object at the top",
		"words":                               "the configuration is no configuration: want an object at the top",
		"{}":                                  "the configuration has no listener: want a bootstrap file with static_resources, or all of what /config_dump says",
		`{"configs":1}`:                       "the configuration has no listener: want a bootstrap file with static_resources, or all of what /config_dump says",
		"dynamic_resources: {lds_config: {}}": "the configuration has no listener of its own, they come from a management server: want a bootstrap file with static_resources, or all of what /config_dump says",
		"a: 1\n---\nb: 2\n":                   "the configuration has a second document: Envoy reads one",
		"? [a]\n: b\n":                        "the configuration has a field in line 1 whose name is no text",
	} {
		report, err := envoydoctor.Read([]byte(file))
		if err == nil || err.Error() != want || report.Findings != nil {
			t.Errorf("%q: got %v", file, err)
		}
	}
	for _, file := range []string{
		`{"static_resources":{},"static_resources":{"listeners":[{"name":"a"}]}}`,
		"a: 1\na: 2\n", `{"a":`, `{"a":1}}`, strings.Repeat(`{"a":`, 10_000), strings.Repeat("[", 10_000), strings.Repeat("- ", 10_000),
	} {
		if report, err := envoydoctor.Read([]byte(file)); err == nil {
			t.Errorf("%.40q: got %v", file, report)
		}
	}
}

// TestYAMLThatEnvoyTakes: anchors, templates to be ignored, and names that look
// like numbers.
func TestYAMLThatEnvoyTakes(t *testing.T) {
	file := changed(t, "static_resources:\n", "!ignore templates:\n  deny: &deny true\nstatic_resources:\n  1: one\n", "failure_mode_deny: true", "failure_mode_deny: *deny")
	report, err := envoydoctor.Read(file)
	if err != nil || len(report.Findings) != 0 || report.Limiters != 1 {
		t.Errorf("%v, %+v", err, report)
	}

	template := `!ignore template: &l {7: seven, name: l, filter_chains: [{filters: [{typed_config: {
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
  http_filters: [{name: limit, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit,
    timeout: 1s, rate_limit_service: {grpc_service: {google_grpc: {}}}}}], route_config: {}}}]}]}
static_resources: {listeners: [*l]}
`
	report, err = envoydoctor.Read([]byte(template))
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Rule != "failure-mode-deny" {
		t.Errorf("%v, %+v", err, report)
	}
}
