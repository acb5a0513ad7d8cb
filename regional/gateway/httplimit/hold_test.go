package httplimit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
)

// settlements collects how holds ended; each is sent after its handler.
func settlements() (chan decision.Settlement, func(*http.Request, decision.Settlement)) {
	ended := make(chan decision.Settlement, 10)
	return ended, func(_ *http.Request, s decision.Settlement) { ended <- s }
}

// TestCase16SlotsAreHeld: a slot is held while the handler works, and free after it,
// whether it returns or panics, and also if the caller has gone.
func TestCase16SlotsAreHeld(t *testing.T) {
	b := newBudgets(1, 1)
	ended, onSettled := settlements()
	working, leave := make(chan struct{}), make(chan string)
	server := serve(t, b, httplimit.Config{Mode: admission.Slots, OnSettled: onSettled}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		working <- struct{}{}
		switch <-leave {
		case "panic":
			panic(http.ErrAbortHandler)
		case "early":
			if s, err := httplimit.Settle(r.Context(), 0); err != nil || !s.Settled {
				t.Errorf("given back early: %+v, %v", s, err)
			}
			working <- struct{}{}
			<-leave
		case "gone":
			<-r.Context().Done()
		}
	}))
	for _, how := range []string{"return", "panic", "gone", "early"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { // ends with the response, or with ctx
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody) // a GET would be sent again
				req.Header.Set("X-Account", "acme")
				resp, err := server.Client().Do(req)
				if err == nil {
					resp.Body.Close()
				}
				done <- err
			}()
			<-working
			if r := get(t, server, "acme"); r.status != 429 || b.left("acme") != 0 {
				t.Errorf("while the slot is held: status %d, %d left", r.status, b.left("acme"))
			}
			leave <- how
			switch how {
			case "gone":
				cancel()
			case "early":
				<-working
				if b.left("acme") != 1 {
					t.Error("the slot is not free before the handler returns")
				}
				leave <- "return"
			}
			if s := <-ended; !s.Settled || s.Returned != 1 {
				t.Errorf("the slot ended as %+v", s)
			}
			<-done
			cancel()
			if b.left("acme") != 1 {
				t.Errorf("%d slots are free, want 1", b.left("acme"))
			}
		})
	}
}

func TestCase45LateCosts(t *testing.T) {
	for _, test := range []struct {
		name   string
		bound  string
		work   func(context.Context)
		status int
		left   int64
		ended  decision.Settlement
	}{
		{"a bound of 900 with 100 available", "900", nil, 429, 100, decision.Settlement{}},
		{"reserve 50, settle 30", "50", func(ctx context.Context) {
			if s, err := httplimit.Settle(ctx, 30); err != nil || s.Returned != 20 {
				t.Errorf("30 of 50: %+v, %v", s, err)
			}
		}, 200, 70, decision.Settlement{Settled: true, Returned: 20}},
		{"only the first settlement counts", "50", func(ctx context.Context) {
			httplimit.Settle(ctx, 30)
			if s, err := httplimit.Settle(ctx, 10); err != nil || s.Returned != 20 {
				t.Errorf("settled again: %+v, %v", s, err)
			}
		}, 200, 70, decision.Settlement{Settled: true, Returned: 20}},
		{"settle 60 of 50: refused, and the whole bound counts", "50", func(ctx context.Context) {
			if s, err := httplimit.Settle(ctx, 60); err != nil || s.Settled || s.Detail != "60 is not 0 to 50, which were reserved" {
				t.Errorf("60 of 50: %+v, %v", s, err)
			}
		}, 200, 50, decision.Settlement{Settled: true}},
		{"never settled", "50", func(context.Context) {}, 200, 50, decision.Settlement{Settled: true}},
		{"a panic after settling", "50", func(ctx context.Context) {
			httplimit.Settle(ctx, 1)
			panic(http.ErrAbortHandler)
		}, 0, 99, decision.Settlement{Settled: true, Returned: 49}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBudgets(100, 1)
			if test.bound == "900" {
				b.capacity = 1000
				b.spent[lease.Key{Account: "acme", Operation: "report.create"}] = 900
			}
			ended, onSettled := settlements()
			cfg := httplimit.Config{OnSettled: onSettled, ModeOf: func(*http.Request) admission.Mode { return admission.Late }}
			server := serve(t, b, cfg, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { test.work(r.Context()) }))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Account", "acme")
			req.Header.Set("X-Cost", test.bound)
			status := 0
			if resp, err := server.Client().Do(req); err == nil {
				status = resp.StatusCode
				resp.Body.Close()
			}
			if status == 200 || status == 0 {
				if got := <-ended; got != test.ended {
					t.Errorf("the hold ended as %+v, want %+v", got, test.ended)
				}
			}
			if status != test.status || b.left("acme") != test.left {
				t.Errorf("status %d, %d left; want %d, %d", status, b.left("acme"), test.status, test.left)
			}
		})
	}
}
