package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

func grantName(i int) string { return fmt.Sprintf("grant-%05d", i) }

func byGrant(a, b Drawn) int { return strings.Compare(a.GrantID, b.GrantID) }

// model is a journal in plain maps.
type model struct {
	last, current uint64
	epochs        map[uint64]*modelEpoch
}

type modelEpoch struct {
	counter uint64
	drawn   map[string]int64
}

func (m *model) draw(epoch uint64, draws []Drawn) error {
	e := m.epochs[epoch]
	if e == nil || epoch != m.current {
		return ErrEpoch
	}
	next := map[string]int64{}
	for _, d := range draws {
		old, ok := next[d.GrantID]
		if !ok {
			old = e.drawn[d.GrantID]
		}
		if d.Tokens < old {
			return ErrBackwards
		}
		next[d.GrantID] = d.Tokens
	}
	maps.Copy(e.drawn, next)
	e.counter++
	return nil
}

func (m *model) forget(epoch uint64, ids []string) error {
	e := m.epochs[epoch]
	if e == nil {
		return ErrEpoch
	}
	n := len(e.drawn)
	for _, id := range ids {
		delete(e.drawn, id)
	}
	if len(e.drawn) < n {
		e.counter++
	}
	return nil
}

func (m *model) begin(epoch uint64) error {
	if epoch <= m.last {
		return ErrBackwards
	}
	m.last, m.current = epoch, epoch
	m.epochs[epoch] = &modelEpoch{counter: 1, drawn: map[string]int64{}}
	return nil
}

// compare checks all that the journal shows against the model.
func (m *model) compare(t *testing.T, j *Journal) {
	t.Helper()
	epochs, err := j.Epochs()
	must(t, err)
	want := len(m.epochs)
	if m.epochs[m.current] != nil {
		want--
	}
	if len(epochs) != want || j.LastEpoch() != m.last {
		t.Fatalf("%d epochs up to %d, want %d up to %d", len(epochs), j.LastEpoch(), want, m.last)
	}
	for _, e := range epochs {
		w := m.epochs[e.Number]
		if w == nil || e.Counter != w.counter || len(e.Drawn) != len(w.drawn) {
			t.Fatalf("epoch %v, want %v", e, w)
		}
		for _, d := range e.Drawn {
			if tokens, ok := w.drawn[d.GrantID]; !ok || tokens != d.Tokens {
				t.Fatalf("epoch %d: %v, want %d", e.Number, d, tokens)
			}
		}
	}
	for number, w := range m.epochs {
		if counter, err := j.Counter(number); counter != w.counter || err != nil {
			t.Fatalf("epoch %d has counter %d, %v, want %d", number, counter, err, w.counter)
		}
	}
}

// TestAgainstModel runs random calls, restarts among them, on a journal and on the model.
func TestAgainstModel(t *testing.T) {
	for s := *seed; s < *seed+5; s++ {
		t.Run(fmt.Sprintf("journal.seed=%d", s), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, 2))
			cfg := testConfig(t)
			j := mustOpen(t, cfg)
			must(t, j.BindCluster("cluster-1"))
			m := &model{epochs: map[uint64]*modelEpoch{}}
			for step := range 300 {
				if rng.IntN(25) == 0 {
					must(t, j.Close())
					j, m.current = mustOpen(t, cfg), 0
				}
				got, want := randomCall(rng, j, m)
				if !errors.Is(got, want) {
					t.Fatalf("step %d: %v, want %v", step, got, want)
				}
				m.compare(t, j)
			}
		})
	}
}

// randomCall makes one call on both and returns both errors.
func randomCall(rng *rand.Rand, j *Journal, m *model) (got, want error) {
	epoch := m.last - min(m.last, uint64(rng.IntN(3)))
	switch rng.IntN(12) {
	case 0:
		epoch += uint64(rng.IntN(3))
		return j.Begin(epoch, "n"), m.begin(epoch)
	case 1:
		if m.last == 0 {
			return nil, nil
		}
		delete(m.epochs, epoch)
		return j.Finish(epoch), nil
	case 2, 3:
		ids := []string{grantName(rng.IntN(40)), grantName(rng.IntN(40))}
		return j.Forget(epoch, ids), m.forget(epoch, ids)
	default:
		var draws []Drawn
		for range 1 + rng.IntN(8) {
			id := grantName(rng.IntN(40))
			draws = append(draws, Drawn{id, int64(rng.IntN(20))})
			if e := m.epochs[epoch]; e != nil && rng.IntN(8) > 0 {
				draws[len(draws)-1].Tokens += e.drawn[id] + int64(len(draws))*20
			}
		}
		_, got = j.Draw(epoch, draws)
		return got, m.draw(epoch, draws)
	}
}
