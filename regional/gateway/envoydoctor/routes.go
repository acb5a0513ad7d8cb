package envoydoctor

import (
	"fmt"
	"strings"
)

// routesOf finds the route configurations of a connection manager, and looks at
// each.
func (d *doctor) routesOf(o object, path string, limiters []*limiter) {
	switch {
	case has(o, "route_config"):
		d.routeConfig(child(o, "route_config"), path, limiters)
	case has(o, "rds"):
		d.named(words(child(o, "rds"), "route_config_name"), path, limiters)
	case has(o, "scoped_routes"):
		d.scoped(child(o, "scoped_routes"), path, limiters)
	default:
		d.unreadable(path, "it has no routes that are known here")
	}
}

// named looks at a route configuration of RDS.
func (d *doctor) named(name, path string, limiters []*limiter) {
	config, ok := d.routeConfigs[name]
	if !ok {
		d.unreadable(fmt.Sprintf("%s / route config %q", path, name), "its routes are discovered, and not in the file: give the doctor the output of /config_dump")
		return
	}
	d.routeConfig(config, path, limiters)
}

// scoped looks at all scopes that the connection manager may choose from.
func (d *doctor) scoped(o object, path string, limiters []*limiter) {
	scopes := children(child(o, "scoped_route_configurations_list"), "scoped_route_configurations")
	if len(scopes) == 0 {
		scopes = append(scopes, d.scopes[words(o, "name")]...)
		scopes = append(scopes, d.scopes[""]...)
	}
	if len(scopes) == 0 {
		d.unreadable(path, "its scoped routes are discovered, and not in the file: give the doctor the output of /config_dump")
	}
	for _, scope := range scopes {
		at := fmt.Sprintf("%s / scope %q", path, words(scope, "name"))
		if inline := child(scope, "route_configuration"); inline != nil {
			d.routeConfig(inline, at, limiters)
			continue
		}
		d.named(words(scope, "route_configuration_name"), at, limiters)
	}
}

// level is a place where filters can be configured for routes, the innermost
// first: a weighted cluster, a route, a virtual host, a route configuration.
type level = object

// routeConfig looks at each route of each virtual host.
func (d *doctor) routeConfig(o object, path string, limiters []*limiter) {
	path = fmt.Sprintf("%s / route config %q", path, words(o, "name"))
	if has(o, "vhds") {
		d.unreadable(path, "more virtual hosts are discovered on demand")
	}
	for _, host := range children(o, "virtual_hosts") {
		at := fmt.Sprintf("%s / virtual host %q", path, words(host, "name"))
		for i, r := range children(host, "routes") {
			d.route(r, fmt.Sprintf("%s / route %d%s", at, i, routeName(r)), host, o, limiters)
		}
		if matcher := field(host, "matcher"); matcher != nil {
			d.matched(matcher, at, host, o, limiters)
		}
	}
}

// matched looks at the routes that are actions of a matcher.
func (d *doctor) matched(matcher any, path string, host, config object, limiters []*limiter) {
	found := 0
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case object:
			routes := children(v, "routes")
			switch name, body := typed(v); name {
			case "envoy.config.route.v3.Route":
				routes = []object{body}
			case "envoy.config.route.v3.RouteList":
			default:
				for _, name := range names(v) {
					visit(v[name])
				}
				return
			}
			for _, r := range routes {
				d.route(r, fmt.Sprintf("%s / matched route %d%s", path, found, routeName(r)), host, config, limiters)
				found++
			}
		}
	}
	visit(matcher)
	if found == 0 {
		d.unreadable(path, "its matcher has no route that is known here")
	}
}

// routeName is what a route is called, or else what it matches.
func routeName(o object) string {
	if name := words(o, "name"); name != "" {
		return fmt.Sprintf(" %q", name)
	}
	match := child(o, "match")
	for _, kind := range []string{"prefix", "path", "path_separated_prefix"} {
		if text := words(match, kind); text != "" {
			return fmt.Sprintf(" (%s %s)", strings.ReplaceAll(kind, "_", " "), text)
		}
	}
	if regex := words(child(match, "safe_regex"), "regex"); regex != "" {
		return fmt.Sprintf(" (regex %s)", regex)
	}
	return ""
}

// route looks at a route that leads to a cluster. All others are answered by Envoy
// itself, which asks no limiter then.
func (d *doctor) route(o object, path string, host, config object, limiters []*limiter) {
	action := child(o, "route")
	if action == nil {
		return
	}
	d.report.Routes++
	levels := []level{o, host, config}
	d.asked(action, path, levels, limiters)
	for _, c := range children(child(action, "weighted_clusters"), "clusters") {
		if len(child(c, "typed_per_filter_config")) > 0 {
			at := fmt.Sprintf("%s / weighted cluster %q", path, words(c, "name"))
			d.asked(action, at, append([]level{c}, levels...), limiters)
		}
	}
}

// asked finds out whether any limiter is asked about each request of a route, and
// warns if not.
func (d *doctor) asked(action object, path string, levels []level, limiters []*limiter) {
	best := question{how: "no rate limit filter is in use"}
	for _, l := range limiters {
		q := d.question(l, action, path, levels)
		if q.asks != never {
			l.routes = append(l.routes, path)
		}
		if q.asks > best.asks || best.asks == never && q.how != "" {
			best = q
		}
	}
	switch best.asks {
	case always:
	case sometimes:
		d.warn(path, "asked-sometimes", "a request for which "+best.how+" passes, and no limiter is asked",
			"set skip_if_absent: true beside a generic_key, or add an action that always applies, and let the limiter deny what it does not know")
	case never:
		change := "add rate_limits to the route or its virtual host"
		if best.disabled {
			change = "remove disabled"
		}
		d.warn(path, "never-asked", best.how+": nothing here is limited", change+", unless that is meant")
	}
}

// asks says about which requests a limiter is asked.
type asks int

const (
	never asks = iota
	sometimes
	always
)

// question is whether a limiter is asked, and why not.
type question struct {
	asks     asks
	how      string
	disabled bool // the filter is disabled: that is why
}

// question finds out whether a limiter is asked about the requests of a route.
func (d *doctor) question(l *limiter, action object, path string, levels []level) question {
	own, disabled := d.perRoute(l, path, levels)
	if disabled {
		return question{disabled: true, how: fmt.Sprintf("the filter %q is disabled", l.name)}
	}
	entries, fromRoute := l.entries(action, levels[len(levels)-2], own)
	q := question{how: "no rate limit actions apply"}
	var because []string
	for _, e := range entries {
		if fromRoute && stageOf(e) != l.stage {
			continue
		}
		d.entryRemarks(e, path)
		if truth(e, "apply_on_stream_done") {
			if q.asks == never {
				q.how = "the limiter is charged when the stream is done, and never asked before"
			}
			continue
		}
		reasons := conditions(e)
		because = append(because, strings.Join(reasons, " or "))
		if len(reasons) == 0 {
			q.asks = always
		} else if q.asks == never {
			q.asks = sometimes
		}
	}
	if q.asks == sometimes {
		q.how = strings.Join(because, ", and ")
	}
	return q
}

// perRoute is the innermost configuration of the filter for a route, and whether
// the filter is disabled there.
func (d *doctor) perRoute(l *limiter, path string, levels []level) (own object, disabled bool) {
	for _, at := range levels {
		config, ok := child(at, "typed_per_filter_config")[l.name]
		if !ok {
			continue
		}
		name, body := typed(config)
		if name == typeFilter {
			if truth(body, "disabled") {
				return nil, true
			}
			name, body = typed(field(body, "config"))
			if body == nil {
				return nil, false
			}
		}
		switch name {
		case typePerRoute, "":
		default:
			d.unreadable(path, fmt.Sprintf("its configuration of the rate limit filter is of the type %.100q, which is not known here", name))
		}
		return body, false
	}
	return nil, l.disabled
}

// entries are the rate limits that apply to a route, and whether they are those of
// routes, which have stages: as Envoy chooses them.
func (l *limiter) entries(action, host, own object) (all []object, fromRoute bool) {
	if embedded := children(own, "rate_limits"); len(embedded) > 0 {
		return embedded, false
	}
	if len(l.actions) > 0 {
		return l.actions, false
	}
	mine, hosts := children(action, "rate_limits"), children(host, "rate_limits")
	switch option := fmt.Sprint(field(own, "vh_rate_limits")); {
	case truth(action, "include_vh_rate_limits"), option == "INCLUDE", option == "1":
		return append(append(all, mine...), hosts...), true
	case option == "IGNORE", option == "2":
		return mine, true
	case len(mine) == 0:
		return hosts, true
	}
	return mine, true
}
