package simulations

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// History names a run of a swarm: that of a seed, or a part of it.
type History struct {
	Seed uint64 // draws the world
	Run  uint64 // draws what happens in it
	// The first so many sites, budgets and brokers; 0: all.
	Sites, Budgets, Brokers int
	Until                   time.Duration // faults end then; 0: when the seed says
	Keep                    []int         // the faults that stay, by number; nil: all
}

// Config is the configuration of the run.
func (h History) Config() Config {
	cfg := Draw(h.Seed)
	cfg.Replay = fmt.Sprintf("tokenlease simulate --history '%s'", h)
	cfg.Seed = h.Run
	if h.Sites > 0 {
		n := min(h.Sites, len(cfg.Journals))
		cfg.Journals, cfg.Greedy = cfg.Journals[:n], cfg.Greedy[:n]
	}
	if h.Budgets > 0 {
		cfg.Policies = cfg.Policies[:min(h.Budgets, len(cfg.Policies))]
	}
	if h.Brokers > 0 {
		cfg.Brokers = min(h.Brokers, cfg.Brokers)
	}
	if h.Until > 0 {
		cfg.Chaos = min(h.Until, cfg.Chaos)
	}
	cfg.Keep = h.Keep
	return cfg
}

// size is how many nodes and budgets there are.
func (h History) size() int {
	cfg := h.Config()
	return len(cfg.Journals) + len(cfg.Policies) + cfg.Brokers
}

// String is what ParseHistory reads.
func (h History) String() string {
	parts := []string{fmt.Sprintf("seed=%d", h.Seed)}
	if h.Run != h.Seed {
		parts = append(parts, fmt.Sprintf("run=%d", h.Run))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"sites", h.Sites}, {"budgets", h.Budgets}, {"brokers", h.Brokers}} {
		if n.value > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", n.name, n.value))
		}
	}
	if h.Until > 0 {
		parts = append(parts, fmt.Sprintf("until=%v", h.Until))
	}
	if h.Keep != nil {
		parts = append(parts, "keep="+formatKeep(h.Keep))
	}
	return strings.Join(parts, " ")
}

// formatKeep writes numbers in order, runs of them as "3-7".
func formatKeep(keep []int) string {
	var parts []string
	for i := 0; i < len(keep); {
		last := i
		for last+1 < len(keep) && keep[last+1] == keep[last]+1 {
			last++
		}
		part := strconv.Itoa(keep[i])
		if last > i {
			part += "-" + strconv.Itoa(keep[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}

// exampleHistory is in messages.
const exampleHistory = "seed=3 until=12.5s keep=4,17"

// ParseHistory reads the form of String. Its error says what would be right.
func ParseHistory(text string) (History, error) {
	var h History
	seen := map[string]bool{}
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		if seen[name] {
			return h, fmt.Errorf("%s stands twice in a history: remove one", name)
		}
		seen[name] = true
		if err := h.set(name, value); err != nil {
			return h, fmt.Errorf("%.60q %w", part, err)
		}
	}
	if h.Seed == 0 {
		return h, fmt.Errorf("a history without a seed: want one such as %q", exampleHistory)
	}
	if !seen["run"] {
		h.Run = h.Seed
	}
	return h, nil
}

// set reads one part.
func (h *History) set(name, value string) (err error) {
	switch name {
	case "seed":
		if value != "0" { // which is none
			h.Seed, err = wholeNumber(value, math.MaxUint64)
		}
	case "run":
		h.Run, err = wholeNumber(value, math.MaxUint64)
	case "sites":
		h.Sites, err = smallNumber(value)
	case "budgets":
		h.Budgets, err = smallNumber(value)
	case "brokers":
		h.Brokers, err = smallNumber(value)
	case "until":
		if h.Until, err = time.ParseDuration(value); err != nil || h.Until <= 0 {
			err = errors.New("in a history: want a length of time above 0, such as 12.5s")
		}
	case "keep":
		h.Keep, err = parseKeep(value)
	default:
		err = fmt.Errorf("is not part of a history: want seed, run, sites, budgets, brokers, until and keep, such as %q", exampleHistory)
	}
	return err
}

// wholeNumber reads a plain number from 1 on.
func wholeNumber(text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < 1 || n > most || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("in a history: want a whole number from 1 to %d, not %.40q", most, text)
	}
	return n, nil
}

// smallNumber reads one that counts things.
func smallNumber(text string) (int, error) {
	n, err := wholeNumber(text, maxSteps)
	return int(n), err
}

// parseKeep reads numbers and runs of them. There may be none.
func parseKeep(value string) ([]int, error) {
	keep := []int{}
	if value == "" {
		return keep, nil
	}
	for field := range strings.SplitSeq(value, ",") {
		from, to, isRange := strings.Cut(field, "-")
		first, err := smallNumber(from)
		last := first
		if err == nil && isRange {
			last, err = smallNumber(to)
		}
		switch {
		case err != nil:
			return nil, err
		case last < first:
			return nil, fmt.Errorf("in a history: want %d-%d instead of %s", last, first, field)
		}
		for n := first; n <= last; n++ {
			keep = append(keep, n)
		}
	}
	slices.Sort(keep)
	return slices.Compact(keep), nil
}

// rule is what a failure is about, without its names and figures: its first
// words.
func rule(what string) string {
	var words []string
	for word := range strings.FieldsSeq(what) {
		if !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsDigit(r) || r == '/' || r == '"' }) {
			words = append(words, word)
		}
		if len(words) == 6 {
			break
		}
	}
	return strings.Join(words, " ")
}
