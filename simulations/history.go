package simulations

import (
	"fmt"
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

// ParseHistory reads the form of String. Its error says what would be right.
func ParseHistory(text string) (History, error) {
	var h History
	run := false
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "seed":
			h.Seed, err = strconv.ParseUint(value, 10, 64)
		case "run":
			run = true
			h.Run, err = strconv.ParseUint(value, 10, 64)
		case "sites":
			h.Sites, err = strconv.Atoi(value)
		case "budgets":
			h.Budgets, err = strconv.Atoi(value)
		case "brokers":
			h.Brokers, err = strconv.Atoi(value)
		case "until":
			h.Until, err = time.ParseDuration(value)
		case "keep":
			h.Keep, err = parseKeep(value)
		default:
			return h, fmt.Errorf("%q is not part of a history: want seed, run, sites, budgets, brokers, until and keep, such as %q", part, "seed=3 until=12.5s keep=4,17")
		}
		if err != nil {
			return h, fmt.Errorf("%q in a history: %w", part, err)
		}
	}
	if h.Seed == 0 {
		return h, fmt.Errorf("a history without a seed: want one such as %q", "seed=3 until=12.5s keep=4,17")
	}
	if !run {
		h.Run = h.Seed
	}
	return h, nil
}

func parseKeep(value string) ([]int, error) {
	keep := []int{}
	for _, field := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
		from, to, isRange := strings.Cut(field, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			return nil, err
		}
		if last-first > maxSteps {
			return nil, fmt.Errorf("%s are more faults than a run has", field)
		}
		for n := first; n <= last; n++ {
			keep = append(keep, n)
		}
	}
	slices.Sort(keep)
	return keep, nil
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
