package envoydoctor_test

import (
	"slices"
	"strings"
	"testing"

	admin "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	limiterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tokenlease/tokenlease/regional/gateway/envoydoctor"
)

func wrap(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	out, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// managed is the shipped configuration as a management server would have sent it,
// and Envoy dumps it: the routes by RDS, and the limiter's filter by ECDS.
type managed struct {
	listener *listenerpb.Listener
	manager  *manager.HttpConnectionManager
	routes   *route.RouteConfiguration
	limiter  *limiterpb.RateLimit
	ecds     *admin.EcdsConfigDump
	lds      *admin.ListenersConfigDump
	rds      *admin.RoutesConfigDump
	scopes   *admin.ScopedRoutesConfigDump
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	m := &managed{limiter: &limiterpb.RateLimit{}, scopes: &admin.ScopedRoutesConfigDump{}}
	config := shipped(t)
	m.listener = config.GetStaticResources().GetListeners()[0]
	m.manager = managersOf(t, m.listener)[0]
	m.routes = m.manager.GetRouteConfig()
	m.manager.RouteSpecifier = &manager.HttpConnectionManager_Rds{Rds: &manager.Rds{RouteConfigName: "edge"}}
	for _, f := range m.manager.GetHttpFilters() {
		if f.GetName() != "envoy.filters.http.ratelimit" {
			continue
		}
		if err := f.GetTypedConfig().UnmarshalTo(m.limiter); err != nil {
			t.Fatal(err)
		}
		f.ConfigType = &manager.HttpFilter_ConfigDiscovery{ConfigDiscovery: &core.ExtensionConfigSource{}}
	}
	return m
}

// dump is what /config_dump says.
func (m *managed) dump(t *testing.T) *admin.ConfigDump {
	t.Helper()
	config := shipped(t) // its own listener is another one, which is dumped again
	config.GetStaticResources().GetListeners()[0].Name = "static"
	fixed := config.GetStaticResources().GetListeners()[0]
	m.listener.GetFilterChains()[0].GetFilters()[0].ConfigType = &listenerpb.Filter_TypedConfig{TypedConfig: wrap(t, m.manager)}
	clusters := &admin.ClustersConfigDump{}
	for _, c := range config.GetStaticResources().GetClusters() {
		clusters.StaticClusters = append(clusters.StaticClusters, &admin.ClustersConfigDump_StaticCluster{Cluster: wrap(t, c)})
	}
	m.ecds = &admin.EcdsConfigDump{EcdsFilters: []*admin.EcdsConfigDump_EcdsFilterConfig{{
		EcdsFilter: wrap(t, &core.TypedExtensionConfig{Name: "envoy.filters.http.ratelimit", TypedConfig: wrap(t, m.limiter)}),
	}}}
	m.lds = &admin.ListenersConfigDump{
		StaticListeners: []*admin.ListenersConfigDump_StaticListener{{Listener: wrap(t, fixed)}},
		DynamicListeners: []*admin.ListenersConfigDump_DynamicListener{{
			Name: "edge", ActiveState: &admin.ListenersConfigDump_DynamicListenerState{Listener: wrap(t, m.listener)},
		}},
	}
	m.rds = &admin.RoutesConfigDump{DynamicRouteConfigs: []*admin.RoutesConfigDump_DynamicRouteConfig{{RouteConfig: wrap(t, m.routes)}}}
	return &admin.ConfigDump{Configs: []*anypb.Any{
		wrap(t, &admin.BootstrapConfigDump{Bootstrap: config}), wrap(t, clusters), wrap(t, m.ecds), wrap(t, &admin.EndpointsConfigDump{}),
		wrap(t, m.lds), wrap(t, m.scopes), wrap(t, m.rds), wrap(t, &admin.SecretsConfigDump{}),
	}}
}

func read(t *testing.T, m proto.Message, options protojson.MarshalOptions) envoydoctor.Report {
	t.Helper()
	data, err := options.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	report, err := envoydoctor.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestDump(t *testing.T) {
	for _, options := range []protojson.MarshalOptions{{UseProtoNames: true}, {}, {UseEnumNumbers: true, EmitUnpopulated: true}} {
		report := read(t, newManaged(t).dump(t), options)
		if len(report.Findings) != 0 || report.Listeners != 2 || report.Limiters != 2 || report.Routes != 4 {
			t.Errorf("%+v", report)
		}
	}
}

func TestDumpsOfWhatFails(t *testing.T) {
	const dynamic = `listener "edge" / filter chain 0`
	tests := []struct {
		name   string
		change func(m *managed) func(*admin.ConfigDump)
		want   []string
	}{
		{"the discovered filter fails open", func(m *managed) func(*admin.ConfigDump) {
			m.limiter.FailureModeDeny = false
			return nil
		}, []string{`fails-open failure-mode-deny @ ` + dynamic + ` / http filter "envoy.filters.http.ratelimit"`}},
		{"the discovered routes ask nobody", func(m *managed) func(*admin.ConfigDump) {
			m.routes.GetVirtualHosts()[0].GetRoutes()[1].GetRoute().RateLimits = nil
			return nil
		}, []string{`warning never-asked @ ` + dynamic + ` / route config "edge" / virtual host "api" / route 1 "create-report"`}},
		{"no routes in the dump", func(m *managed) func(*admin.ConfigDump) {
			m.routes.Name = "another"
			return nil
		}, []string{`warning unreadable @ ` + dynamic + ` / route config "edge"`}},
		{"no filter in the dump", func(*managed) func(*admin.ConfigDump) {
			return func(d *admin.ConfigDump) { d.Configs = slices.Delete(d.Configs, 2, 3) }
		}, []string{
			`warning unreadable @ ` + dynamic + ` / http filter "envoy.filters.http.ratelimit"`,
			`warning never-asked @ ` + dynamic,
		}},
		{"the default of a filter fails open", func(m *managed) func(*admin.ConfigDump) {
			for _, f := range m.manager.GetHttpFilters() {
				if c := f.GetConfigDiscovery(); c != nil {
					open := proto.CloneOf(m.limiter)
					open.FailureModeDeny = false
					c.DefaultConfig, _ = anypb.New(open)
				}
			}
			return nil
		}, []string{`fails-open failure-mode-deny @ ` + dynamic + ` / http filter "envoy.filters.http.ratelimit"`}},
		{"scopes by name", func(m *managed) func(*admin.ConfigDump) {
			m.manager.RouteSpecifier = &manager.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &manager.ScopedRoutes{Name: "set"}}
			scope, _ := anypb.New(&route.ScopedRouteConfiguration{Name: "one", RouteConfigurationName: "edge"})
			lost, _ := anypb.New(&route.ScopedRouteConfiguration{Name: "two", RouteConfigurationName: "lost"})
			m.scopes.DynamicScopedRouteConfigs = []*admin.ScopedRoutesConfigDump_DynamicScopedRouteConfigs{{Name: "set", ScopedRouteConfigs: []*anypb.Any{scope, lost}}}
			return nil
		}, []string{`warning unreadable @ ` + dynamic + ` / scope "two" / route config "lost"`}},
		{"scopes that are not there", func(m *managed) func(*admin.ConfigDump) {
			m.manager.RouteSpecifier = &manager.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &manager.ScopedRoutes{Name: "set"}}
			return nil
		}, []string{`warning unreadable @ ` + dynamic}},
		{"virtual hosts on demand", func(m *managed) func(*admin.ConfigDump) {
			m.routes.Vhds = &route.Vhds{}
			return nil
		}, []string{`warning unreadable @ ` + dynamic + ` / route config "edge"`}},
		{"weighted clusters", func(m *managed) func(*admin.ConfigDump) {
			off, _ := anypb.New(&route.FilterConfig{Disabled: true})
			m.routes.GetVirtualHosts()[0].GetRoutes()[1].GetRoute().ClusterSpecifier = &route.RouteAction_WeightedClusters{WeightedClusters: &route.WeightedCluster{
				Clusters: []*route.WeightedCluster_ClusterWeight{
					{Name: "old"}, {Name: "new", TypedPerFilterConfig: map[string]*anypb.Any{"envoy.filters.http.ratelimit": off}},
				},
			}}
			return nil
		}, []string{`warning never-asked @ ` + dynamic + ` / route config "edge" / virtual host "api" / route 1 "create-report" / weighted cluster "new"`}},
		{"a part that is unknown", func(*managed) func(*admin.ConfigDump) {
			return func(d *admin.ConfigDump) {
				d.Configs = append(d.Configs, &anypb.Any{TypeUrl: "x/google.protobuf.BoolValue"})
			}
		}, []string{`warning unreadable @ configs[8]`}},
	}
	for _, test := range tests {
		m := newManaged(t)
		after := test.change(m)
		d := m.dump(t)
		if after != nil {
			after(d)
		}
		var got []string
		for _, f := range read(t, d, protojson.MarshalOptions{UseProtoNames: true}).Findings {
			got = append(got, string(f.Severity)+" "+f.Rule+" @ "+f.Path)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// TestListenersOnTheirWay: one that warms will serve in a moment, one that drains
// will not, and one that was refused never did.
func TestListenersOnTheirWay(t *testing.T) {
	m := newManaged(t)
	closed := m.dump(t)
	m.limiter.FailureModeDeny = false
	m.dump(t)
	for _, f := range m.manager.GetHttpFilters() {
		if f.GetConfigDiscovery() != nil {
			f.ConfigType = &manager.HttpFilter_TypedConfig{TypedConfig: wrap(t, m.limiter)}
		}
	}
	m.listener.GetFilterChains()[0].GetFilters()[0].ConfigType = &listenerpb.Filter_TypedConfig{TypedConfig: wrap(t, m.manager)}
	open := &admin.ListenersConfigDump_DynamicListenerState{Listener: wrap(t, m.listener)}
	tests := []struct {
		name   string
		change func(l *admin.ListenersConfigDump_DynamicListener)
		want   []string
	}{
		{"warming", func(l *admin.ListenersConfigDump_DynamicListener) { l.WarmingState = open }, []string{"failure-mode-deny"}},
		{"draining", func(l *admin.ListenersConfigDump_DynamicListener) { l.DrainingState = open }, nil},
		{"refused", func(l *admin.ListenersConfigDump_DynamicListener) {
			l.ErrorState = &admin.UpdateFailureState{FailedConfiguration: open.GetListener()}
		}, []string{"unreadable"}},
	}
	for _, test := range tests {
		d := proto.CloneOf(closed)
		listeners := &admin.ListenersConfigDump{}
		if err := d.GetConfigs()[4].UnmarshalTo(listeners); err != nil {
			t.Fatal(err)
		}
		test.change(listeners.GetDynamicListeners()[0])
		d.Configs[4] = wrap(t, listeners)
		var got []string
		for _, f := range read(t, d, protojson.MarshalOptions{}).Findings {
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestResourceFiles: what a management server keeps in files is read by its types.
func TestResourceFiles(t *testing.T) {
	file := `resources:
  - {"@type": type.googleapis.com/envoy.config.listener.v3.Listener, name: l, filter_chains: [{filters: [{typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, http_filters: [{name: limit, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, timeout: 1s, rate_limit_service: {grpc_service: {google_grpc: {}}}}}], rds: {route_config_name: r}}}]}]}
  - "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
    name: r
    virtual_hosts:
      - name: h
        matcher:
          matcher_tree: {exact_match_map: {map: {"/a": {action: {typed_config: {"@type": x/envoy.config.route.v3.Route, name: a, route: {cluster: c}}}}}}}
      - name: other
        matcher: {on_no_match: {action: {typed_config: {"@type": x/example.Mine}}}}
`
	report, err := envoydoctor.Read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`warning never-asked @ listener "l" / filter chain 0 / filter 0 "" / route config "r" / virtual host "h" / matched route 0 "a": no rate limit actions apply: nothing here is limited`,
		`warning unreadable @ listener "l" / filter chain 0 / filter 0 "" / route config "r" / virtual host "other": could not be read: its matcher has no route that is known here`,
		`fails-open failure-mode-deny @ listener "l" / filter chain 0 / filter 0 "" / http filter "limit": failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error`,
	}
	if got := told(report); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
