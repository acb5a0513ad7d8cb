package strategies

import (
	"slices"
	"time"

	"github.com/tokenlease/tokenlease/simulations/scenario"
)

// node is an end of the network: a limiter, a broker or the store.
type node int

// network is what lies between each two nodes, in each direction.
type network struct {
	limiters, brokers int
	links             []link // by sender, then by receiver
}

// link is one direction between two nodes.
type link struct {
	delay scenario.Delay // of a round trip
	cuts  int            // that are in force
	mess  []*scenario.Fault
}

func newNetwork(limiters, brokers int) network {
	n := network{limiters: limiters, brokers: brokers}
	n.links = make([]link, n.nodes()*n.nodes())
	return n
}

func (n *network) nodes() int        { return n.limiters + n.brokers + 1 }
func (n *network) broker(i int) node { return node(n.limiters + i) }
func (n *network) store() node       { return node(n.limiters + n.brokers) }

func (n *network) link(from, to node) *link { return &n.links[int(from)*n.nodes()+int(to)] }

// isCut says that messages in either direction are lost.
func (n *network) isCut(a, b node) bool { return n.link(a, b).cuts > 0 || n.link(b, a).cuts > 0 }

// send carries a message: perhaps never, perhaps twice, perhaps late. It is lost
// by a cut at either end of its way.
func (w *world) send(from, to node, receive func()) {
	l := w.net.link(from, to)
	if l.cuts > 0 {
		return
	}
	copies := 1
	for _, m := range l.mess {
		if w.percent(m.Loss) {
			return
		}
		if w.percent(m.Duplicate) {
			copies++
		}
	}
	for range copies {
		w.after(w.transit(l), func() {
			if l.cuts == 0 {
				receive()
			}
		})
	}
}

// transit draws how long a message takes.
func (w *world) transit(l *link) time.Duration {
	d := l.delay.Base / 2
	if l.delay.Jitter > 0 {
		d += time.Duration(w.rng.ExpFloat64()*float64(l.delay.Jitter)) / 2
	}
	for _, m := range l.mess {
		if w.percent(m.Late) {
			d += time.Duration(w.rng.Int64N(int64(m.Delay) + 1))
		}
	}
	return d
}

func (w *world) percent(p int) bool { return p > 0 && w.rng.IntN(100) < p }

// nodes are those that a name in the scenario means.
func (w *world) nodes(name string) []node {
	p, _ := w.sc.Party(name)
	var nodes []node
	for _, l := range p.Limiters {
		nodes = append(nodes, w.limiters[l.Region][l.Index].node)
	}
	for _, b := range p.Brokers {
		nodes = append(nodes, w.net.broker(b))
	}
	if p.Store {
		nodes = append(nodes, w.net.store())
	}
	return nodes
}

// between calls do for the links from the first end to the second, and back
// unless it is one way.
func (w *world) between(ends [2]string, oneWay bool, do func(l *link)) {
	for _, a := range w.nodes(ends[0]) {
		for _, b := range w.nodes(ends[1]) {
			do(w.net.link(a, b))
			if !oneWay {
				do(w.net.link(b, a))
			}
		}
	}
}

// tidy ends a mess of the link.
func (l *link) tidy(f *scenario.Fault) {
	l.mess = slices.DeleteFunc(l.mess, func(m *scenario.Fault) bool { return m == f })
}
