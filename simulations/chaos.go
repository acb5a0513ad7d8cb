package simulations

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
	"github.com/tokenlease/tokenlease/lease"
)

// chaos does one harmful thing now and then, of those that the run has.
func (w *World) chaos() {
	if w.healed {
		return
	}
	w.after(w.paced(20*time.Millisecond, 600*time.Millisecond, w.cfg.Pace), "chaos", "", 0, w.chaos)
	f := &w.cfg.Faults
	s := w.sites[w.rng.IntN(len(w.sites))]
	b := w.brokers[w.rng.IntN(len(w.brokers))]
	pace := 1
	if w.rng.IntN(4) == 0 {
		pace = w.cfg.Pace
	}
	pause := w.paced(10*time.Millisecond, 5*time.Second, pace)
	if w.cfg.Bounds.Most > 0 {
		pause *= time.Duration(1 + w.rng.IntN(4)) // beyond the bounds, at times
	}
	switch w.rng.IntN(16) {
	case 0:
		w.when(f.Crash, func() { w.anyProcess(s).crash() })
	case 1:
		w.when(f.Rival, s.rival)
	case 2:
		w.when(f.Stop && w.rng.IntN(2) == 0, func() { w.anyProcess(s).stop() })
	case 3:
		w.when(f.PauseHolder, func() { w.anyProcess(s).pause(pause, f.Freeze && w.rng.IntN(2) == 0) })
	case 4:
		w.when(f.PauseBroker, func() { b.pause(pause, f.Freeze && w.rng.IntN(2) == 0) })
	case 5:
		w.when(f.LoseSession, func() { b.loseSession(pause) })
	case 6:
		w.when(f.CrashBroker, func() { b.crash(pause, w.between(0, 3*time.Second)) })
	case 7:
		w.when(f.Cut, func() { s.cut(pause) })
	case 8:
		w.when(f.ChangePolicy, w.changePolicy)
	case 9:
		w.when(f.Attest, func() { w.attest(false) })
	case 10:
		w.when(f.Isolate, func() { b.isolate(pause) })
	case 11:
		w.when(f.Restore, w.restoreSome)
	case 12:
		w.when(f.StepWall, func() { w.stepWall(b, s) })
	default:
		w.release()
	}
	if s.current == nil || !s.current.alive {
		s.restartSoon()
	}
}

func (w *World) when(on bool, do func()) {
	if on && w.fault() {
		do()
	}
}

// isolate takes the store away from the broker, in one direction or both.
func (b *broker) isolate(d time.Duration) {
	n := b.w.net
	direction := b.w.rng.IntN(3)
	if direction != 1 {
		n.cut(b.node, n.store(), d)
	}
	if direction != 2 {
		n.cut(n.store(), b.node, d)
	}
}

// stepWall steps the wall clock of a broker, and where limiters go by theirs that of
// a site as well.
func (w *World) stepWall(b *broker, s *site) {
	skew := w.cfg.Faults.Skew
	b.clock.wall += w.between(-skew, skew+time.Minute)
	if w.cfg.Bounds.Most == 0 {
		return
	}
	step := w.between(-skew-time.Minute, skew+time.Minute)
	for _, p := range s.procs {
		p.clock.setWall(step)
	}
	c := s.newClock()
	c.setWall(step)
	s.wall = c.wall
}

// anyProcess is one of the site's living processes, mostly the current one. A
// dead one takes no harm.
func (w *World) anyProcess(s *site) *process {
	var living []*process
	for _, p := range s.procs {
		if p.alive {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return &process{w: w, site: s, clock: s.newClock()}
	}
	return living[w.rng.IntN(len(living))]
}

// changePolicy writes another version of some policy.
func (w *World) changePolicy() {
	at := w.rng.IntN(len(w.cfg.Policies))
	p := drawPolicy(w.rng, w.cfg.Policies[at].Operation, w.cfg.Kinds)
	w.cfg.Bounds.put(w.rng, &p)
	p.Rule.Version = w.cfg.Policies[at].Rule.Version + 1
	w.SetPolicy(at, p)
}

// SetPolicy puts a new version of a policy in force, and hints the brokers.
func (w *World) SetPolicy(at int, p lease.Policy) {
	w.stats.Policies++
	w.cfg.Policies = slices.Clone(w.cfg.Policies)
	w.cfg.Policies[at] = p
	for key, rule := range w.rules {
		w.slotted[key] = w.slotted[key] || rule == at && p.Rule.Kind == lease.Concurrency
	}
	if w.stage != nil {
		w.stage.record.Policy(w.now, p)
	} else {
		w.judges[at].Written(w.now, p.Rule)
	}
	w.putPolicy(p)
	w.hintPolicies()
}

func (w *World) hintPolicies() {
	for _, b := range w.brokers {
		w.deliver(w.net.store(), b.node, "policies", b.name, 0, func() {
			for _, o := range b.owners {
				if o != nil {
					o.sh.PoliciesChanged()
					o.soon()
				}
			}
		})
	}
}

func (w *World) putPolicy(p lease.Policy) {
	txn := store.Txn{Then: []store.Op{{Kind: store.OpPut, Key: w.layout.Policy(p.Operation), Value: record.Encode(p)}}}
	if err := p.Validate(); err != nil {
		w.failf("policy: %v", err)
	}
	if _, err := w.store.Apply(txn); err != nil {
		w.failf("policy: %v", err)
	}
}

// attest is the operator: all grants of epochs whose process is dead, or one of
// them, are resolved.
func (w *World) attest(all bool) {
	dead := slices.DeleteFunc(w.sortedGrants(), func(g record.Grant) bool { return !w.gone(g) })
	if len(dead) > 0 && !all {
		at := w.rng.IntN(len(dead))
		dead = dead[at : at+1]
	}
	w.attestGrants(dead)
}

// attestSite resolves the grants of a site's dead epochs.
func (w *World) attestSite(s *site) {
	w.attestGrants(slices.DeleteFunc(w.sortedGrants(), func(g record.Grant) bool {
		return !w.gone(g) || g.Region != s.holder.Region || g.Instance != s.holder.Instance
	}))
}

// attestGrants resolves grants. An epoch that is still the current one is retired
// first.
func (w *World) attestGrants(dead []record.Grant) {
	for _, g := range dead {
		w.stats.Attested++
		h := lease.Holder{Region: g.Region, Instance: g.Instance}
		w.retire(h, g.Epoch)
		w.resolve(g)
	}
}

// resolve sends an attestation to whoever serves the shard.
func (w *World) resolve(g record.Grant) {
	id, err := lease.ParseGrantID(g.ID)
	if err != nil {
		w.failf("%v", err)
		return
	}
	b := w.route(id.Shard)
	w.deliver(b.node, b.node, "resolve", g.ID, 0, func() {
		if o := b.owners[id.Shard]; o != nil && !b.paused() {
			o.sh.Resolve(shard.Resolution{GrantID: id, Key: g.Key(), Word: record.Audit{By: "operator", Because: "the machine is gone"}}, func(shard.Resolved, error) {})
			o.soon()
		}
	})
}

// gone says that no process of the grant's epoch runs or can ever resume, and that
// the work which holds slots of it has ended.
func (w *World) gone(g record.Grant) bool {
	for _, p := range w.processesOf(g) {
		if p.alive || p.inUse(slices.Index(w.keys, g.Key())) > 0 {
			return false
		}
	}
	return true
}

func (w *World) processesOf(g record.Grant) []*process {
	var ps []*process
	for _, s := range w.sites {
		for _, p := range s.procs {
			if s.holder.Region == g.Region && s.holder.Instance == g.Instance && p.epoch == g.Epoch {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// sortedGrants are all grants in the store, in order of their keys.
func (w *World) sortedGrants() []record.Grant {
	keys := make([]string, 0, len(w.mirror.grants))
	for key := range w.mirror.grants {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	grants := make([]record.Grant, len(keys))
	for i, key := range keys {
		grants[i] = w.mirror.grants[key]
	}
	return grants
}
