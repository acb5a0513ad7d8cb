package regional_test

import (
	"context"
	"fmt"

	"github.com/tokenlease/tokenlease/regional"
	"github.com/tokenlease/tokenlease/regional/holder"
)

// A limiter in a gateway's own process. Clients of real brokers come from
// Config.Brokers and Config.HTTPClient; here a fake one has 40 tokens, and a
// report costs 5.
func Example() {
	limiter, err := regional.New(regional.Config{
		Region: "eu", Instance: "gateway-1", Clients: []client{newFakeBroker(quota)}, JournalMode: holder.JournalOff,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- limiter.Run(ctx) }()

	reports := limiter.Budget("acme", "report.create")
	for range 9 {
		d := reports.Check(ctx)
		fmt.Println(d.Allowed, d.Reason)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// true REASON_ALLOWED
	// false REASON_EXHAUSTED
	// <nil>
}
