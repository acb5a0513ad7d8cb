package lease_test

import (
	"fmt"
	"time"

	"github.com/tokenlease/tokenlease/lease"
)

// The worked example: 40 tokens, refilled at 20 a second, of which a report costs
// 5. Grants to three regions take all of them; what one region spent comes back
// by refill, in the room that its account makes.
func Example() {
	rule := lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: 40,
		Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 100,
	}
	budget := lease.NewLedger(lease.Key{Account: "acme", Operation: "report.create"}, rule, 0)
	region := func(name string) lease.Holder { return lease.Holder{Region: name, Instance: "limiter-0"} }
	grant := func(n uint64) lease.GrantID { return lease.GrantID{Generation: 1, Shard: 3, Sequence: n} }
	show := func() { fmt.Println("available", budget.Available, "reserved", budget.Reserved()) }

	fmt.Println(budget.Open(0, grant(1), region("eu"), 1, 15))
	fmt.Println(budget.Open(0, grant(2), region("us"), 1, 15))
	fmt.Println(budget.Open(0, grant(3), region("ap"), 1, 10))
	fmt.Println(budget.Open(0, grant(4), region("sa"), 1, 1))
	show()

	// A second passes without room. Then eu accounts for three reports.
	now := lease.Time(0).Add(time.Second)
	fmt.Println(budget.Account(now, grant(1), 15, 0, 0))
	show()

	now = now.Add(500 * time.Millisecond)
	budget.Advance(now)
	show()
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// lease: not available
	// available 0 reserved 40
	// <nil>
	// available 0 reserved 25
	// available 10 reserved 25
}

func ExampleLedger_Retry() {
	rule := lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: 40,
		Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 100,
	}
	budget := lease.NewLedger(lease.Key{Account: "acme", Operation: "report.create"}, rule, 0)
	budget.Available = 2

	fmt.Println(budget.Retry(0, 5))
	fmt.Println(budget.Retry(0, 41))
	// Output:
	// 150ms true
	// 0s false
}

func ExampleLedger_Attest() {
	rule := lease.Rule{
		Kind: lease.TokenBucket, Version: 1, Capacity: 40,
		Refill: lease.Rate{Tokens: 20, Interval: time.Second}, MaxSharePercent: 100,
	}
	budget := lease.NewLedger(lease.Key{Account: "acme", Operation: "report.create"}, rule, 0)
	id := lease.GrantID{Generation: 1, Shard: 3, Sequence: 1}
	if err := budget.Open(0, id, lease.Holder{Region: "eu", Instance: "limiter-0"}, 1, 40); err != nil {
		fmt.Println(err)
	}

	// The holder is lost. A day later somebody attests that it has ended.
	day := lease.Time(24 * time.Hour)
	fmt.Println(budget.Attest(day, id))
	fmt.Println("available", budget.Available)
	budget.Advance(day.Add(2 * time.Second))
	fmt.Println("available", budget.Available)
	// Output:
	// 40 <nil>
	// available 0
	// available 40
}

func ExampleShare() {
	demands := []lease.Demand{
		{Want: 30, Need: 5, Limit: 40, Weight: 1},
		{Want: 6, Need: 5, Limit: 40, Weight: 1},
		{Want: 30, Need: 20, Limit: 40, Weight: 1}, // its part of 17 would be of no use
	}
	fmt.Println(lease.Share(40, demands))
	// Output: [30 6 0]
}

func ExampleParseGrantID() {
	id, err := lease.ParseGrantID("g1-003-0000002a")
	fmt.Println(id.Generation, id.Shard, id.Sequence, err)
	_, err = lease.ParseGrantID("42")
	fmt.Println(err)
	// Output:
	// 1 3 42 <nil>
	// "42" is not a grant ID: want the form g1-003-0000002a
}
