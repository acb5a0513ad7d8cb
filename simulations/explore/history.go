package explore

import (
	"fmt"
	"slices"
	"strings"
)

// history replays the events that lead to the last one, and tells them.
func (x *explorer) history(last parent) []string {
	steps := []parent{last}
	for steps[0].state != 0 {
		steps = append([]parent{x.parents[steps[0].state]}, steps...)
	}
	s, err := x.initial()
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for i, step := range steps {
		ordinal := uint16(0)
		var after state
		var e event
		x.events(s, func(candidate event) {
			if ordinal == step.ordinal {
				e = candidate
			}
			ordinal++
		})
		after, _, _ = x.happen(s, e)
		lines = append(lines, fmt.Sprintf("%3d. %s\n       (%s)", i+1, e.text(s, &after), after.held()))
		s = &after
	}
	return lines
}

// text tells the event, with what it led to.
func (e event) text(before, after *state) string {
	who := slotName(e.slot)
	switch e.kind {
	case checks:
		outcome := "finds too little credit"
		if after.judge != before.judge {
			outcome = "is admitted"
		}
		return fmt.Sprintf("%s: a check of %d %s", who, e.cost, outcome)
	case wakes:
		return who + ": does what is due"
	case hinted:
		return who + ": is hinted to sync"
	case stops:
		return who + ": is asked to stop"
	case answered:
		return fmt.Sprintf("%s: takes %s", who, e.message.text())
	case givesUp:
		return fmt.Sprintf("%s: gives up waiting for request %d", who, e.id)
	case written:
		return who + ": its journal write is durable"
	case writeFails:
		return fmt.Sprintf("%s: its journal write fails, on disk: %v", who, e.durable)
	case crashes:
		from := "on the same disk"
		switch {
		case e.disk < 0:
			from = "on a fresh disk"
		case e.disk > 0:
			from = fmt.Sprintf("on copy %d of the disk", e.disk)
		}
		return fmt.Sprintf("%s: crashes (its write on disk: %v), and another starts %s", who, e.durable, from)
	case rivals:
		return fmt.Sprintf("another process starts on a fresh disk, while %s lives on", who)
	case serves:
		parts := []string{fmt.Sprintf("%s: takes %s", ownerName(int(e.n)), e.message.text()), e.fate.String()}
		for _, m := range after.pool.all {
			if m.resp != nil && !slices.Contains(before.pool.all, m) {
				parts = append(parts, "sends "+m.text())
			}
		}
		return strings.Join(parts, "; ")
	case alone:
		return ownerName(int(e.n)) + ": does what is due"
	case attests:
		return fmt.Sprintf("%s: an operator resolves %v", ownerName(int(e.n)), e.grant)
	case hearsPolicy:
		return ownerName(int(e.n)) + ": reads the policies"
	case writesPolicy:
		return fmt.Sprintf("version %d of the policy is written", after.used.versions)
	case appliesLate:
		return "a late commit reaches the store"
	case failsOver:
		return ownerName(int(e.n)) + " takes the shard over; the old one lives on"
	case ticks:
		return fmt.Sprintf("it is %v", at(after.used.ticks))
	case starts, kinds:
	}
	return "?"
}

// held tells what is where, after an event.
func (s *state) held() string {
	parts := []string{"nothing stored"}
	if l := s.store.kept.ledger; s.store.kept.exists && l != nil {
		parts[0] = fmt.Sprintf("available %d, reserved %d of %d", l.Available, l.Reserved(), l.Rule.Capacity)
	}
	for i, p := range s.procs {
		if p != nil && p.grant != "" {
			parts = append(parts, fmt.Sprintf("%s has %d of %s", slotName(uint8(i)), p.unspent, p.grant))
		}
	}
	return strings.Join(parts, "; ")
}
