package simulations

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/holder"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/workload"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Strategy is the name of the real code among the strategies that are compared.
const Strategy = "tokenlease"

// sessionTTL is how long a broker may be silent before others take its shards:
// the default of package broker.
const sessionTTL = 5 * time.Second

// Playing says how a scenario is run.
type Playing struct {
	Seed uint64 // 0: the scenario's own
	// Note, if set, is told what messages and transactions say.
	Note func(at time.Duration, text string)
	// Hooks are for tests.
	Hooks Hooks
}

// Play runs the real code through a scenario: its workload and its faults, and
// then, when everything has healed, the check that nothing stays reserved for
// ever. The error is a *Failure, the first rule that was broken; the result is
// there in any case, and tells it too.
func Play(sc *scenario.Scenario, how Playing) (*measure.Result, error) {
	if how.Seed == 0 {
		how.Seed = sc.Seed
	}
	w := newStage(sc, how)
	_ = w.Run() // a failure stays with the world
	r := w.stage.measured
	r.Events, r.Hash = w.steps, fmt.Sprintf("%016x", w.hash)
	r.Lapsed = w.stats.LapsedOf
	if w.fail != nil {
		r.Broken = w.fail.Error()
	}
	return r, w.Err()
}

// stage is a scenario that is played in a world.
type stage struct {
	w        *World
	sc       *scenario.Scenario
	record   *measure.Recorder
	stream   *workload.Stream
	regions  [][]*site
	held     []int64 // by region, for samples
	sample   time.Duration
	arrived  int             // checks
	asked    int64           // requests to brokers
	measured *measure.Result // set when the scenario is over
}

// newStage is a world set up as the scenario says, at its first moment.
func newStage(sc *scenario.Scenario, how Playing) *World {
	cfg := Config{
		Seed: how.Seed, Brokers: len(sc.Brokers), Shards: sc.Shards, Policies: sc.Policies, Pace: 1,
		Chaos: sc.Duration, Note: how.Note, Hooks: how.Hooks,
		Replay: fmt.Sprintf("tokenlease simulate %s --seed %d", sc.File, how.Seed),
	}
	w := newWorld(cfg)
	st := &stage{
		w: w, sc: sc, record: measure.NewRecorder(sc, Strategy, how.Seed), stream: workload.New(sc, how.Seed),
		held: make([]int64, len(sc.Regions)),
	}
	w.stage, w.quiet = st, true
	for i, key := range workload.Keys(sc) {
		w.addKey(key, st.policy(key.Operation), st.record.Judge(i))
	}
	for _, p := range sc.Policies {
		w.putPolicy(p)
	}
	st.build()
	st.connect()
	for i := range sc.Faults {
		st.plan(&sc.Faults[i])
	}
	st.sample = max(time.Millisecond, st.record.Due()/5)
	w.after(0, "sample", "", 0, st.takeSample)
	st.next()
	return w
}

// policy is the place of an operation's policy.
func (st *stage) policy(operation string) int {
	for i, p := range st.sc.Policies {
		if p.Operation == operation {
			return i
		}
	}
	st.w.failf("no policy rules %s", operation)
	return 0
}

// build makes the sites and the brokers.
func (st *stage) build() {
	w := st.w
	limiters := 0
	for _, r := range st.sc.Regions {
		limiters += r.Limiters
	}
	w.net = newNetwork(w, limiters, len(st.sc.Brokers))
	w.net.mixed = false
	for i, b := range st.sc.Brokers {
		c := w.newClock()
		c.slow, c.wall = b.Clock.SlowPercent, b.Clock.Wall
		w.brokers = append(w.brokers, newBroker(w, i, b.Name, c))
		w.brokers[i].keepAlive()
	}
	for _, r := range st.sc.Regions {
		var region []*site
		for n := range r.Limiters {
			h := lease.Holder{Region: r.Name, Instance: strconv.Itoa(n + 1)}
			s := newSite(w, len(w.sites), h, holder.Journal(r.Journal), false)
			s.name = limiterName(r, n)
			s.slow, s.wall, s.wait = r.Clock.SlowPercent, r.Clock.Wall, r.Wait
			w.sites = append(w.sites, s)
			region = append(region, s)
		}
		st.regions = append(st.regions, region)
	}
}

func limiterName(r scenario.Region, n int) string {
	if r.Limiters == 1 {
		return r.Name
	}
	return fmt.Sprintf("%s/%d", r.Name, n+1)
}

// betweenBrokers is the round trip of brokers to one another.
const betweenBrokers = 2 * time.Millisecond

// connect sets the delays of all links.
func (st *stage) connect() {
	n := st.w.net
	for i := range st.w.brokers {
		b := n.broker(i)
		n.link(b, n.store()).delay, n.link(n.store(), b).delay = st.sc.Store, st.sc.Store
		for j := range st.w.brokers {
			n.link(b, n.broker(j)).delay = scenario.Delay{Base: betweenBrokers}
		}
		for r, region := range st.regions {
			for _, s := range region {
				trip := st.sc.Regions[r].RoundTrip
				n.link(s.node, b).delay, n.link(b, s.node).delay = trip, trip
			}
		}
	}
	for _, l := range st.sc.Links {
		st.each(l.Ends, func(a, b node) {
			n.link(a, b).delay, n.link(b, a).delay = l.RoundTrip, l.RoundTrip
		})
	}
}

// each calls do for each pair of nodes of two ends.
func (st *stage) each(ends [2]string, do func(a, b node)) {
	for _, a := range st.nodes(ends[0]) {
		for _, b := range st.nodes(ends[1]) {
			if a != b {
				do(a, b)
			}
		}
	}
}

// nodes are those that a name in a scenario means.
func (st *stage) nodes(name string) []node {
	var nodes []node
	if name == "store" {
		return []node{st.w.net.store()}
	}
	for _, s := range st.sites(name) {
		nodes = append(nodes, s.node)
	}
	for _, b := range st.brokers(name) {
		nodes = append(nodes, b.node)
	}
	return nodes
}

// sites are the limiters that a name means.
func (st *stage) sites(name string) []*site {
	var sites []*site
	for _, s := range st.w.sites {
		if s.holder.Region == name || s.holder.Region+"/"+s.holder.Instance == name {
			sites = append(sites, s)
		}
	}
	return sites
}

// brokers are those that a name means.
func (st *stage) brokers(name string) []*broker {
	var brokers []*broker
	for _, b := range st.w.brokers {
		if b.name == name || name == "brokers" {
			brokers = append(brokers, b)
		}
	}
	return brokers
}

// next schedules the next check of the workload.
func (st *stage) next() {
	a, ok := st.stream.Next()
	if !ok {
		return
	}
	s := st.regions[a.Region][a.Limiter]
	st.w.after(a.At-st.w.now, "arrival", s.name, int64(a.Key), func() {
		st.arrived++
		st.record.Arrived(a)
		st.ask(s, a)
		st.next()
	})
}

// ask brings a check to one of the site's living processes: while an outdated one
// runs beside the current one, clients find either.
func (st *stage) ask(s *site, a workload.Arrival) {
	var living []*process
	for _, p := range s.procs {
		if p.alive && p.mgr != nil {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		st.ended(a, measure.Unavailable)
		return
	}
	p := living[a.Index%len(living)]
	if p.paused() {
		st.w.after(p.resumes-st.w.now, "arrival", s.name, int64(a.Key), func() { st.ask(s, a) })
		return
	}
	c := &waiter{cost: a.Cost, until: st.w.now + s.wait, plan: plan{lasts: cmp.Or(a.Work, time.Second)}}
	c.done = func(reason pb.Reason) {
		if c.holds {
			st.holds(a)
		} else {
			st.ended(a, outcomeOf(reason))
		}
	}
	p.start(a.Key, c)
}

// holds records a check that was admitted to slots.
func (st *stage) holds(a workload.Arrival) {
	if st.w.healed {
		return
	}
	if err := st.record.Holds(a, st.w.now); err != nil {
		st.w.failf("%v", err)
	}
}

// ended records how a check has ended; the judge has a word on admissions.
func (st *stage) ended(a workload.Arrival, o measure.Outcome) {
	if st.w.healed {
		return
	}
	if err := st.record.Ended(a, st.w.now, o); err != nil && !st.w.restored {
		st.w.failf("%v at region %s: %v", st.w.keys[a.Key], st.sc.Regions[a.Region].Name, err)
	}
}

func outcomeOf(reason pb.Reason) measure.Outcome {
	switch reason {
	case pb.Reason_REASON_ALLOWED:
		return measure.Admitted
	case pb.Reason_REASON_EXHAUSTED:
		return measure.Exhausted
	case pb.Reason_REASON_COST_ABOVE_CAPACITY, pb.Reason_REASON_NO_POLICY, pb.Reason_REASON_INVALID:
		return measure.Refused
	case pb.Reason_REASON_UNSPECIFIED, pb.Reason_REASON_UNAVAILABLE:
	}
	return measure.Unavailable
}

// takeSample records where the credit is, again and again.
func (st *stage) takeSample() {
	w := st.w
	if w.healed {
		return
	}
	w.after(st.sample, "sample", "", 0, st.takeSample)
	b := measure.Balance{Held: st.held, Issued: w.mirror.issued}
	clear(st.held)
	for i, key := range w.keys {
		book := w.mirror.ledgers[key]
		if book == nil || !book.exists {
			st.unrecorded(&b, w.cfg.Policies[w.rules[i]].Rule)
			continue
		}
		l := book.ledger.Clone()
		l.Advance(lease.Time(w.now))
		b.Available += l.Available
		for _, g := range l.Grants {
			if region, live := st.holding(g); live {
				st.held[region] += g.Outstanding()
			} else {
				b.Unknown += g.Outstanding()
			}
		}
	}
	st.record.Balance(w.now, b)
}

// unrecorded adds a budget without a record: it is full, or after a restore
// unknown until that is attested, and then what refill has earned since.
func (st *stage) unrecorded(b *measure.Balance, rule lease.Rule) {
	switch e := st.w.era; {
	case e.generation == 1:
		b.Available += rule.Capacity
	case e.unknown:
		b.Unknown += rule.Capacity
	default:
		l := lease.NewSpent(lease.Key{}, rule, lease.Time(e.attested))
		l.Advance(lease.Time(st.w.now))
		b.Available += l.Available
	}
}

// holding is the region that a grant is held in, and whether by its current
// epoch, which lives.
func (st *stage) holding(g lease.Grant) (region int, live bool) {
	for r, sites := range st.regions {
		for _, s := range sites {
			if s.holder == g.Holder {
				p := s.serving()
				return r, p != nil && p.epoch == g.Epoch
			}
		}
	}
	return 0, false
}

// over takes what was measured, at the end of the scenario.
func (st *stage) over() {
	st.record.Synced(st.asked)
	r := st.record.Result(st.w.now)
	for _, b := range st.w.brokers {
		for _, o := range b.owners {
			if o != nil && o.sh.SetBack() {
				r.Stopped++
			}
		}
	}
	st.measured = r
}
