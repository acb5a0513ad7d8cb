package decisionlog

import (
	"encoding/json"

	"github.com/tokenlease/tokenlease/regional/tally"
)

// maxBatch is how much is written at once, in bytes.
const maxBatch = 64 << 10

// run is the writer. It waits for entries, and writes all that are there.
func (l *Log) run() {
	defer close(l.stopped)
	defer l.file.close()
	for {
		select {
		case e := <-l.queue:
			l.drain(&e)
		case <-l.stop:
			l.drain(nil)
			return
		}
	}
}

// drain writes first, and what waits behind it.
func (l *Log) drain(first *stamped) {
	var batch []byte
	lines := 0
	add := func(e *stamped) {
		batch = append(batch, l.encode(e)...)
		if lines++; len(batch) >= maxBatch {
			l.write(batch, lines)
			batch, lines = batch[:0], 0
		}
	}
	if first != nil {
		add(first)
	}
	for {
		select {
		case e := <-l.queue:
			add(&e)
			continue
		default:
		}
		break
	}
	l.write(batch, lines)
}

// write appends lines, or loses them. What was lost before is told first.
func (l *Log) write(batch []byte, lines int) {
	lost := l.lost.Load()
	if lost > l.told {
		batch = append(l.line(Line{What: Lost, Lost: lost - l.told}), batch...)
	}
	if len(batch) == 0 {
		return
	}
	if err := l.file.append(batch, l.line(Line{What: Begin})); err != nil {
		l.lost.Add(uint64(lines))
		if !l.ill {
			l.cfg.Logger.Error("the decision log cannot be written: decisions go on, and are lost to it", "file", l.cfg.Path, "error", err)
		}
		l.ill = true
		return
	}
	l.told = lost
	l.lines.Add(float64(lines))
	if l.ill {
		l.ill = false
		l.cfg.Logger.Info("the decision log is written again", "file", l.cfg.Path, "lost", lost)
	}
}

// line is a line of this log that is of no decision.
func (l *Log) line(of Line) []byte {
	of.Time, of.MonoNs = l.cfg.Now().UTC(), int64(l.cfg.Mono())
	return l.marshal(of)
}

func (l *Log) marshal(of Line) []byte {
	of.Log, of.Region, of.Instance, of.Sample = l.id, l.cfg.Region, l.cfg.Instance, l.cfg.Sample
	text, err := json.Marshal(of)
	if err != nil { // a time beyond the year 9999
		l.cfg.Logger.Error("a line of the decision log cannot be written", "error", err)
		return nil
	}
	return append(text, '\n')
}

func (l *Log) encode(e *stamped) []byte {
	line := Line{
		What: e.What, Order: e.order, Time: e.at.UTC(), MonoNs: int64(e.mono), Epoch: e.Epoch,
		Account: e.Key.Account, Operation: e.Key.Operation, Cost: e.Cost, Returned: e.Returned,
		Allowed: e.Allowed, Shadow: e.Shadow, Replayed: e.Replayed, TookNs: int64(max(0, e.Took)),
		Grant: e.GrantID, DecisionHash: HashID(e.DecisionID), Part: e.Part, Parts: e.Parts,
		ReservationHash: HashID(e.ReservationID), HoldNs: int64(max(0, e.Hold)),
	}
	if e.What == Decision {
		line.Reason = tally.Label(e.Reason)
	}
	if e.Policy != nil {
		rule := e.Policy.Rule
		line.Rule, line.PolicyVersion, line.PolicyUnixMs = &rule, rule.Version, e.Policy.UpdatedUnixMs
	}
	return l.marshal(line)
}
