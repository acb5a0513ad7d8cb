package envoydoctor

import (
	"fmt"
	"strings"
)

// The types that are looked into.
const (
	typeManager   = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	typeLimiter   = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"
	typePerRoute  = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
	typeAuthorize = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
	typeNetwork   = "envoy.extensions.filters.network.ratelimit.v3.RateLimit"
	typeThrift    = "envoy.extensions.filters.network.thrift_proxy.filters.ratelimit.v3.RateLimit"
	typeFilter    = "envoy.config.route.v3.FilterConfig"
)

// listener looks at all filter chains of a listener.
func (d *doctor) listener(o object, path string) {
	d.report.Listeners++
	chains := children(o, "filter_chains")
	for i, chain := range chains {
		d.chain(chain, path+" / "+chainName(chain, i))
	}
	if chain := child(o, "default_filter_chain"); chain != nil {
		d.chain(chain, path+" / default filter chain")
	}
	if api := field(child(o, "api_listener"), "api_listener"); api != nil {
		d.networkFilter(api, path+" / api listener")
	}
}

func chainName(o object, i int) string {
	if name := words(o, "name"); name != "" {
		return fmt.Sprintf("filter chain %q", name)
	}
	return fmt.Sprintf("filter chain %d", i)
}

func (d *doctor) chain(o object, path string) {
	for i, f := range children(o, "filters") {
		at := fmt.Sprintf("%s / filter %d %q", path, i, words(f, "name"))
		if name := words(f, "name"); name == "envoy.filters.network.http_connection_manager" {
			at = path
		}
		for _, config := range d.configs(f, at) {
			d.networkFilter(config, at)
		}
	}
}

// configs are the configurations that a filter has or may have: its own, or what
// was discovered, and until then the default.
func (d *doctor) configs(filter object, path string) []any {
	if config := field(filter, "typed_config"); config != nil {
		return []any{config}
	}
	discovery := child(filter, "config_discovery")
	if discovery == nil {
		if name := words(filter, "name"); strings.Contains(name, "rate") && strings.Contains(name, "limit") && !strings.Contains(name, "local") {
			d.add(unreadableLimiter(path, "it has no typed_config"))
		}
		return nil
	}
	var all []any
	if config, ok := d.ecds[words(filter, "name")]; ok {
		all = append(all, config)
	} else {
		d.unreadable(path, "its configuration is discovered, and not in the file: give the doctor the output of /config_dump")
	}
	if config := field(discovery, "default_config"); config != nil {
		all = append(all, config)
	}
	return all
}

// networkFilter looks into connection managers and network rate limit filters.
func (d *doctor) networkFilter(config any, path string) {
	name, body := typed(config)
	switch {
	case name == typeManager:
		d.manager(body, path)
	case name == typeNetwork:
		d.plainLimiter(body, path)
	case name == "":
		d.unreadable(path, "its typed_config does not say of which type it is")
	case !strings.HasPrefix(name, "envoy.extensions.filters.network."):
		d.unreadable(path, fmt.Sprintf("the type %.100q is not known here", name))
	}
}

// manager looks at the HTTP filters of a connection manager, and then at its
// routes.
func (d *doctor) manager(o object, path string) {
	var limiters []*limiter
	for i, f := range children(o, "http_filters") {
		at := fmt.Sprintf("%s / http filter %q", path, words(f, "name"))
		if words(f, "name") == "" {
			at = fmt.Sprintf("%s / http filter %d", path, i)
		}
		for _, config := range d.configs(f, at) {
			if l := d.httpFilter(f, config, at); l != nil {
				limiters = append(limiters, l)
			}
		}
	}
	if len(limiters) == 0 {
		d.add(Finding{
			Severity: Warning, Rule: "never-asked", Path: path,
			Problem: "no rate limit filter: nothing that arrives here is limited",
			Change:  "add envoy.filters.http.ratelimit before the router, unless that is meant",
		})
		return
	}
	d.routesOf(o, path, limiters)
	for _, l := range limiters {
		l.finish(d)
	}
}

// httpFilter looks at one HTTP filter. It is not nil for a rate limit filter.
func (d *doctor) httpFilter(filter object, config any, path string) *limiter {
	name, body := typed(config)
	switch {
	case name == typeLimiter:
		return d.limiter(filter, body, path)
	case name == typeAuthorize:
		d.authorize(body, path)
	case name == "":
		d.unreadable(path, "its typed_config does not say of which type it is")
	case strings.Contains(name, "rate_limit.v2") || strings.HasPrefix(name, "envoy.extensions.filters.http.ratelimit."):
		d.report.Limiters++
		d.add(unreadableLimiter(path, fmt.Sprintf("the type %.100q is of another version of Envoy's API", name)))
	case strings.HasPrefix(name, "envoy.extensions.filters.http."), name == "envoy.extensions.common.matching.v3.ExtensionWithMatcher":
		// Envoy's own. What is wrapped in it is found among the strays.
	default:
		d.unreadable(path, fmt.Sprintf("the type %.100q is not known here", name))
	}
	return nil
}

// authorize looks at external authorization, which tokenlease's forward-auth
// endpoint may be behind.
func (d *doctor) authorize(o object, path string) {
	if !truth(o, "failure_mode_allow") {
		return
	}
	d.add(Finding{
		Severity: Warning, Rule: "authorization-fails-open", Path: path,
		Problem: "failure_mode_allow: an error of the authorization service is permission, and if that is tokenlease's forward-auth endpoint, of the limiter",
		Change:  "take failure_mode_allow out",
	})
}
