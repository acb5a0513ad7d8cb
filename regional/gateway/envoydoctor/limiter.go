package envoydoctor

import (
	"fmt"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// limiter is a rate limit filter of a connection manager.
type limiter struct {
	name     string // by which routes configure it
	path     string
	disabled bool // but for routes that enable it
	stage    uint32
	actions  []object // of the filter itself, which go before those of routes

	open   []Finding // how it fails open
	routes []string  // that ask it
}

// smallTimeout is what a remark is made about below.
const smallTimeout = 100 * time.Millisecond

// limiter reads a rate limit filter. It is nil if that cannot be read, which is
// told.
func (d *doctor) limiter(filter, body object, path string) *limiter {
	d.seen[identity(body)] = true
	d.report.Limiters++
	config := &ratelimit.RateLimit{}
	unknown, err := decode(body, config)
	l := &limiter{name: words(filter, "name"), path: path, disabled: truth(filter, "disabled"), stage: config.GetStage(), actions: children(body, "rate_limits")}
	if err != nil {
		l.open = append(l.open, unreadableLimiter(path, err.Error()))
		return l
	}
	if unknown != "" {
		d.unreadable(path, fmt.Sprintf("the field or value %q is not known here", unknown))
	}
	l.failing(d, config)
	d.remarks(config, path)
	if truth(filter, "is_optional") {
		d.warn(path, "optional", "is_optional: an Envoy that was built without the filter passes everything", "take is_optional out")
	}
	return l
}

func unreadableLimiter(path, why string) Finding {
	return Finding{
		Severity: FailsOpen, Rule: "unreadable-limiter", Path: path,
		Problem: "a rate limit filter that could not be read: " + why + ". Nobody can say that it fails closed",
		Change:  "write it as envoy.extensions.filters.http.ratelimit.v3.RateLimit, with failure_mode_deny: true",
	}
}

func (d *doctor) warn(path, rule, problem, change string) {
	d.add(Finding{Severity: Warning, Rule: rule, Path: path, Problem: problem, Change: change})
}

// finish tells how a limiter fails open, and on which routes.
func (l *limiter) finish(d *doctor) {
	for _, f := range l.open {
		f.Routes = l.routes
		d.add(f)
	}
}

// fails adds a way in which the limiter lets requests pass.
func (l *limiter) fails(rule, problem, change string) {
	l.open = append(l.open, Finding{Severity: FailsOpen, Rule: rule, Path: l.path, Problem: problem, Change: change})
}

// failing finds the ways.
func (l *limiter) failing(d *doctor, c *ratelimit.RateLimit) {
	if c.GetRateLimitService().GetGrpcService() == nil {
		l.fails("no-service", "no rate_limit_service: every request passes", "name the cluster of the limiter in rate_limit_service.grpc_service")
	}
	if !c.GetFailureModeDeny() {
		l.fails("failure-mode-deny", "failure_mode_deny is not set: a request passes when the limiter is down, slow, or answers with an error",
			"set failure_mode_deny: true")
	}
	if share := c.GetFailureModeDenyPercent(); share != nil {
		l.below(d, share, "", "failure-mode-deny-percent", "failure_mode_deny_percent", "of errors are denied, the others are permission")
	}
	l.below(d, c.GetFilterEnabled(), "ratelimit.http_filter_enabled", "filter-enabled", "filter_enabled", "of requests are asked about, the others pass")
	l.below(d, c.GetFilterEnforced(), "ratelimit.http_filter_enforcing", "filter-enforced", "filter_enforced", "of denials are enforced, the others pass")
}

// below finds that a share is not the whole. The key of the runtime is that of the
// share, or the one that Envoy uses where there is none.
func (l *limiter) below(d *doctor, share *core.RuntimeFractionalPercent, key, rule, name, means string) {
	if share != nil {
		key = share.GetRuntimeKey()
	}
	if value, ok := d.runtime[key]; ok && key != "" {
		percent, known := percentOf(value)
		switch {
		case !known:
			l.fails(rule, fmt.Sprintf("the runtime sets %s to %v, which could not be read", key, value), "take the key out of the runtime's layers")
		case percent < 100:
			l.fails(rule, fmt.Sprintf("the runtime sets %s to %v: only that share %s", key, value, means), "take the key out of the runtime's layers")
		}
		return
	}
	if share == nil {
		return
	}
	if got := share.GetDefaultValue(); fraction(got) < 100 {
		l.fails(rule, fmt.Sprintf("%s is %d of %s: only that share %s", name, got.GetNumerator(), denominator(got), means), "set it to 100 of HUNDRED, or take it out")
	}
}

// fraction is a share in percent.
func fraction(p *envoytype.FractionalPercent) float64 {
	return float64(p.GetNumerator()) * 100 / float64(parts(p.GetDenominator()))
}

func parts(d envoytype.FractionalPercent_DenominatorType) int {
	switch d {
	case envoytype.FractionalPercent_TEN_THOUSAND:
		return 10_000
	case envoytype.FractionalPercent_MILLION:
		return 1_000_000
	case envoytype.FractionalPercent_HUNDRED:
	}
	return 100
}

func denominator(p *envoytype.FractionalPercent) string { return p.GetDenominator().String() }

// percentOf reads a value of the runtime: a number of percent, or a fraction.
func percentOf(value any) (float64, bool) {
	if o, ok := value.(object); ok {
		p := &envoytype.FractionalPercent{}
		if _, err := decode(o, p); err != nil {
			return 0, false
		}
		return fraction(p), true
	}
	var percent float64
	if _, err := fmt.Sscanf(fmt.Sprint(value), "%g", &percent); err != nil {
		return 0, false
	}
	return percent, true
}

// remarks warns of what fails closed, but not well.
func (d *doctor) remarks(c *ratelimit.RateLimit, path string) {
	const howLong = "set timeout to 0.75s or so: the first check of a budget may take the limiter 500 ms, the others take microseconds"
	switch timeout := c.GetTimeout(); {
	case timeout == nil:
		d.warn(path, "timeout", "no timeout, so it is 20 ms: under load that is an error where the limiter would have answered", howLong)
	case timeout.AsDuration() == 0:
		d.warn(path, "timeout", "the timeout is 0, so there is none: requests wait for a limiter that hangs", howLong)
	case timeout.AsDuration() < smallTimeout:
		d.warn(path, "timeout", fmt.Sprintf("the timeout is %v: under load that is an error where the limiter would have answered", timeout.AsDuration()), howLong)
	}
	if kind := c.GetRequestType(); kind != "" && kind != "both" {
		d.warn(path, "request-type", fmt.Sprintf("request_type is %q: other requests are never asked about", kind), "take request_type out, unless that is meant")
	}
	if c.GetStatusOnError().GetCode() == envoytype.StatusCode_TooManyRequests {
		d.warn(path, "status-on-error", "status_on_error is 429: clients take an error of the limiter for a budget that is used up", "set it to ServiceUnavailable")
	}
	if c.GetEnableRetryAfterHeader() {
		d.warn(path, "retry-after", "enable_retry_after_header: a denial that waiting cannot help tells clients to come back after a second",
			"take it out, and let the limiter send Retry-After (response-headers: true)")
	}
	cluster := c.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName()
	if cluster != "" && len(d.clusters) > 0 && !d.clusters[cluster] && !d.moreClusters {
		d.warn(path, "no-cluster", fmt.Sprintf("the cluster %q is not in the file: every request to the limiter is an error", cluster), "add the cluster, or name another one")
	}
}

// plainLimiter looks at a rate limit filter without routes: one of connections or
// Thrift, or one in a place that was not expected.
func (d *doctor) plainLimiter(body object, path string) {
	d.seen[identity(body)] = true
	d.report.Limiters++
	if !truth(body, "failure_mode_deny") {
		d.add(Finding{
			Severity: FailsOpen, Rule: "failure-mode-deny", Path: path,
			Problem: "failure_mode_deny is not set: what arrives passes when the limiter is down, slow, or answers with an error",
			Change:  "set failure_mode_deny: true",
		})
	}
}
