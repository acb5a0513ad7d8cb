package envoydoctor

import (
	"fmt"
	"slices"
	"strings"
)

// Read reads a configuration. The error says why it is none, or that it has no
// listener; then nothing can be said about it.
func Read(data []byte) (Report, error) {
	doc, err := parse(data)
	if err != nil {
		return Report{}, fmt.Errorf("the configuration %w", err)
	}
	d := &doctor{
		report:       Report{Findings: []Finding{}},
		routeConfigs: map[string]object{}, scopes: map[string][]object{}, ecds: map[string]any{},
		clusters: map[string]bool{}, runtime: map[string]any{}, seen: map[uintptr]bool{}, remarked: map[uintptr]bool{},
	}
	d.collect(doc)
	if len(d.listeners) == 0 {
		return Report{}, fmt.Errorf("the configuration has no listener%s: want a bootstrap file with static_resources, or all of what /config_dump says", d.notFound())
	}
	for _, l := range d.listeners {
		d.listener(l.config, l.path)
	}
	d.strays(doc, "the file")
	if d.report.Limiters == 0 {
		d.add(Finding{
			Severity: FailsOpen, Rule: "no-limiter", Path: "the file",
			Problem: "no rate limit filter anywhere: nothing asks a limiter",
			Change:  "add envoy.filters.http.ratelimit to the HTTP filters of each listener, before the router",
		})
	}
	return d.report, nil
}

// doctor is one reading of a configuration.
type doctor struct {
	report Report

	listeners     []placed
	routeConfigs  map[string]object   // those of RDS and of files, by name
	scopes        map[string][]object // scoped route configurations, by the name of their set
	ecds          map[string]any      // typed configurations, by name
	clusters      map[string]bool
	moreClusters  bool // a management server has others
	moreListeners bool
	runtime       map[string]any // static values, by key

	seen     map[uintptr]bool // rate limit filters that were looked at, and what is not in use
	remarked map[uintptr]bool // rate limits that were remarked about
}

// placed is a part of the configuration and where it is.
type placed struct {
	config object
	path   string
}

func (d *doctor) add(f Finding) { d.report.Findings = append(d.report.Findings, f) }

// unreadable warns of a part that was not understood.
func (d *doctor) unreadable(path, what string) {
	d.add(Finding{
		Severity: Warning, Rule: "unreadable", Path: path,
		Problem: "could not be read: " + what,
		Change:  "look at it by hand: what it lets pass is not in this report",
	})
}

func (d *doctor) notFound() string {
	if d.moreListeners {
		return " of its own, they come from a management server"
	}
	return ""
}

// collect finds the listeners of the file, and what they refer to.
func (d *doctor) collect(doc object) {
	switch {
	case has(doc, "configs"): // of /config_dump
		dumps := children(doc, "configs")
		whole := slices.ContainsFunc(dumps, func(o object) bool {
			name, _ := typed(o)
			return strings.HasSuffix(name, ".ListenersConfigDump")
		})
		for i, dump := range dumps {
			d.dump(dump, fmt.Sprintf("configs[%d]", i), whole)
		}
	case has(doc, "resources"): // of a management server
		for i, resource := range children(doc, "resources") {
			d.resource(resource, fmt.Sprintf("resources[%d]", i))
		}
	default:
		if name, body := typed(doc); name != "" {
			d.dump(body, "the file", false)
			return
		}
		d.bootstrap(doc, true)
	}
}

// bootstrap reads what Envoy starts with. Its listeners stand in a dump again.
func (d *doctor) bootstrap(o object, withListeners bool) {
	static, dynamic := child(o, "static_resources"), child(o, "dynamic_resources")
	for i, l := range children(static, "listeners") {
		if withListeners {
			d.listeners = append(d.listeners, placed{l, listenerName(l, i)})
		} else {
			d.ignore(l)
		}
	}
	for _, c := range children(static, "clusters") {
		d.clusters[words(c, "name")] = true
	}
	d.moreClusters = d.moreClusters || withListeners && (has(dynamic, "cds_config") || has(dynamic, "ads_config"))
	if withListeners && has(dynamic, "lds_config") {
		d.moreListeners = true
		if len(d.listeners) > 0 {
			d.unreadable("dynamic_resources", "more listeners come from a management server: give the doctor the output of /config_dump")
		}
	}
	for _, layer := range children(child(o, "layered_runtime"), "layers") {
		d.addRuntime("", child(layer, "static_layer"))
	}
	d.addRuntime("", child(child(o, "runtime"), "base"))
}

// addRuntime adds values under their whole keys. Later layers go before earlier
// ones.
func (d *doctor) addRuntime(prefix string, o object) {
	for name, value := range o {
		if below, ok := value.(object); ok && !has(below, "numerator") {
			d.addRuntime(prefix+name+".", below)
			continue
		}
		d.runtime[prefix+name] = value
	}
}

// dump reads one part of a dump. If whole, the listeners have a part of their own.
func (d *doctor) dump(o object, path string, whole bool) {
	name, body := typed(o)
	switch strings.TrimPrefix(name, "envoy.admin.v3.") {
	case "BootstrapConfigDump":
		d.bootstrap(child(body, "bootstrap"), !whole)
	case "ListenersConfigDump":
		for _, l := range children(body, "static_listeners") {
			d.resource(child(l, "listener"), path)
		}
		for _, l := range children(body, "dynamic_listeners") {
			d.dynamicListener(l, path)
		}
	case "ListenersConfigDump.StaticListener":
		d.resource(child(body, "listener"), path)
	case "ListenersConfigDump.DynamicListener":
		d.dynamicListener(body, path)
	case "RoutesConfigDump":
		for _, list := range []string{"static_route_configs", "dynamic_route_configs"} {
			for _, r := range children(body, list) {
				d.resource(child(r, "route_config"), path)
			}
		}
	case "RoutesConfigDump.StaticRouteConfig", "RoutesConfigDump.DynamicRouteConfig":
		d.resource(child(body, "route_config"), path)
	case "ScopedRoutesConfigDump":
		for _, list := range []string{"inline_scoped_route_configs", "dynamic_scoped_route_configs"} {
			for _, set := range children(body, list) {
				d.scopes[words(set, "name")] = append(d.scopes[words(set, "name")], children(set, "scoped_route_configs")...)
			}
		}
	case "EcdsConfigDump":
		for _, e := range children(body, "ecds_filters") {
			d.resource(child(e, "ecds_filter"), path)
		}
	case "EcdsConfigDump.EcdsFilterConfig":
		d.resource(child(body, "ecds_filter"), path)
	case "ClustersConfigDump":
		for _, list := range []string{"static_clusters", "dynamic_active_clusters", "dynamic_warming_clusters"} {
			for _, c := range children(body, list) {
				d.resource(child(c, "cluster"), path)
			}
		}
	case "ClustersConfigDump.StaticCluster", "ClustersConfigDump.DynamicCluster":
		d.resource(child(body, "cluster"), path)
	case "EndpointsConfigDump", "SecretsConfigDump": // neither says what is limited
	default:
		d.resource(o, path)
	}
}

// dynamicListener takes what serves, and what will serve in a moment.
func (d *doctor) dynamicListener(l object, path string) {
	d.resource(child(child(l, "active_state"), "listener"), path)
	d.resource(child(child(l, "warming_state"), "listener"), path)
	d.ignore(child(l, "draining_state"))
	if failed := child(l, "error_state"); failed != nil {
		d.ignore(failed)
		d.unreadable(fmt.Sprintf("listener %q", words(l, "name")), "its latest update was refused by Envoy: what is told here is the one before")
	}
}

// resource reads a resource of a management server by its type.
func (d *doctor) resource(o object, path string) {
	if o == nil {
		return
	}
	switch name, body := typed(o); name {
	case "envoy.config.listener.v3.Listener":
		d.listeners = append(d.listeners, placed{body, listenerName(body, len(d.listeners))})
	case "envoy.config.route.v3.RouteConfiguration":
		d.routeConfigs[words(body, "name")] = body
	case "envoy.config.core.v3.TypedExtensionConfig":
		d.ecds[words(body, "name")] = field(body, "typed_config")
	case "envoy.config.cluster.v3.Cluster":
		d.clusters[words(body, "name")] = true
	case "envoy.config.route.v3.ScopedRouteConfiguration":
		d.scopes[""] = append(d.scopes[""], body)
	case "envoy.config.bootstrap.v3.Bootstrap":
		d.bootstrap(body, true)
	case "":
		d.unreadable(path, "it does not say of which type it is")
	default:
		d.unreadable(path, fmt.Sprintf("the type %.100q is not known here", name))
	}
}

// ignore keeps what is not in use out of strays.
func (d *doctor) ignore(o object) {
	if o != nil {
		d.seen[identity(o)] = true
	}
}

func listenerName(o object, i int) string {
	if name := words(o, "name"); name != "" {
		return fmt.Sprintf("listener %q", name)
	}
	return fmt.Sprintf("listener %d", i)
}
