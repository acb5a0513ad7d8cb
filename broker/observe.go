package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

const (
	// observeTimeout bounds one reading, and observeWait how long those who gather
	// metrics wait for it: then they get what was read before.
	observeTimeout = 2 * time.Minute
	observeWait    = 2 * time.Second
	// observeShare is how long a reading is good for, in the times that it took: so
	// however much is stored and however often metrics are gathered, no more than a
	// twentieth of the time is spent on it. What an operator has resolved here is told
	// at once.
	observeShare = 20
	// maxObservedRegions and maxObservedHolders bound the series.
	maxObservedRegions, maxObservedHolders = 100, 200
	// otherRegions stands for the regions beyond that. No region has such a name.
	otherRegions = "(other)"
	// unknownRegion has what a declared restore leaves unknown.
	unknownRegion = "(restore)"
)

// observer is what is read of the store when metrics are gathered: the credit that is
// out of the shards that this broker owns, and how etcd is. It is the same reading
// that Verify makes, so both agree at once. Summed over all brokers it is the whole
// cluster.
type observer struct {
	b     *Broker
	descs struct {
		reserved, orphaned, grants, roundTrip, policies, version, behind, memberUp, size, quota, alarm *prometheus.Desc
	}
	failures prometheus.Counter

	mu      sync.Mutex
	seen    *observation
	at      time.Duration // when seen was read, monotonic
	took    time.Duration
	reading chan struct{} // closed when the reading that is on its way has ended; nil: none
}

// observation is one reading.
type observation struct {
	regions map[string]*credit
	trips   map[string]time.Duration // the largest round trip that a limiter of a region has told of late
	holders map[lease.Holder]*lag    // those with grants; nil for those that lag in nothing
	version int64                    // of the policies in force
	store   *store.Health            // nil: it does not tell
}

// credit is what one region has out.
type credit struct {
	reserved, orphaned         int64 // tokens
	liveGrants, orphanedGrants int64
}

func newObserver(b *Broker) *observer {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tokenlease_broker_"+name, help, labels, nil)
	}
	o := &observer{b: b, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "tokenlease", Subsystem: "broker", Name: "observe_failures_total",
		Help: "Readings of the store for metrics that failed: what was read before is told.",
	})}
	o.descs.reserved = desc("reserved_tokens", "Tokens that a region's grants of this broker's shards have outstanding, orphaned ones included.", "region")
	o.descs.orphaned = desc("orphaned_tokens", "Tokens of grants whose epoch is gone and has not accounted for them.", "region")
	o.descs.grants = desc("grants", "Unresolved grants of this broker's shards, by region and state: live, orphaned.", "region", "state")
	o.descs.roundTrip = desc("region_round_trip_seconds", "The longest that requests of one limiter of a region to this broker's shards take, as it has told within the last five minutes.", "region")
	o.descs.policies = desc("policy_version", "The policy version in force.")
	o.descs.version = desc("holder_policy_version", "The newest policy version that a holder has installed for everything it holds of this broker's shards.", "holder")
	o.descs.behind = desc("holder_grants_behind", "Live grants of a holder under an older policy than is in force, of this broker's shards.", "holder")
	o.descs.memberUp = desc("etcd_member_up", "1 if the member of etcd answered this broker and had no problem; else 0.", "member")
	o.descs.size = desc("etcd_size_bytes", "Size of an etcd member's database.", "member")
	o.descs.quota = desc("etcd_quota_bytes", "What an etcd member's database may grow to. Beyond it etcd takes no writes.", "member")
	o.descs.alarm = desc("etcd_alarm", "1 for each alarm that etcd has raised, such as NOSPACE.", "alarm")
	return o
}

// Describe implements prometheus.Collector.
func (o *observer) Describe(out chan<- *prometheus.Desc) {
	d := &o.descs
	for _, desc := range []*prometheus.Desc{d.reserved, d.orphaned, d.grants, d.roundTrip, d.policies, d.version, d.behind, d.memberUp, d.size, d.quota, d.alarm} {
		out <- desc
	}
	o.failures.Describe(out)
}

// Collect implements prometheus.Collector.
func (o *observer) Collect(out chan<- prometheus.Metric) {
	seen := o.current()
	o.failures.Collect(out)
	if seen == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for region, c := range seen.regions {
		gauge(o.descs.reserved, c.reserved, region)
		gauge(o.descs.orphaned, c.orphaned, region)
		gauge(o.descs.grants, c.liveGrants, region, "live")
		gauge(o.descs.grants, c.orphanedGrants, region, "orphaned")
	}
	for region, took := range seen.trips {
		out <- prometheus.MustNewConstMetric(o.descs.roundTrip, prometheus.GaugeValue, took.Seconds(), region)
	}
	gauge(o.descs.policies, seen.version)
	for _, h := range seen.told() {
		version, behind := seen.version, int64(0)
		if l := seen.holders[h]; l != nil {
			version, behind = l.missing-1, l.live
		}
		gauge(o.descs.version, version, h.String())
		gauge(o.descs.behind, behind, h.String())
	}
	if seen.store == nil {
		return
	}
	for _, m := range seen.store.Members {
		gauge(o.descs.memberUp, asGauge(m.Reached && m.Problem == ""), m.Name)
		gauge(o.descs.size, m.SizeBytes, m.Name)
		gauge(o.descs.quota, m.QuotaBytes, m.Name)
	}
	for _, alarm := range seen.store.Alarms {
		gauge(o.descs.alarm, 1, alarm)
	}
}

// told are the holders that have series: those that lag most first, as many as may.
func (seen *observation) told() []lease.Holder {
	behind := func(h lease.Holder) int64 {
		if l := seen.holders[h]; l != nil {
			return l.live
		}
		return 0
	}
	all := slices.SortedFunc(maps.Keys(seen.holders), func(a, b lease.Holder) int {
		return cmp.Or(cmp.Compare(behind(b), behind(a)), a.Compare(b))
	})
	return all[:min(len(all), maxObservedHolders)]
}

func asGauge(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// current is the newest reading: of now, if one is due and is done in time.
func (o *observer) current() *observation {
	limit := o.b.cfg.Clock.Timer(observeWait)
	defer limit.Stop()
	for range 2 { // one may be on its way from before something was resolved
		select {
		case <-o.begin():
		case <-limit.C:
		}
		if !o.b.obs.resolved.Load() {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen
}

// begin starts a reading if one is due, and tells the end of the one that is on its
// way; closed already for none.
func (o *observer) begin() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reading != nil {
		return o.reading
	}
	done := make(chan struct{})
	if o.seen != nil && o.b.cfg.Clock.Mono()-o.at < observeShare*o.took && !o.b.obs.resolved.Load() {
		close(done)
		return done
	}
	o.b.obs.resolved.Store(false)
	o.reading = done
	go o.read(done) // ends within observeTimeout
	return done
}

func (o *observer) read(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), observeTimeout)
	defer cancel()
	began := o.b.cfg.Clock.Mono()
	seen, err := o.b.observe(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = o.b.cfg.Clock.Mono()
	o.took = o.at - began
	if err != nil {
		o.failures.Inc()
		o.b.cfg.Logger.Debug("the store cannot be read for metrics", "error", err)
	} else {
		o.seen = seen
	}
	o.reading = nil
	close(done)
}

// observe reads what the metrics tell.
func (b *Broker) observe(ctx context.Context) (*observation, error) {
	v := b.view(ctx)
	cluster, err := v.era()
	if err != nil {
		return nil, err
	}
	set, err := v.policySet()
	if err != nil {
		return nil, err
	}
	seen := &observation{regions: map[string]*credit{}, trips: map[string]time.Duration{}, holders: map[lease.Holder]*lag{}, version: set.Version}
	for h, took := range b.heardHere(ctx).trips {
		seen.trips[h.Region] = max(seen.trips[h.Region], took)
	}
	seen.trips = shownRegions(seen.trips, func(a, b time.Duration) time.Duration { return max(a, b) })
	walk := newPolicyWalk(v, set, set.Version)
	for id := range b.ownership.serving() {
		if err := v.observeGrants(id, seen); err != nil {
			return nil, err
		}
		if cluster.Unknown() {
			err = v.observeUnknown(id, seen)
		} else {
			err = walk.shard(id)
		}
		if err != nil {
			return nil, err
		}
	}
	seen.regions = shownRegions(seen.regions, (*credit).plus)
	maps.Copy(seen.holders, walk.lags)
	if teller, ok := b.cfg.Store.(store.HealthTeller); ok {
		hctx, cancel := context.WithTimeout(ctx, peerPatience)
		defer cancel()
		health := teller.Health(hctx)
		seen.store = &health
	}
	return seen, nil
}

// observeGrants adds up a shard's grants.
func (v *view) observeGrants(id uint32, seen *observation) error {
	return v.each(v.b.layout.Grants(id), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Grant](kv)
		if err != nil {
			return err
		}
		if earlier, err := v.earlier(r); err != nil || earlier {
			return err
		}
		g, err := v.grant(r)
		if err != nil {
			return err
		}
		c := seen.credit(r.Region)
		c.reserved += g.GetOutstandingTokens()
		if g.GetState() == pb.GrantState_GRANT_STATE_ORPHANED {
			c.orphaned += g.GetOutstandingTokens()
			c.orphanedGrants++
			return nil
		}
		c.liveGrants++
		h := lease.Holder{Region: r.Region, Instance: r.Instance}
		if _, known := seen.holders[h]; !known {
			seen.holders[h] = nil
		}
		return nil
	})
}

// observeUnknown adds what a restore that is not attested leaves unknown.
func (v *view) observeUnknown(id uint32, seen *observation) error {
	return v.each(v.b.layout.Budgets(id), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Budget](kv)
		if err != nil {
			return err
		}
		_, unknown, err := v.inForce(id, r)
		if err != nil || unknown == nil {
			return err
		}
		c := seen.credit(unknownRegion)
		c.reserved += unknown.GetOutstandingTokens()
		c.orphaned += unknown.GetOutstandingTokens()
		c.orphanedGrants++
		return nil
	})
}

// credit is that of a region.
func (seen *observation) credit(region string) *credit {
	c := seen.regions[region]
	if c == nil {
		c = &credit{}
		seen.regions[region] = c
	}
	return c
}

// plus adds up what two regions have out.
func (c *credit) plus(other *credit) *credit {
	return &credit{
		reserved: c.reserved + other.reserved, orphaned: c.orphaned + other.orphaned,
		liveGrants: c.liveGrants + other.liveGrants, orphanedGrants: c.orphanedGrants + other.orphanedGrants,
	}
}

// shownRegions tells as many regions apart as may be, the first by name, so that a
// series does not come and go, and joins the others. What is of no region stays.
func shownRegions[T any](all map[string]T, join func(a, b T) T) map[string]T {
	shown, named := map[string]T{}, 0
	for _, region := range sortedKeys(all) {
		name := region
		switch {
		case region == unknownRegion:
		case named >= maxObservedRegions:
			name = otherRegions
		default:
			named++
		}
		of := all[region]
		if before, joined := shown[name]; joined {
			of = join(before, of)
		}
		shown[name] = of
	}
	return shown
}
