package strategies

import (
	"strconv"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/simulations/measure"
	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// build makes the limiters, the brokers and the links of the scenario.
func (w *world) build() {
	count := 0
	for i := range w.sc.Regions {
		r := &w.sc.Regions[i]
		var region []*limiter
		for n := range r.Limiters {
			region = append(region, &limiter{
				machine: machine{node: node(count), clock: clock{slow: r.Clock.SlowPercent}},
				region:  i, holder: lease.Holder{Region: r.Name, Instance: strconv.Itoa(n + 1)},
			})
			count++
		}
		w.limiters = append(w.limiters, region)
	}
	w.net = newNetwork(count, len(w.sc.Brokers))
	for i := range w.sc.Brokers {
		w.brokers = append(w.brokers, &broker{
			machine: machine{node: w.net.broker(i), clock: clock{slow: w.sc.Brokers[i].Clock.SlowPercent}},
			index:   i, alive: true,
		})
		for r, region := range w.limiters {
			for _, l := range region {
				w.net.link(l.node, w.net.broker(i)).delay = w.sc.Regions[r].RoundTrip
				w.net.link(w.net.broker(i), l.node).delay = w.sc.Regions[r].RoundTrip
			}
		}
	}
	for _, exception := range w.sc.Links {
		w.between(exception.Ends, false, func(l *link) { l.delay = exception.RoundTrip })
	}
}

// plan plans a fault and its end.
func (w *world) plan(f *scenario.Fault) {
	if f.Kind == scenario.Restore {
		restore := func() {}
		w.at(f.At-f.Age, func() { restore = w.strategy.backup() })
		w.at(f.At, func() { restore() })
		return
	}
	end, ok := measure.End(f)
	if !ok {
		end = never
	}
	w.at(f.At, func() { w.begin(f, end) })
	if end > f.At {
		w.at(end, func() { w.finish(f) })
	}
}

// begin is what a fault does at its moment. What an operator attests, and what
// wall clocks say, matters to nobody here.
func (w *world) begin(f *scenario.Fault, end time.Duration) {
	switch f.Kind {
	case scenario.Cut:
		w.between(f.Ends, f.OneWay, func(l *link) { l.cuts++ })
	case scenario.Mess:
		w.between(f.Ends, false, func(l *link) { l.mess = append(l.mess, f) })
	case scenario.Pause, scenario.Freeze:
		w.pause(f, end)
	case scenario.Crash, scenario.Stop:
		limiters, brokers := w.targets(f.Target)
		for _, l := range limiters {
			w.quit(l, f.Kind == scenario.Stop)
		}
		for _, b := range brokers {
			b.alive, b.serving = false, false
		}
	case scenario.Zombie:
		limiters, _ := w.targets(f.Target)
		for _, l := range limiters {
			w.start(l)
		}
	case scenario.Expire:
		_, brokers := w.targets(f.Target)
		w.expire(brokers, f.For)
	case scenario.StoreIs:
		if f.Trouble == scenario.Outage {
			w.outages++
		}
	case scenario.Policy:
		w.setPolicy(f.Policy)
	case scenario.Restore, scenario.Attest, scenario.Wall:
	}
}

// finish is the end of a fault that lasted.
func (w *world) finish(f *scenario.Fault) {
	switch f.Kind {
	case scenario.Cut:
		w.between(f.Ends, f.OneWay, func(l *link) { l.cuts-- })
	case scenario.Mess:
		w.between(f.Ends, false, func(l *link) { l.tidy(f) })
	case scenario.Crash, scenario.Stop:
		limiters, brokers := w.targets(f.Target)
		for _, l := range limiters {
			w.start(l)
		}
		for _, b := range brokers {
			b.alive = true
		}
	case scenario.StoreIs:
		if f.Trouble == scenario.Outage {
			w.outages--
		}
	case scenario.Pause, scenario.Freeze, scenario.Zombie, scenario.Expire, scenario.Restore, scenario.Policy,
		scenario.Attest, scenario.Wall:
	}
}

// pause lets machines stand still, and their clocks too if they freeze. An
// outdated broker goes on with what had arrived before it notices.
func (w *world) pause(f *scenario.Fault, until time.Duration) {
	limiters, brokers := w.targets(f.Target)
	var machines []*machine
	for _, l := range limiters {
		machines = append(machines, &l.machine)
	}
	for _, b := range brokers {
		machines = append(machines, &b.machine)
		if until < never {
			w.at(until+lag, func() { w.notice(b) })
		}
	}
	for _, m := range machines {
		m.resumes = max(m.resumes, until)
		if f.Kind == scenario.Freeze {
			m.clock.sleep(w.now, until)
		}
	}
}

// targets are the machines that a name means.
func (w *world) targets(name string) (limiters []*limiter, brokers []*broker) {
	p, _ := w.sc.Party(name)
	for _, l := range p.Limiters {
		limiters = append(limiters, w.limiters[l.Region][l.Index])
	}
	for _, b := range p.Brokers {
		brokers = append(brokers, w.brokers[b])
	}
	return limiters, brokers
}
