package strategies_test

import (
	"testing"

	"github.com/tokenlease/tokenlease/simulations/scenario"
	"github.com/tokenlease/tokenlease/simulations/strategies"
)

var euCut = [2]string{"eu", "brokers"}

// What regions ask for one after another stays within the budget; a message is
// 10 ms on its way, and gathered for 100 ms on each side.
func TestAsyncCatchesUp(t *testing.T) {
	quota := policy(1, 40, 0)
	expect(t, "210 ms apart", world(quota, in(0, 5, 8, second), in(1, 5, 8, second+221*ms)), strategies.LocalAsync, numbers{40, 0, 8, 0, 0})
	expect(t, "not yet heard", world(quota, in(0, 5, 8, second), in(1, 5, 8, second+219*ms)), strategies.LocalAsync, numbers{80, 40, 0, 0, 0})
}

// In a cut, each side goes on alone; the deltas that were lost are forgotten.
func TestAsyncCut(t *testing.T) {
	sc := world(policy(1, 40, 0), in(0, 5, 4, 3*second, 9*second), in(1, 5, 8, 4*second, 10*second))
	expect(t, "no cut", sc, strategies.LocalAsync, numbers{40, 0, 16, 0, 0})
	cut := scenario.Fault{Kind: scenario.Cut, At: 2 * second, For: 5 * second, Ends: euCut}
	// eu spends 20 in the cut, which nobody is told; us spends 40, which eu does not
	// hear of, and so it spends the other half, too.
	expect(t, "cut", with(sc, cut), strategies.LocalAsync, numbers{80, 40, 8, 0, 0})
	cut.OneWay = true
	// What eu admits is lost, but what us admits it hears.
	expect(t, "one way", with(sc, cut), strategies.LocalAsync, numbers{60, 20, 12, 0, 0})
}

// A process that dies takes its unsent deltas along, and the next one begins with
// a full view.
func TestAsyncCrash(t *testing.T) {
	sc := world(policy(1, 40, 0), in(0, 5, 4, 3*second, 5*second), in(1, 5, 8, 6*second))
	crash := scenario.Fault{Kind: scenario.Crash, At: 3*second + 50*ms, Back: 100 * ms, Target: "eu"}
	expect(t, "before it has sent", with(sc, crash), strategies.LocalAsync, numbers{60, 20, 4, 0, 0})
	crash.At += 100 * ms
	expect(t, "after", with(sc, crash), strategies.LocalAsync, numbers{40, 0, 8, 0, 0})
	crash.Kind, crash.At = scenario.Stop, crash.At-100*ms
	expect(t, "in order", with(sc, crash), strategies.LocalAsync, numbers{40, 0, 8, 0, 0})
}

// A message that comes twice counts twice.
func TestAsyncRepeated(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 2, second), in(1, 5, 8, 3*second)),
		scenario.Fault{Kind: scenario.Mess, Ends: euCut, Duplicate: 100})
	expect(t, "twice", sc, strategies.LocalAsync, numbers{30, 0, 4, 0, 0})
}

// The next broker knows nothing of what was counted.
func TestAsyncFailOver(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 6, second), in(1, 5, 1, 15*second, 17*second), in(2, 5, 8, 19*second)),
		scenario.Fault{Kind: scenario.Crash, At: 2 * second, Target: "broker-1"})
	// What us admits at 15 s is lost on its way to the broker that is gone. At 17 s
	// the new one has 35 of 40 left, and tells everyone.
	expect(t, "fail-over", sc, strategies.LocalAsync, numbers{75, 35, 1, 0, 0})
}

// A store that is set back takes the counter along.
func TestAsyncRestore(t *testing.T) {
	sc := with(world(policy(1, 40, 0), in(0, 5, 7, 3*second), in(1, 5, 1, 10*second), in(2, 5, 8, 11*second)),
		scenario.Fault{Kind: scenario.Restore, At: 5 * second, Age: 3 * second})
	expect(t, "set back", sc, strategies.LocalAsync, numbers{75, 35, 1, 0, 0})
}
