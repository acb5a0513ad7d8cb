package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// healthy is an examination in which all is well.
func healthy() *examination {
	now := frameClock()
	ms := now.UnixMilli()
	broker := func(id string) *tokenleasev1.BrokerStatus {
		return &tokenleasev1.BrokerStatus{BrokerId: id, Url: "http://" + id, Reached: true, UnixMs: ms, RoundTripNs: 1e6, ProgramVersion: "v1"}
	}
	member := func(name string) *tokenleasev1.StoreMember {
		return &tokenleasev1.StoreMember{Name: name, Reached: true, Leader: name == "etcd-0", SizeBytes: 10 << 20, QuotaBytes: 100 << 20}
	}
	return &examination{
		now: now,
		brokers: []*examinedBroker{{
			url: "http://a", asked: now, told: now.Add(10 * time.Millisecond), programVersion: "v1", who: &tokenleasev1.WhoAmIResponse{
				Name: "ann", Verified: true, Roles: []string{"operator"}, CertificateExpiresUnixMs: now.Add(90 * 24 * time.Hour).UnixMilli(),
				ServerCertificateExpiresUnixMs: now.Add(60 * 24 * time.Hour).UnixMilli(),
			},
			cluster: &tokenleasev1.ShowClusterResponse{
				ClusterId: "c0ffee", BrokerId: "a", UnixMs: ms, ProgramVersion: "v1", PolicyVersion: 3,
				Brokers: []*tokenleasev1.BrokerStatus{broker("a"), broker("b")},
				Store:   &tokenleasev1.StoreStatus{Known: true, Members: []*tokenleasev1.StoreMember{member("etcd-0"), member("etcd-1"), member("etcd-2")}},
			},
		}},
		shards: &tokenleasev1.ListShardsResponse{Shards: []*tokenleasev1.ShardStatus{
			{Shard: 0, BrokerId: "a", Head: 5, CommittedUnixMs: ms - 4_000}, {Shard: 1, BrokerId: "b"},
		}},
		holders: &tokenleasev1.ListHoldersResponse{Holders: []*tokenleasev1.HolderStatus{
			{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "l0"}, Epoch: 3, LiveGrants: 1, LiveTokens: 8, LastHeardUnixMs: ms - 1_000, RegisteredUnixMs: ms - 9_000_000},
		}},
		policy:  &tokenleasev1.ShowPolicyStatusResponse{Version: 3, VersionInForce: 3, Installed: true, Settled: true},
		restore: &tokenleasev1.ShowRestoreResponse{Generation: 1},
	}
}

func TestDoctorFindsNothing(t *testing.T) {
	d := diagnose(healthy())
	for _, f := range d.Findings {
		if f.Status != statusOK || f.What == "" || f.Next != "" {
			t.Errorf("in a healthy cluster: %+v", f)
		}
	}
	var checks []string
	for _, f := range d.Findings {
		checks = append(checks, f.Check)
	}
	for _, check := range []string{"reachable", "access", "clocks", "versions", "certificates", "store", "restore", "shards", "policies", "limits", "holders", "orphaned", "records"} {
		if !slices.Contains(checks, check) {
			t.Errorf("%s is not looked at", check)
		}
		if !strings.Contains(doctorLong, "\n    "+check) {
			t.Errorf("the help does not name %s", check)
		}
	}
	if !d.Healthy {
		t.Error("it is not healthy")
	}
}

func TestDoctorFinds(t *testing.T) {
	now := frameClock()
	unreachable := outage()
	denied := (&clientSettings{server: brokerServer, url: "http://b:1"}).failed(connect.NewWireError(connect.CodePermissionDenied, errors.New("not a viewer")))
	for _, test := range []struct {
		change func(e *examination)
		want   finding
	}{
		{func(e *examination) {
			e.brokers = append(e.brokers, &examinedBroker{url: "http://b:1", err: unreachable})
		},
			finding{statusFail, "reachable", "cannot reach the broker at http://b:1", "see whether it runs and listens there"}},
		{func(e *examination) {
			other := *e.brokers[0]
			other.url, other.cluster = "http://c", &tokenleasev1.ShowClusterResponse{ClusterId: "beef", UnixMs: now.UnixMilli()}
			e.brokers = append(e.brokers, &other)
		}, finding{statusFail, "reachable", "http://a is of cluster c0ffee, and http://c of cluster beef", "name brokers of one cluster"}},
		{func(e *examination) { e.brokers[0].cluster.Brokers[1].Reached = false },
			finding{statusFail, "reachable", "broker a does not reach broker b at http://b", "--advertise"}},
		{func(e *examination) { e.brokers[0].cluster.Brokers = e.brokers[0].cluster.Brokers[:1] },
			finding{statusWarn, "reachable", "there is one live broker", "run two or three"}},
		{func(e *examination) { e.brokers[0].whoErr = denied }, finding{statusWarn, "access", "not a viewer", "look again"}},
		{func(e *examination) { e.brokers[0].cluster.UnixMs += 5_000 },
			finding{statusWarn, "clocks", "the clocks of this machine and of http://a differ by about 5s", "NTP"}},
		{func(e *examination) { e.brokers[0].cluster.UnixMs -= 60_000 },
			finding{statusFail, "clocks", "differ by about 1m0s", "NTP"}},
		{func(e *examination) { e.brokers[0].cluster.Brokers[1].UnixMs += 40_000 },
			finding{statusFail, "clocks", "the clocks of brokers a and b differ by about 40s", "NTP"}},
		{func(e *examination) { e.brokers[0].cluster.Brokers[1].ProgramVersion = "v2" },
			finding{statusWarn, "versions", "versions are mixed: v1: this program, broker a; v2: broker b", "finish the upgrade"}},
		{func(e *examination) {
			e.brokers[0].who.ServerCertificateExpiresUnixMs = now.Add(5 * 24 * time.Hour).UnixMilli()
		},
			finding{statusWarn, "certificates", "the certificate of http://a ends 2026-02-05T06:00:00.000Z, in 5 days", "renew it"}},
		{func(e *examination) { e.brokers[0].who.CertificateExpiresUnixMs = now.Add(time.Hour).UnixMilli() },
			finding{statusFail, "certificates", "your own certificate ends 2026-01-31T07:00:00.000Z, in 1h0m", "renew it"}},
		{func(e *examination) { e.brokers[0].who.CertificateExpiresUnixMs = now.Add(-time.Hour).UnixMilli() },
			finding{statusFail, "certificates", "it has ended", "renew it"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Known = false }, finding{statusWarn, "store", "etcd has not told", "etcdctl"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Alarms = []string{"NOSPACE"} },
			finding{statusFail, "store", "the alarm NOSPACE", "etcdctl alarm disarm"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Members[1].Reached = false },
			finding{statusWarn, "store", "member etcd-1 of etcd does not answer", "bring it back"}},
		{func(e *examination) {
			e.brokers[0].cluster.Store.Members[1].Reached, e.brokers[0].cluster.Store.Members[2].Reached = false, false
		}, finding{statusFail, "store", "1 of 3 members of etcd answer", "bring members back"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Members[0].Leader = false },
			finding{statusFail, "store", "no member of etcd that answers leads", "logs of etcd"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Members[0].SizeBytes = 80 << 20 },
			finding{statusWarn, "store", "member etcd-0 of etcd uses 80% of its quota of 100 MiB", "defragment"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Members[0].SizeBytes = 96 << 20 },
			finding{statusFail, "store", "uses 96% of its quota", "defragment"}},
		{func(e *examination) { e.brokers[0].cluster.Store.Members[0].Problem = "corrupt\nalarm" },
			finding{statusWarn, "store", "member etcd-0 of etcd says: corrupt alarm", "log of that member"}},
		{func(e *examination) { e.restore.Unknown, e.restore.Generation = true, 7 },
			finding{statusFail, "restore", "generation 7 was declared", "tokenlease restore attest"}},
		{func(e *examination) { e.restore, e.restoreErr = nil, denied }, finding{statusWarn, "restore", "could not be looked at", "look again"}},
		{func(e *examination) { e.shards.Shards[1].BrokerId = "" },
			finding{statusFail, "shards", "shard 1 without an owner: nothing of theirs is granted", "see that a broker is live"}},
		{func(e *examination) { e.shards.Shards[0].CommittedUnixMs -= 60_000 },
			finding{statusWarn, "shards", "shard 0 with an owner that has committed nothing for 30s", "how long etcd takes"}},
		{func(e *examination) { e.policy.ShardsBehind = []uint32{0, 1} },
			finding{statusWarn, "policies", "2 shards (0, 1) behind policy version 3", "some seconds"}},
		{func(e *examination) {
			e.policy.HoldersBehind = []*tokenleasev1.HolderLag{{Holder: &tokenleasev1.Holder{Region: "eu", Instance: "l0"}, PolicyVersion: 2}}
		}, finding{statusWarn, "policies", "1 limiter is behind policy version 3: eu/l0 holds credit under version 2 or older", "30 s"}},
		{func(e *examination) { e.policy.BudgetsAboveCount = 1 },
			finding{statusWarn, "limits", "1 budget has more out than the capacity", "tokenlease policy status"}},
		{func(e *examination) { e.holders.Holders[0].LastHeardUnixMs -= 600_000 },
			finding{statusWarn, "holders", "eu/l0 has not been heard of for 10m, more than 2m, and holds 8 tokens of 1 grant", "tokenlease holders retire eu/l0"}},
		{func(e *examination) {
			e.holders.Holders[0].OrphanedGrants, e.holders.Holders[0].OrphanedTokens = 2, 10
			e.orphans = []*tokenleasev1.Grant{{GrantId: "g1-000-00000001", Holder: e.holders.Holders[0].Holder}}
		}, finding{statusWarn, "orphaned", "10 tokens in 2 grants of earlier epochs of eu/l0 stay reserved: g1-000-00000001", "tokenlease grants resolve"}},
		{func(e *examination) {
			e.holders.Holders[0].OrphanedGrants, e.holders.Holders[0].OrphanedTokens, e.holders.Holders[0].Retired = 1, 10, true
		}, finding{statusWarn, "orphaned", "10 tokens in 1 grant", "tokenlease holders retire eu/l0"}},
		{func(e *examination) {
			e.holders.Holders[0].OrphanedGrants, e.holders.Holders[0].OrphanedTokens = 2, 10
			e.orphans = []*tokenleasev1.Grant{{Holder: e.holders.Holders[0].Holder, LapsesAfterNs: 6e9}, {Holder: e.holders.Holders[0].Holder, LapsesAfterNs: 45e9}}
		}, finding{statusWarn, "orphaned", "10 tokens in 2 grants", "wait: all of it lapses by itself, at the latest 45s after that epoch's newest request about the budget, or after a change of the shard's owner, and counts as spent then (reclaim: deadline). To have back before what was not spent: start eu/l0 with the journal"}},
		{func(e *examination) {
			e.holders.Holders[0].OrphanedGrants, e.holders.Holders[0].OrphanedTokens = 2, 10
			e.orphans = []*tokenleasev1.Grant{{Holder: e.holders.Holders[0].Holder, LapsesAfterNs: 6e9}, {Holder: e.holders.Holders[0].Holder}}
		}, finding{statusWarn, "orphaned", "10 tokens in 2 grants", "of 1 of these grants the credit lapses by itself, at the latest 6s after"}},
	} {
		e := healthy()
		test.change(e)
		d := diagnose(e)
		requireFinding(t, d, test.want)
		if d.Healthy != (test.want.Status != statusFail) {
			t.Errorf("%s: healthy is %v", test.want.What, d.Healthy)
		}
	}
}

// requireFinding wants a finding of that status, which says these parts.
func requireFinding(t *testing.T, d *diagnosis, want finding) {
	t.Helper()
	var others []string
	for _, f := range d.Findings {
		if f.Status == want.Status && f.Check == want.Check && strings.Contains(f.What, want.What) && strings.Contains(f.Next, want.Next) {
			return
		}
		if f.Status != statusOK {
			others = append(others, fmt.Sprintf("%+v", f))
		}
	}
	t.Errorf("no finding %+v; there are %s", want, strings.Join(others, "\n"))
}

// A certificate whose life is 30 days is no warning for most of it.
func TestDoctorLeavesYoungCertificatesAlone(t *testing.T) {
	e := healthy()
	e.brokers[0].who.ServerCertificateExpiresUnixMs = e.now.Add(29 * 24 * time.Hour).UnixMilli()
	if d := diagnose(e); d.count(statusWarn)+d.count(statusFail) != 0 {
		t.Errorf("%+v", d)
	}
}

// A broker that refuses was reached: the finding is about access, and says what to do.
func TestDoctorIsRefused(t *testing.T) {
	for _, code := range []connect.Code{connect.CodePermissionDenied, connect.CodeUnauthenticated} {
		err := (&clientSettings{server: brokerServer, url: "http://bob:secret@b:1"}).failed(connect.NewWireError(code, errors.New("not for you")))
		e := &examination{now: frameClock(), brokers: []*examinedBroker{{url: "http://bob:secret@b:1", err: err, who: &tokenleasev1.WhoAmIResponse{Roles: []string{"holder"}}}}}
		d := diagnose(e)
		requireFinding(t, d, finding{statusFail, "access", "the broker at http://bob:xxxxx@b:1 refused (" + code.String() + "): not for you; roles: holder", "with --cert and --key"})
		if len(d.Findings) != 1 || !e.refused() || d.Healthy {
			t.Errorf("%v: %+v", code, d)
		}
	}
	for _, test := range []struct {
		err  error
		next string
	}{
		{connect.NewWireError(connect.CodeDataLoss, errors.New("torn")), "see `tokenlease explain data_loss`"},
		{connect.NewError(connect.CodeUnknown, errors.New("no broker")), "see `tokenlease explain unknown`"},
		{connect.NewWireError(connect.CodeUnimplemented, errors.New("what")), "see that a broker of this version listens there"},
	} {
		failed := (&clientSettings{server: brokerServer, url: "http://b:1"}).failed(test.err)
		requireFinding(t, diagnose(&examination{brokers: []*examinedBroker{{url: "http://b:1", err: failed}}}), finding{statusFail, "reachable", "b:1", test.next})
	}
}

// refusing is a broker that lets nobody look.
func refusing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code":"permission_denied","message":"not a viewer"}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestRefusalsEndTheProgram(t *testing.T) {
	clearSettings(t)
	url := strings.Replace(refusing(t), "http://", "http://bob:secret@", 1)
	p, stdout, stderr := newProgram()
	if code := p.run(t.Context(), []string{"doctor", "--broker", url}); code != exitNo || !strings.Contains(stdout.String(), "FAIL   access") {
		t.Errorf("doctor: %d, %s, %s", code, stdout, stderr)
	}
	if said := stdout.String() + stderr.String(); strings.Contains(said, "secret") || !strings.Contains(said, "bob:xxxxx@") {
		t.Errorf("the password is told: %s", said)
	}
	p, stdout, stderr = newProgram()
	code := p.run(t.Context(), []string{"support-bundle", "-", "--broker", url})
	if code != exitRefused || stdout.Len() == 0 || !strings.Contains(stderr.String(), "refused: the file has only what is known here.") || strings.Contains(stderr.String(), "secret") {
		t.Errorf("support-bundle: %d, %s", code, stderr)
	}
}

// While records cannot be read, nothing that they may be about is well, and each is told
// once, whichever answer told of it.
func TestDoctorPastDamage(t *testing.T) {
	e := healthy()
	e.holders.Unusable, e.holders.UnusableCount = []string{"a cannot be read", "b cannot be read"}, 2
	e.policy.Unusable, e.policy.UnusableCount, e.policy.Installed, e.policy.Settled = []string{"b cannot be read"}, 1, false, false
	e.shardsErr = outage()
	d := diagnose(e)
	told := false
	for _, f := range d.Findings {
		switch f.Check {
		case "policies", "limits", "orphaned":
			t.Errorf("told to be well: %+v", f)
		case "records":
			told = f.Status == statusFail && strings.HasPrefix(f.What, "2 records cannot be read, ") && strings.HasSuffix(f.What, ": a cannot be read; b cannot be read")
		}
	}
	if !told || d.Healthy {
		t.Errorf("%+v", d)
	}
}

// An owner that has just started commits within seconds: what it found is old, and that
// alone is no finding.
func TestDoctorLooksAgainAtSilentShards(t *testing.T) {
	clearSettings(t)
	var broker *fake
	server := serveFake(func(f *fake) { broker = f })
	broker.silent.Store(true)
	t.Cleanup(server.Close)
	p, stdout, stderr := newProgram()
	p.wait = func(_ context.Context, d time.Duration) bool {
		if d != commitsWithin {
			t.Errorf("waits for %v", d)
		}
		broker.silent.Store(false)
		return true
	}
	p.run(t.Context(), []string{"doctor", "--broker", server.URL})
	if strings.Contains(stdout.String(), "committed nothing") || !strings.Contains(stderr.String(), "looking again in 6s") {
		t.Errorf("it commits: %s%s", stdout, stderr)
	}
	broker.silent.Store(true)
	p, stdout, _ = newProgram()
	p.wait = func(context.Context, time.Duration) bool { return true }
	p.run(t.Context(), []string{"doctor", "--broker", server.URL})
	if !strings.Contains(stdout.String(), "2 shards (7, 8) with an owner that has committed nothing for 30s") {
		t.Errorf("it does not commit: %s", stdout)
	}
}

// No password of a URL is printed, whether the URL can be read or not.
func TestPasswordsInURLsAreNotShown(t *testing.T) {
	for text, want := range map[string]string{
		"http://bob:secret@host:1/a@b": "http://bob:xxxxx@host:1/a@b",
		"http://host:1/a@b":            "http://host:1/a@b",
		"http://bob@host":              "http://bob@host",
		"http://bob:sec/ret@host":      "http://xxxxx@host",
		"bob:secret@host:1":            "xxxxx@host:1",
		"nonsense":                     "nonsense",
	} {
		if got := shownURL(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestDoctorReachesNobody judges what there is, which is little.
func TestDoctorReachesNobody(t *testing.T) {
	d := diagnose(&examination{now: frameClock(), brokers: []*examinedBroker{{url: "http://b:1", err: outage()}}})
	if d.Healthy || len(d.Findings) != 1 || d.Findings[0].Check != "reachable" {
		t.Errorf("%+v", d)
	}
}
