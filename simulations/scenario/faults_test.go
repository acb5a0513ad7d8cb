package scenario_test

import (
	"testing"
)

func TestWrongWorkloads(t *testing.T) {
	requireRefusals(t, func(v string) string { return instead("rate: 1 per 1s", v) }, []refusal{
		{"rate: 0 per 1s", []string{`12: workload[0].rate: "0 per 1s" asks for nothing: want 1 or more`}},
		{"rate: 0", []string{`12: workload[0].rate: "0" is not a rate: want checks per interval, such as 20 per 1s`}},
		{"rate: 5", []string{`12: workload[0].rate: "5" is not a rate: want an interval as well, such as 5 per 1s`}},
		{"rate: 5/s", []string{`12: workload[0].rate: "5/s" is not a rate: want 5 per 1s`}},
		{"rate:", []string{"12: workload[0].rate: is empty: want checks per interval, such as 20 per 1s"}},
		{"rate: 1000001 per 1s", []string{"12: workload[0].rate: is too fast: want at most 1000000 per 1s"}},
		{"rate: 600000 per 1s", []string{"12: workload[0].rate: makes about 6000000 checks in all: want at most 5000000"}},
		{"arrivals: poison", []string{`12: workload[0].arrivals: is "poison": did you mean poisson?`}},
		{"arrivals: poisson", []string{"11: workload[0].rate: is missing"}},
		{"rate: 1 per 1s\n    burst: 5", []string{"13: workload[0].burst: does not go with arrivals: poisson, but with bursts"}},
		{"arrivals: bursts\n    rate: 1 per 1s", []string{"11: workload[0].burst: is missing"}},
		{"arrivals: bursts\n    rate: 1 per 1s\n    burst: 0", []string{"14: workload[0].burst: 0 is too small: want at least 1"}},
		{"arrivals: diurnal\n    rate: 1 per 1s", []string{"11: workload[0].period: is missing"}},
		{"arrivals: diurnal\n    rate: 1 per 1s\n    period: 1h\n    low: 101%", []string{`15: workload[0].low: is "101%": want 0% to 100%, in whole percent`}},
		{"rate: 1 per 1s\n    low: 5%", []string{"13: workload[0].low: does not go with arrivals: poisson, but with diurnal"}},
		{"arrivals: times\n    rate: 1 per 1s\n    at: [1s]", []string{"13: workload[0].rate: does not go with arrivals: times, but with poisson, steady, bursts, diurnal"}},
		{"arrivals: times", []string{"11: workload[0].at: is missing"}},
		{"arrivals: times\n    at: [2s, 1s, 10s, 1]", []string{"13: workload[0].at[1]: 1s is before the moment before it, 2s: want them in order", "13: workload[0].at[2]: 10s is not before the end, at 10s", `13: workload[0].at[3]: "1" has no unit: want 1s, 1m, 1h or 1d`}},
		{"arrivals: times\n    at: 2s", []string{`13: workload[0].at: is "2s": want a list of moments`}},
		{"arrivals: times\n    at: []\n    from: 1s", []string{"13: workload[0].at: is an empty list: want at least one moment", "14: workload[0].from: does not go with arrivals: times, but with poisson, steady, bursts, diurnal"}},
		{"rate: 1 per 1s\n    accounts: 0", []string{"13: workload[0].accounts: 0 is too small: want at least 1"}},
		{"rate: 1 per 1s\n    accounts: 2001", []string{"13: workload[0].accounts: 2001 is too large: want at most 2000"}},
		{"rate: 1 per 1s\n    zipf: 1", []string{"13: workload[0].zipf: prefers some accounts, and there is one alone: want accounts, or leave the field out"}},
		{"rate: 1 per 1s\n    zipf: 11", []string{`13: workload[0].zipf: is "11": want 0 to 10, such as 1.1`}},
		{"rate: 1 per 1s\n    zipf: -1", []string{`13: workload[0].zipf: is "-1": want 0 to 10, such as 1.1`}},
		{"rate: 1 per 1s\n    zipf: 1.1234567", []string{`13: workload[0].zipf: is "1.1234567": want 0 to 10, such as 1.1`}},
		{"rate: 1 per 1s\n    zipf: [1]", []string{"13: workload[0].zipf: is a list: want 0 to 10, such as 1.1"}},
		{"rate: 1 per 1s\n    regions: {ap: 1}", []string{"13: workload[0].regions.ap: is unknown: want one of eu, us"}},
		{"rate: 1 per 1s\n    regions: [ap]", []string{`13: workload[0].regions[0]: "ap" is unknown: want one of eu, us`}},
		{"rate: 1 per 1s\n    regions: [eu, eu]", []string{"13: workload[0].regions[1]: eu stands twice: remove one"}},
		{"rate: 1 per 1s\n    regions: {eu: 0}", []string{"13: workload[0].regions.eu: 0 is too small: want at least 1"}},
		{"rate: 1 per 1s\n    regions: {}", []string{"13: workload[0].regions: is empty: want at least one region"}},
		{"rate: 1 per 1s\n    regions: []", []string{"13: workload[0].regions: is an empty list: want at least one region"}},
		{"rate: 1 per 1s\n    regions: eu", []string{`13: workload[0].regions: is "eu": want the fields eu, us`}},
		{"rate: 1 per 1s\n    regions: {eu: 1, eu: 2}", []string{"13: workload[0].regions.eu: stands twice, first in line 13: remove one"}},
		{"rate: 1 per 1s\n    regions: {eu: 1.5}", []string{`13: workload[0].regions.eu: "1.5" is not whole: want a whole number of parts`}},
		{"rate: 1 per 1s\n    rotate: 1s", []string{"13: workload[0].rotate: moves nothing where all weights are alike: want regions with weights, such as {eu: 8, us: 1}"}},
		{"rate: 1 per 1s\n    cost: 0", []string{"13: workload[0].cost: 0 needs allow-zero-cost: true in the policy, or want 1 or more"}},
		{"rate: 1 per 1s\n    cost: {from: 5, to: 1}", []string{"13: workload[0].cost: 5 is above 1: want from to be at most to"}},
		{"rate: 1 per 1s\n    cost: {from: 5}", []string{"13: workload[0].cost.to: is missing"}},
		{"rate: 1 per 1s\n    cost: -1", []string{`13: workload[0].cost: "-1" is negative: want 0 or more`}},
		{"rate: 1 per 1s\n    from: 10s", []string{"13: workload[0].from: 10s is not before the end, at 10s"}},
		{"rate: 1 per 1s\n    until: 11s", []string{"13: workload[0].until: 11s is after the end, at 10s"}},
		{"rate: 1 per 1s\n    from: 5s\n    until: 5s", []string{"13: workload[0].from: 5s is not before until, 5s"}},
		{"rate: 1 per 1s\n    cost: 40000000000000000", []string{"13: workload[0].cost: asks for more tokens than can be counted: want a lower cost or rate"}},
		{"rate: 1 per 1s\n    cost: 1000000000000000001", []string{"13: workload[0].cost: 1000000000000000001 is too large: want at most 1000000000000000000"}},
	})
}

func TestWrongPolicies(t *testing.T) {
	requireRefusals(t, func(v string) string { return instead("{capacity: 4, refill: 1 per 1s}", v) }, []refusal{
		{"{capacity: 4, refill: 9223372036854775807 per 1us}", []string{"8: policies[0]: admits more tokens in 10s than can be counted: want a lower capacity or refill"}},
		{"{capacity: 1e3}", []string{`9: policies[0].token-bucket.capacity: "1e3" has an exponent: want a whole number with all its digits`}},
		{"{capacity: 1000000000000000001}", []string{"9: policies[0].token-bucket.capacity: 1000000000000000001 is too large: want at most 1000000000000000000"}},
	})
}

func TestWrongFaults(t *testing.T) {
	requireRefusals(t, func(v string) string { return least("faults:", "  - "+v) }, []refusal{
		{"{at: 1s}", []string{"14: faults[0]: does not say which fault it is: want one of cut, mess, pause, freeze, crash, stop, zombie, expire, store, restore, policy, attest, wall"}},
		{"{crash: eu}", []string{"14: faults[0].at: is missing"}},
		{"{at: 1s, crsh: eu}", []string{"14: faults[0].crsh: is unknown: did you mean crash?"}},
		{"{at: 1s, crash: eu, stop: us}", []string{"14: faults[0]: is crash and stop at once: want one fault in each entry"}},
		{"crash", []string{`14: faults[0]: is "crash": want the fields cut, mess, pause, freeze, crash, stop, zombie, expire, store, restore, policy, attest, wall, at, for, one-way, loss, duplicate, late, delay, back, journal, step`}},
		{"{at: 10s, crash: eu}", []string{"14: faults[0].at: 10s is not before the end, at 10s"}},
		{"{at: 1, crash: eu}", []string{`14: faults[0].at: "1" has no unit: want 1s, 1m, 1h or 1d`}},
		{"{at: 9s, crash: eu, back: 2s}", []string{"14: faults[0].back: would be at 11s, after the end, at 10s: leave it out for what does not start again"}},
		{"{at: 9s, for: 2s, pause: eu}", []string{"14: faults[0].for: lasts until 11s, after the end, at 10s: leave it out for a fault that lasts to the end"}},
		{"{at: 1s, crash: eu, for: 1s}", []string{"14: faults[0].for: does not go with crash: want back, after which it starts again"}},
		{"{at: 1s, wall: eu, for: 1s}", []string{"14: faults[0].for: does not go with what is done in a moment: remove it", "14: faults[0].step: is missing"}},
		{"{at: 1s, crash: ap}", []string{`14: faults[0].crash: "ap" is unknown: want one of eu, us, eu/1, broker-1, broker-2, brokers`}},
		{"{at: 1s, crash: us/3}", []string{`14: faults[0].crash: "us/3" is unknown: want one of eu, us, eu/1, broker-1, broker-2, brokers`}},
		{"{at: 1s, crash: store}", []string{"14: faults[0].crash: is the store, which is no process here: want a fault of kind store or restore"}},
		{"{at: 1s, crash: [eu]}", []string{"14: faults[0].crash: is a list: want a name such as eu"}},
		{"{at: 1s, crash: 12}", []string{`14: faults[0].crash: "12" reads as something else than a name: put it in quotes`}},
		{"{at: 1s, stop: broker-1}", []string{`14: faults[0].stop: "broker-1" has no limiters: want a region, or one of its limiters such as eu/1`}},
		{"{at: 1s, zombie: brokers}", []string{`14: faults[0].zombie: "brokers" has no limiters: want a region, or one of its limiters such as eu/1`}},
		{"{at: 1s, attest: broker-1}", []string{`14: faults[0].attest: "broker-1" has no limiters: want a region, or one of its limiters such as eu/1`}},
		{"{at: 1s, expire: eu}", []string{`14: faults[0].expire: "eu" is not a broker: want one of broker-1, broker-2, brokers`}},
		{"{at: 1s, crash: eu, journal: fresh}", []string{"14: faults[0].journal: matters to a process that starts again: want back as well"}},
		{"{at: 1s, crash: eu, back: 1s, journal: older}", []string{"14: faults[0].journal: an older copy is beyond proof under journal: block (contract C4): want journal: confirm in the region"}},
		{"{at: 1s, crash: brokers, back: 1s, journal: fresh}", []string{"14: faults[0].journal: brokers have no journal: remove it"}},
		{"{at: 1s, crash: eu, back: 1s, journal: gone}", []string{`14: faults[0].journal: is "gone": want one of kept, fresh, older`}},
		{"{at: 1s, cut: [eu, us]}", []string{"14: faults[0].cut: eu and us send each other nothing: want brokers at one end"}},
		{"{at: 1s, cut: [eu, ap]}", []string{`14: faults[0].cut[1]: "ap" is unknown: want one of eu, us, eu/1, broker-1, broker-2, brokers`}},
		{"{at: 1s, cut: [eu, brokers, us]}", []string{"14: faults[0].cut: names 3: want two ends, such as [eu, brokers]"}},
		{"{at: 1s, cut: eu}", []string{`14: faults[0].cut: is "eu": want two ends, such as [eu, brokers]`}},
		{"{at: 1s, mess: [eu, brokers], one-way: true, loss: 1%}", []string{"14: faults[0].one-way: goes with cut alone: remove it"}},
		{"{at: 1s, cut: [eu, brokers], loss: 1%}", []string{"14: faults[0].loss: goes with mess alone: remove it"}},
		{"{at: 1s, mess: [eu, brokers]}", []string{"14: faults[0]: does nothing to messages: want loss, duplicate or late, in percent"}},
		{"{at: 1s, mess: [eu, brokers], loss: 0%}", []string{`14: faults[0].loss: is "0%": want 1% to 100%, in whole percent`}},
		{"{at: 1s, mess: [eu, brokers], loss: 5}", []string{`14: faults[0].loss: is "5": want 1% to 100%, in whole percent`}},
		{"{at: 1s, mess: [eu, brokers], late: 5%}", []string{"14: faults[0].delay: is missing: late messages are delayed by up to this"}},
		{"{at: 1s, mess: [eu, brokers], loss: 5%, delay: 1s}", []string{"14: faults[0].late: is missing: it says how many messages are delayed, in percent"}},
		{"{at: 1s, mess: [eu, brokers], loss: 60%, late: 60%, delay: 1s}", []string{"14: faults[0]: loss and late are 120%: want at most 100% together"}},
		{"{at: 1s, store: down}", []string{`14: faults[0].store: is "down": want one of outage, no-space, uncertain, slow`}},
		{"{at: 1s, store: outtage}", []string{`14: faults[0].store: is "outtage": did you mean outage?`}},
		{"{at: 1s, restore: 2s}", []string{"14: faults[0].restore: a copy of 2s before is older than the store: want at most 1s"}},
		{"{at: 1s, restore: 0s}", []string{`14: faults[0].restore: "0s" has no length: want 1s or more`}},
		{"{at: 1s, wall: eu}", []string{"14: faults[0].step: is missing"}},
		{"{at: 1s, wall: eu, step: 0s}", []string{"14: faults[0].step: 0s is no step: want one such as 60s or -60s"}},
		{"{at: 1s, wall: eu, step: 5}", []string{`14: faults[0].step: "5" has no unit: want 5s, 5m, 5h or 5d`}},
		{"{at: 1s, crash: eu, step: 5s}", []string{"14: faults[0].step: goes with wall alone: remove it"}},
		{"{at: 1s, policy: {operation: p, token-bucket: {capacity: 1}}}", []string{`14: faults[0].policy.operation: "p" has no policy at first: want o`}},
		{"{at: 1s, policy: {operation: o, token-bucket: {capcity: 1}}}", []string{"14: faults[0].policy.token-bucket.capcity: is unknown: did you mean capacity?", "14: faults[0].policy.token-bucket.capacity: is missing"}},
		{"{at: 1s, policy: o}", []string{`14: faults[0].policy: is "o": want the fields operation, token-bucket, cost, max-cost, allow-zero-cost, max-share, reclaim, on-unavailable`}},
		{"{at: 1s, policy: {operation: o, token-bucket: {capacity: 4, refill: 9223372036854775807 per 1us}}}", []string{"14: faults[0].policy: admits more tokens in 10s than can be counted: want a lower capacity or refill"}},
		{"{at: 1s, crash: eu, journal: fresh, delay: 1s, one-way: true}", []string{"14: faults[0].delay: goes with mess alone: remove it", "14: faults[0].one-way: goes with cut alone: remove it"}},
	})
}

func TestWrongExpectations(t *testing.T) {
	requireRefusals(t, func(v string) string { return least("expect:", "  - "+v) }, []refusal{
		{"{at-least: 1}", []string{"14: expect[0]: does not say which quantity it is: want one of admitted, exhausted, unavailable, available, held, unknown, false-denied, excess, utilisation, recovery, stopped"}},
		{"{admittd: total, at-least: 1}", []string{"14: expect[0].admittd: is unknown: did you mean admitted?"}},
		{"{admitted: total, exhausted: total, at-least: 1}", []string{"14: expect[0]: is admitted and exhausted at once: want one quantity in each entry"}},
		{"{admitted: total}", []string{"14: expect[0]: bounds nothing: want at-least, at-most or both"}},
		{"{admitted: ap, at-least: 1}", []string{`14: expect[0].admitted: "ap" is unknown: want one of total, eu, us`}},
		{"{admitted: eu/1, at-least: 1}", []string{`14: expect[0].admitted: "eu/1" is unknown: want one of total, eu, us`}},
		{"{admitted: total, at-least: 2, at-most: 1}", []string{"14: expect[0].at-least: is above at-most: nothing is both"}},
		{"{admitted: total, at: 1s, at-least: 1}", []string{"14: expect[0].at: does not go with what is added up: want from and until"}},
		{"{admitted: total, from: 5s, until: 2s, at-least: 1}", []string{"14: expect[0].from: 5s is not before until, 2s"}},
		{"{admitted: total, until: 11s, at-least: 1}", []string{"14: expect[0].until: 11s is after the end, at 10s"}},
		{"{unknown: total, from: 1s, at-least: 1}", []string{"14: expect[0].from: does not go with a balance: want at, for the moment"}},
		{"{unknown: eu, at-least: 1}", []string{`14: expect[0].unknown: is "eu": this is a balance of the budgets, of no region: want total`}},
		{"{available: eu, at-least: 1}", []string{`14: expect[0].available: is "eu": this is a balance of the budgets, of no region: want total`}},
		{"{unknown: total, at: 11s, at-least: 1}", []string{"14: expect[0].at: 11s is after the end, at 10s"}},
		{"{held: total, strategy: static, at-least: 1}", []string{"14: expect[0].strategy: does not go with a balance, which is that of tokenlease"}},
		{"{excess: total, at-most: 1}", []string{`14: expect[0].excess: is "total": want one of tokenlease, oracle, independent, static, local-async, expiring-leases`}},
		{"{excess: independnt, at-most: 1}", []string{`14: expect[0].excess: is "independnt": did you mean independent?`}},
		{"{excess: tokenlease, from: 1s, at-most: 1}", []string{"14: expect[0].from: does not go with what is about a whole run: remove it"}},
		{"{excess: tokenlease, strategy: oracle, at-most: 1}", []string{"14: expect[0].strategy: is the value of excess here: remove it"}},
		{"{utilisation: tokenlease, at-least: 90}", []string{`14: expect[0].at-least: is "90": want 0% to 100000%, in whole percent`}},
		{"{utilization: tokenlease, at-least: 90%}", []string{"14: expect[0].utilization: is unknown: did you mean utilisation?"}},
		{"{recovery: tokenlease, at-most: 5}", []string{`14: expect[0].at-most: "5" has no unit: want 5s, 5m, 5h or 5d`}},
		{"{stopped: oracle, at-least: 1}", []string{`14: expect[0].stopped: is "oracle": want tokenlease`}},
		{"{admitted: total, at-least: 90%}", []string{`14: expect[0].at-least: "90%" is not a number: want a whole number such as 40`}},
		{"{exhausted: total, at-most: 1.5}", []string{`14: expect[0].at-most: "1.5" is not whole: want a whole number of checks`}},
		{"{banana: total}", []string{"14: expect[0].banana: is unknown: want one of admitted, exhausted, unavailable, available, held, unknown, false-denied, excess, utilisation, recovery, stopped, from, until, at, strategy, at-least, at-most"}},
		{"expectation", []string{`14: expect[0]: is "expectation": want the fields admitted, exhausted, unavailable, available, held, unknown, false-denied, excess, utilisation, recovery, stopped, from, until, at, strategy, at-least, at-most`}},
	})
}

func TestJustRight(t *testing.T) {
	for _, file := range []string{
		instead("{capacity: 4, refill: 1 per 1s}", "{capacity: 1000000000000000000, refill: 1 per 366d}"),
		instead("rate: 1 per 1s", "rate: 500000 per 1s"),
		instead("{name: eu}", "{name: eu, limiters: 48, clock: {slow: 50%}}"),
		instead("rate: 1 per 1s", "rate: 1 per 1s\n    accounts: 2000"),
		least("faults:", "  - {at: 9s, for: 1s, pause: eu}", "  - {at: 8s, crash: us, back: 2s}", "  - {at: 1s, restore: 1s}"),
		least("expect:", "  - {admitted: total, from: 9s, until: 10s, at-most: 0}", "  - {unknown: total, at: 10s, at-most: 0}", "  - {utilisation: static, from: 1s, at-most: 100%}"),
		least("faults:", "  - {at: 1s, cut: [broker-1, brokers]}", "  - {at: 1s, cut: [brokers, brokers]}", "  - {at: 1s, cut: [store, brokers]}"),
	} {
		mustParse(t, file)
	}
}
