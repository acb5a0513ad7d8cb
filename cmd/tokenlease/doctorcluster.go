package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// What a diagnosis warns of, and from where on it fails.
const (
	skewWarn        = 2 * time.Second
	skewFail        = 30 * time.Second
	certificateWarn = 7 * 24 * time.Hour // of a life of 30 days most is none to warn of
	certificateFail = 3 * 24 * time.Hour
	quotaWarn       = 80 // percent
	quotaFail       = 95
)

// diagnose judges what was seen. It asks nobody, so the same is always judged alike.
func diagnose(e *examination) *diagnosis {
	d := &diagnosis{}
	reachability(d, e)
	if b := e.answering(); b != nil {
		access(d, e)
		clocks(d, e)
		versions(d, e)
		certificates(d, e)
		storeHealth(d, b.cluster.GetStore())
		restoreHealth(d, e)
		shardHealth(d, e)
		policyHealth(d, e)
		holderHealth(d, e)
		orphanHealth(d, e)
		recordHealth(d, e)
	}
	d.Healthy = d.count(statusFail) == 0
	return d
}

// unseen adds that something could not be looked at, and says whether that is so.
func unseen(d *diagnosis, check string, err error) bool {
	if err == nil {
		return false
	}
	d.warn(check, "look again once that is mended", "could not be looked at: %s", oneLine(err.Error()))
	return true
}

// reachability is about the brokers that were named, and those that they know of.
func reachability(d *diagnosis, e *examination) {
	for _, b := range e.brokers {
		switch {
		case b.err == nil:
			d.ok("reachable", "%s answers as broker %s, in %v", b.shown(), cell(b.cluster.GetBrokerId()), b.told.Sub(b.asked).Round(time.Millisecond))
		case exitCode(b.err) == exitUnreachable:
			d.fail("reachable", "see whether it runs and listens there, and what its log says last", "%s", oneLine(b.err.Error()))
		case isRefused(b.err):
			d.fail("access", "name a certificate that it knows, of an operator or a viewer, with --cert and --key", "%s%s", oneLine(b.err.Error()), rolesInWords(b.who.GetRoles()))
		default:
			next := "see that a broker of this version listens there, and what its log says last"
			if code := connect.CodeOf(b.err).String(); strings.Contains(b.err.Error(), "("+code+")") && len(explained(code)) > 0 {
				next = "see `tokenlease explain " + code + "`"
			}
			d.fail("reachable", next, "%s", oneLine(b.err.Error()))
		}
	}
	first := e.answering()
	if first == nil {
		return
	}
	for _, b := range e.brokers {
		if b.err == nil && b.cluster.GetClusterId() != first.cluster.GetClusterId() {
			d.fail("reachable", "name brokers of one cluster: their limiters' budgets have nothing to do with each other",
				"%s is of cluster %s, and %s of cluster %s", first.shown(), first.cluster.GetClusterId(), b.shown(), b.cluster.GetClusterId())
		}
	}
	live := first.cluster.GetBrokers()
	for _, b := range live {
		if !b.GetReached() {
			d.fail("reachable", "see that brokers reach each other at what they --advertise",
				"broker %s does not reach broker %s at %s", cell(first.cluster.GetBrokerId()), cell(b.GetBrokerId()), cell(b.GetUrl()))
		}
	}
	if len(live) == 1 {
		d.warn("reachable", "run two or three, so that limiters are served while one is stopped", "there is one live broker")
	}
}

// isRefused says that a server was reached, and does not let the caller look.
func isRefused(err error) bool {
	code := connect.CodeOf(err)
	return connect.IsWireError(err) && (code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated)
}

// access is about who the caller is.
func access(d *diagnosis, e *examination) {
	for _, b := range e.brokers {
		switch {
		case b.err != nil:
		case b.whoErr != nil:
			unseen(d, "access", b.whoErr)
		case b.who.GetName() == "":
			d.ok("access", "%s asks for no certificate of yours%s", b.shown(), rolesInWords(b.who.GetRoles()))
		default:
			d.ok("access", "%s knows you as %s%s", b.shown(), cell(b.who.GetName()), rolesInWords(b.who.GetRoles()))
		}
	}
}

// rolesInWords are the caller's roles, if there are any.
func rolesInWords(roles []string) string {
	if len(roles) == 0 {
		return ""
	}
	return "; roles: " + strings.Join(roles, ", ")
}

// clocks is about this machine's and the brokers'. An answer takes time, and what a
// clock showed meanwhile is not known better than by that.
func clocks(d *diagnosis, e *examination) {
	const next = "see that the machine's clock is kept by NTP. No credit depends on it: periods of a calendar begin by it, and times are shown by it"
	judge := func(skew, doubt time.Duration, who string) {
		beyond := skew.Abs() - doubt
		text := fmt.Sprintf("%s differ by about %v", who, skew.Abs().Round(100*time.Millisecond))
		switch {
		case beyond > skewFail:
			d.fail("clocks", next, "%s", text)
		case beyond > skewWarn:
			d.warn("clocks", next, "%s", text)
		default:
			d.ok("clocks", "%s agree within %v", who, max(skewWarn, doubt).Round(time.Second))
		}
	}
	for _, b := range e.brokers {
		if b.err == nil {
			took := b.told.Sub(b.asked)
			judge(time.UnixMilli(b.cluster.GetUnixMs()).Sub(b.asked.Add(took/2)), took/2, "the clocks of this machine and of "+b.shown())
		}
	}
	first := e.answering()
	for _, other := range first.cluster.GetBrokers() {
		if other.GetReached() && other.GetUnixMs() != 0 && other.GetBrokerId() != first.cluster.GetBrokerId() {
			skew := time.UnixMilli(other.GetUnixMs()).Sub(time.UnixMilli(first.cluster.GetUnixMs()))
			judge(skew, first.told.Sub(first.asked)+time.Duration(other.GetRoundTripNs()),
				fmt.Sprintf("the clocks of brokers %s and %s", cell(first.cluster.GetBrokerId()), cell(other.GetBrokerId())))
		}
	}
}

// versions is about programs of different versions.
func versions(d *diagnosis, e *examination) {
	first := e.answering()
	by := map[string][]string{}
	add := func(version, who string) {
		if version != "" && !slices.Contains(by[version], who) {
			by[version] = append(by[version], who)
		}
	}
	add(first.programVersion, "this program")
	for _, b := range e.brokers {
		if b.err == nil {
			add(b.cluster.GetProgramVersion(), "broker "+b.cluster.GetBrokerId())
		}
	}
	for _, b := range first.cluster.GetBrokers() {
		add(b.GetProgramVersion(), "broker "+b.GetBrokerId())
	}
	var all []string
	for version := range by {
		all = append(all, version)
	}
	slices.Sort(all)
	if len(all) == 1 {
		d.ok("versions", "all are %s", all[0])
		return
	}
	var parts []string
	for _, version := range all {
		parts = append(parts, version+": "+strings.Join(by[version], ", "))
	}
	d.warn("versions", "finish the upgrade: brokers first, then limiters, then this program", "versions are mixed: %s", strings.Join(parts, "; "))
}

// certificates is about those that end soon.
func certificates(d *diagnosis, e *examination) {
	seen := false
	judge := func(unixMs int64, whose string) {
		if unixMs == 0 {
			return
		}
		seen = true
		left := time.UnixMilli(unixMs).Sub(e.now)
		const next = "renew it: files are read again without a restart"
		switch text := fmt.Sprintf("%s ends %s", whose, moment(unixMs)); {
		case left <= 0:
			d.fail("certificates", next, "%s: it has ended", text)
		case left < certificateFail:
			d.fail("certificates", next, "%s, in %s", text, spanInWords(left))
		case left < certificateWarn:
			d.warn("certificates", next, "%s, in %s", text, spanInWords(left))
		default:
			d.ok("certificates", "%s, in %s", text, spanInWords(left))
		}
	}
	for i, b := range e.brokers {
		if b.err == nil && b.whoErr == nil {
			judge(b.who.GetServerCertificateExpiresUnixMs(), "the certificate of "+b.shown())
			if i == 0 {
				judge(b.who.GetCertificateExpiresUnixMs(), "your own certificate")
			}
		}
	}
	if !seen {
		d.ok("certificates", "none is used")
	}
}

// storeHealth is about etcd.
func storeHealth(d *diagnosis, s *tokenleasev1.StoreStatus) {
	if !s.GetKnown() {
		d.warn("store", "see etcd's own health: etcdctl endpoint status --cluster", "etcd has not told how it is")
		return
	}
	for _, alarm := range s.GetAlarms() {
		next := "see etcdctl alarm list"
		if strings.Contains(strings.ToUpper(alarm), "NOSPACE") {
			next = "compact and defragment etcd or raise its quota, and then: etcdctl alarm disarm. Until then nothing is committed"
		}
		d.fail("store", next, "etcd has raised the alarm %s", cell(alarm))
	}
	reached, leaders := 0, 0
	for _, m := range s.GetMembers() {
		if m.GetReached() {
			reached++
		}
		if m.GetLeader() {
			leaders++
		}
		memberHealth(d, m)
	}
	switch members := len(s.GetMembers()); {
	case members == 0:
		d.warn("store", "see etcd's own health: etcdctl endpoint status --cluster", "etcd has named no member")
	case reached*2 <= members:
		d.fail("store", "bring members back: without most of them nothing is committed", "%d of %d members of etcd answer", reached, members)
	case leaders == 0:
		d.fail("store", "see the logs of etcd: without a leader nothing is committed", "no member of etcd that answers leads")
	default:
		d.ok("store", "%d of %d members of etcd answer", reached, members)
	}
}

// memberHealth is about one member of etcd.
func memberHealth(d *diagnosis, m *tokenleasev1.StoreMember) {
	name := cell(m.GetName())
	if !m.GetReached() {
		d.warn("store", "bring it back, or replace it, while the others are well", "member %s of etcd does not answer", name)
		return
	}
	if m.GetProblem() != "" {
		d.warn("store", "see the log of that member", "member %s of etcd says: %s", name, oneLine(m.GetProblem()))
	}
	if m.GetQuotaBytes() <= 0 {
		return
	}
	percent := int(float64(m.GetSizeBytes()) / float64(m.GetQuotaBytes()) * 100)
	text := fmt.Sprintf("member %s of etcd uses %d%% of its quota of %s MiB", name, percent, grouped(m.GetQuotaBytes()>>20))
	const next = "compact and defragment etcd, or raise --quota-backend-bytes: at 100% nothing is committed"
	switch {
	case percent >= quotaFail:
		d.fail("store", next, "%s", text)
	case percent >= quotaWarn:
		d.warn("store", next, "%s", text)
	default:
		d.ok("store", "%s", text)
	}
}
