package holder

import (
	"math"
	"time"
)

// journalState is what the manager knows of its journal.
type journalState struct {
	counter uint64 // the write counter of the newest write that is durable
	writing []draw // on their way
	busy    bool
	queue   []draw   // for the next write
	forget  []string // grants that are gone
	unacked []draw   // durable, and not yet acknowledged by the broker (JournalConfirm)
}

// draw raises what the journal lets be spent of a grant.
type draw struct {
	k       *keyState
	grant   string
	tokens  int64
	counter uint64
}

// forgetBatch is how many grants that are gone are worth a journal write of
// their own.
const forgetBatch = 1000

// draw moves credit that the broker has issued to the hot path: without a
// journal all of it, else what the journal covers, and asks for more to be
// covered while the hot path is below half of what the region holds.
//
// The order is the safety argument: what the journal covers is durable before
// bound rises to it, and only bound lets the hot path spend. Nothing is moved once the bound
// on staleness has passed: somebody may have looked at the one before and not taken
// anything yet.
func (m *Manager) draw(k *keyState) {
	if k.grant == "" || k.broken || m.phase != running || k.undrawn() <= 0 || k.budget.Stale() {
		return
	}
	if m.cfg.Journal == JournalOff {
		m.admit(k, k.undrawn())
		return
	}
	count, sum, _ := k.budget.demand()
	target := max(sum, (k.free()+1)/2)
	lack := min(k.undrawn(), target-k.credit())
	if lack <= 0 || count == 0 && k.credit() >= (target+1)/2 {
		return
	}
	if covered := min(lack, k.drawn-k.bound); covered > 0 {
		m.admit(k, covered)
		lack -= covered
	}
	if lack > 0 && k.drawing <= k.drawn {
		k.drawing = k.bound + lack
		m.journal.queue = append(m.journal.queue, draw{k: k, grant: k.grant, tokens: k.drawing})
	}
}

// admit lets the hot path spend n more tokens of the grant. What the budget owes and
// has not told is paid of them first, which counts as spent.
func (m *Manager) admit(k *keyState, n int64) {
	k.bound += n
	k.publish() // before the credit has it: their sum is never above the truth
	k.budget.admit(n)
	k.budget.tell()
}

// journalWrite is the next write, if none is on its way and there is reason for
// one.
func (m *Manager) journalWrite() *JournalWrite {
	j := &m.journal
	if j.busy || m.cfg.Journal == JournalOff || len(j.queue) == 0 && len(j.forget) < forgetBatch || m.phase != running {
		return nil
	}
	w := &JournalWrite{Forget: j.forget}
	for _, d := range j.queue {
		if d.k.grant == d.grant {
			w.Draws = append(w.Draws, Draw{GrantID: d.grant, Tokens: d.tokens})
		}
	}
	j.writing, j.queue, j.forget, j.busy = j.queue, nil, nil, true
	return w
}

// Journaled takes the outcome of the journal write on its way. After an error
// the journal may hold either figure, so nothing of it is spent: the manager
// stops and hands in its exact account.
func (m *Manager) Journaled(counter uint64, err error) {
	j := &m.journal
	written := j.writing
	j.writing, j.busy = nil, false
	if err != nil {
		m.Stop()
		return
	}
	j.counter = max(j.counter, counter)
	for _, d := range written {
		d.counter = counter
		if m.cfg.Journal == JournalConfirm {
			j.unacked = append(j.unacked, d)
			d.k.shard.tellNow = true
			continue
		}
		m.cover(d)
	}
}

// acknowledged takes the write counter that a shard has recorded.
func (m *Manager) acknowledged(sh *shardState, counter uint64) {
	sh.counter = max(sh.counter, counter)
	keep := m.journal.unacked[:0]
	for _, d := range m.journal.unacked {
		if d.k.shard == sh && d.counter <= sh.counter {
			m.cover(d)
		} else {
			keep = append(keep, d)
		}
	}
	m.journal.unacked = keep
}

// cover lets the hot path have what the journal now covers.
func (m *Manager) cover(d draw) {
	if d.k.grant != d.grant || m.phase != running {
		return
	}
	d.k.drawn = max(d.k.drawn, d.tokens)
	m.draw(d.k)
	m.activate(d.k)
}

// closeGrant ends the budget's grant: the hot path is emptied first, so the
// counters are final.
func (m *Manager) closeGrant(k *keyState) {
	if k.grant == "" {
		return
	}
	k.shard.close(m.finalCounters(k))
	m.forgetGrant(k)
	m.stats.GrantsClosed++
}

// finalCounters takes the grant's credit out of the hot path for good, and is
// what was spent of it, and what is owed. Its holds lose their claim first, so nothing of them comes
// back after the credit was taken. What was held as tokens counts as spent; slots
// stay reserved at the broker, since the work may go on.
func (m *Manager) finalCounters(k *keyState) *closing {
	slots := k.budget.endHolds()
	k.bound -= slots
	k.bound -= k.budget.take(math.MaxInt64)
	k.tellOwed()
	return &closing{key: k.budget.Key, id: k.grant, held: slots, owed: k.owed, spent: k.bound, returned: k.returned}
}

// forgetGrant leaves the budget without a grant.
func (m *Manager) forgetGrant(k *keyState) {
	k.grant, k.issued, k.returned, k.bound, k.drawn, k.drawing = "", 0, 0, 0, 0, 0
	k.seen, k.out, k.sentSpent, k.sentReturned, k.sentHeld = 0, 0, 0, 0, 0
	k.budget.recorded(k.owed - k.knownOwed) // what ends the grant tells it, or has been told
	k.owed, k.sentOwed, k.knownOwed = 0, 0, 0
	k.publish()
}

// backoff is the pause after the n-th failure in a row.
func (m *Manager) backoff(n int) time.Duration {
	pause := m.cfg.RetryMin
	for i := 1; i < n && pause < m.cfg.RetryMax; i++ {
		pause *= 2
	}
	pause = min(pause, m.cfg.RetryMax)
	return pause/2 + time.Duration(float64(pause/2)*m.cfg.Jitter())
}
