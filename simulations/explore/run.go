package explore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Progress is how far a search has come.
type Progress struct {
	Depth       int   // events from the start, of the states that are looked at
	States      int64 // distinct states found
	Transitions int64 // events tried
	Frontier    int64 // states of this depth and the next that are still to be looked at
	Ran         int64 // distinct pairs of part and input, for each of which the real code ran once
	Elapsed     time.Duration
}

// Rate is how many states were found in a second; 0 without a clock.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.States) / p.Elapsed.Seconds()
}

// Result of a search.
type Result struct {
	Progress

	Scope string
	// Exhausted says that every state of the scope was looked at; else Bound
	// says what stopped the search.
	Exhausted bool
	Bound     string
	// Violation is what the first violation broke, empty for none, and History
	// the events that led to it: no shorter history does.
	Violation string
	History   []string
}

// String is the result in a line, and the history of a violation.
func (r Result) String() string {
	how := "all of it"
	switch {
	case r.Violation != "":
		how = "a violation"
	case !r.Exhausted:
		how = "up to " + r.Bound
	}
	text := fmt.Sprintf("%s: %d states, %d transitions, depth %d, %s", r.Scope, r.States, r.Transitions, r.Depth, how)
	if r.Elapsed > 0 {
		text += fmt.Sprintf(", %.0f states/s", r.Rate())
	}
	if r.Violation == "" {
		return text
	}
	return fmt.Sprintf("%s\nviolation: %s\n%s", text, r.Violation, strings.Join(r.History, "\n"))
}

// explorer searches one scope.
type explorer struct {
	scope Scope
	fates []Fate

	procs    table[procPart]
	owners   table[ownerPart]
	stores   table[storePart]
	disks    table[diskPart]
	judges   table[judgePart]
	messages table[message]
	lates    table[lateTxn]
	pools    table[set[*message]]
	late     table[set[*lateTxn]]

	clocks clocks

	visited map[digest]struct{}
	parents []parent // by number of the state
	result  Result
	tried   [kinds]int64
	ran     atomic.Int64
}

// parent is how a state was first reached: by which event of which state.
type parent struct {
	state   uint32
	ordinal uint16
}

// numbered is a state of the frontier.
type numbered struct {
	state
	number uint32
}

// found is what an event led to.
type found struct {
	state  *numbered // nil: a violation only
	digest digest
	parent parent
	fail   string
}

// batch is how many states are looked at before what they lead to is gathered,
// chunk how many a core takes at a time.
const (
	batch = 4096
	chunk = 128
)

// chunkResult is what a chunk of states led to.
type chunkResult struct {
	found []found
	tried [kinds]int64 // by kind of event
}

// Run enumerates the histories of the scope, the short ones first, until there
// is none left, a bound is reached, one breaks a rule, or ctx ends. The result
// does not depend on the number of cores. progress, if not nil, is called now
// and then.
func Run(ctx context.Context, sc Scope, progress func(Progress)) (Result, error) {
	if err := sc.Validate(); err != nil {
		return Result{}, err
	}
	x := newExplorer(sc)
	err := x.search(ctx, progress)
	return x.result, err
}

func (x *explorer) search(ctx context.Context, progress func(Progress)) error {
	sc := &x.scope
	began := x.clock()
	first, err := x.initial()
	if err != nil {
		return err
	}
	x.visited[first.digest()] = struct{}{}
	x.parents = append(x.parents, parent{})
	frontier := []*numbered{{state: *first}}
	x.result.States = 1
	for len(frontier) > 0 && x.result.Bound == "" && x.result.Violation == "" {
		if sc.MaxDepth > 0 && x.result.Depth == sc.MaxDepth {
			x.result.Bound = fmt.Sprintf("depth %d", sc.MaxDepth)
			break
		}
		frontier = x.level(ctx, frontier, func(left int) {
			x.result.Frontier, x.result.Ran, x.result.Elapsed = int64(left), x.ran.Load(), x.clock()-began
			if progress != nil {
				progress(x.result.Progress)
			}
		})
		if len(frontier) > 0 || x.result.Violation != "" {
			x.result.Depth++
		}
	}
	x.result.Exhausted = x.result.Bound == "" && x.result.Violation == ""
	x.result.Elapsed = x.clock() - began
	return nil
}

func newExplorer(sc Scope) *explorer {
	x := &explorer{scope: sc, fates: sc.Fates, visited: map[digest]struct{}{}}
	x.result.Scope, x.clocks.on = sc.Name, len(sc.Bounds) > 0
	if len(x.fates) == 0 {
		x.fates = []Fate{Lost, Never, Later, Twice}
	}
	return x
}

func (x *explorer) clock() time.Duration {
	if x.scope.Clock == nil {
		return 0
	}
	return x.scope.Clock()
}

// level looks at all states of one depth, and returns those of the next. It
// takes a batch at a time, in chunks that the cores share; what they find is
// gathered in order, so the result is the same on any number of cores.
func (x *explorer) level(ctx context.Context, frontier []*numbered, progress func(left int)) (next []*numbered) {
	for len(frontier) > 0 && x.result.Bound == "" && x.result.Violation == "" {
		part := frontier[:min(batch, len(frontier))]
		frontier = frontier[len(part):]
		outs := make([]chunkResult, (len(part)+chunk-1)/chunk)
		var workers sync.WaitGroup
		var taken atomic.Int64
		for range min(len(outs), max(1, x.scope.Cores)) {
			workers.Go(func() { // ends with the batch
				for n := int(taken.Add(1)) - 1; n < len(outs); n = int(taken.Add(1)) - 1 {
					for i := n * chunk; i < min(len(part), (n+1)*chunk); i++ {
						x.expand(part[i], &outs[n])
					}
				}
			})
		}
		workers.Wait()
		for _, out := range outs {
			for k, n := range out.tried {
				x.tried[k] += n
				x.result.Transitions += n
			}
			next = x.gather(out.found, next)
		}
		progress(len(frontier) + len(next))
		switch {
		case x.scope.MaxStates > 0 && len(x.parents) >= x.scope.MaxStates && x.result.Bound == "":
			x.result.Bound = fmt.Sprintf("%d states", x.scope.MaxStates)
		case ctx.Err() != nil:
			x.result.Bound = "where it was interrupted"
		}
	}
	return next
}

// expand appends what the events of the state lead to, if it was not known
// before this batch.
func (x *explorer) expand(s *numbered, out *chunkResult) {
	ordinal := uint16(0)
	x.events(&s.state, func(e event) {
		from := parent{s.number, ordinal}
		ordinal++
		next, ok, fail := x.happen(&s.state, e)
		if !ok {
			return
		}
		out.tried[e.kind]++
		if fail != "" {
			out.found = append(out.found, found{parent: from, fail: fail})
			return
		}
		p := next.digest()
		if _, known := x.visited[p]; !known {
			out.found = append(out.found, found{state: &numbered{state: next}, digest: p, parent: from})
		}
	})
}

// gather takes the states that are new into the next frontier, up to the first
// violation.
func (x *explorer) gather(out []found, next []*numbered) []*numbered {
	for _, f := range out {
		if x.result.Violation != "" {
			return next
		}
		if f.fail != "" {
			x.result.Violation = f.fail
			x.result.History = x.history(f.parent)
			return next
		}
		if _, known := x.visited[f.digest]; known {
			continue
		}
		x.visited[f.digest] = struct{}{}
		f.state.number = uint32(len(x.parents))
		next = append(next, f.state)
		x.parents = append(x.parents, f.parent)
		x.result.States = int64(len(x.parents))
	}
	return next
}
