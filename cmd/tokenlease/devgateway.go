package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/admission"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/envoy"
	"github.com/tokenlease/tokenlease/regional/gateway/forwardauth"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
	"github.com/tokenlease/tokenlease/regional/gateway/httplimit"
	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
)

// devAccountHeader names the account. The example gateway believes it; a real one
// verifies who asks.
const devAccountHeader = "X-Account"

// devAnswerBound is what the example gateway reserves for an answer, in tokens.
const devAnswerBound = 500

// devGateway is an API behind the limiter of one region, as an example: each kind
// of rule, a cost that is known late, callers without an account, and the forms in
// which other gateways ask.
func devGateway(l decision.Reserver, ready func() bool) (http.Handler, error) {
	anonymous, err := clientkey.New(clientkey.Config{})
	if err != nil {
		return nil, err
	}
	limit := func(operation string, mode admission.Mode, cost decision.Cost) func(http.Handler) http.Handler {
		return httplimit.New(l, httplimit.Config{
			Mode: mode,
			Request: func(r *http.Request) (decision.Request, error) {
				account, err := devAccount(r, anonymous, operation == "login")
				return decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: operation}, Cost: cost}}, err
			},
			Writer: httpanswer.Writer{PolicyName: operation},
		})
	}
	byPolicy := decision.Cost{}
	mux := http.NewServeMux()
	mux.Handle("POST /reports", devVerified(limit("report.create", admission.Spend, byPolicy)(says("the report is being made"))))
	mux.Handle("GET /search", devVerified(limit("search", admission.Spend, byPolicy)(says("nothing found"))))
	mux.Handle("POST /login", limit("login", admission.Spend, byPolicy)(says("welcome")))
	mux.Handle("GET /exports", devVerified(limit("export", admission.Slots, byPolicy)(http.HandlerFunc(devExport))))
	mux.Handle("POST /answers", devVerified(limit("answer.tokens", admission.Late, decision.Tokens(devAnswerBound))(http.HandlerFunc(devAnswer))))

	api, err := plainjson.New(plainjson.Config{Decider: l, Ready: ready, Answers: httpanswer.Writer{Details: true}})
	if err != nil {
		return nil, err
	}
	api.Mount(mux)
	forward, err := forwardauth.New(forwardauth.Config{
		Decider: l, Proxies: loopback(), AccountHeader: devAccountHeader,
		Rules: []forwardauth.Rule{{Method: http.MethodPost, Path: "/reports", Operation: "report.create"}, {Path: "/", Operation: "search"}},
	})
	if err != nil {
		return nil, err
	}
	mux.Handle(forwardAuthPath, forward)
	return mux, nil
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// devAccount is who asks. Whoever logs in has no account yet: the client's address
// pays.
func devAccount(r *http.Request, anonymous *clientkey.Keys, unknown bool) (string, error) {
	if unknown {
		return anonymous.Account(r), nil
	}
	account := r.Header.Get(devAccountHeader)
	return account, clientkey.CheckVerified(account)
}

// devVerified answers a request of nobody, as whoever verifies callers does before
// a limiter is asked.
func devVerified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(devAccountHeader) == "" {
			w.Header().Set("WWW-Authenticate", devAccountHeader)
			http.Error(w, "Say who asks in the header "+devAccountHeader+", as in "+devAccountHeader+": acme.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) })
}

// devExport works for ?seconds=N, 1 by default, and holds its slot as long.
func devExport(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
	if err != nil || seconds < 0 || seconds > 25 {
		seconds = 1
	}
	work := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer work.Stop()
	select {
	case <-work.C:
		fmt.Fprintln(w, "exported")
	case <-r.Context().Done():
	}
}

// devAnswer used ?tokens=N, 100 by default, of what was reserved.
func devAnswer(w http.ResponseWriter, r *http.Request) {
	used, err := strconv.ParseInt(r.URL.Query().Get("tokens"), 10, 64)
	if err != nil || used < 0 {
		used = 100
	}
	settled, err := httplimit.Settle(r.Context(), used)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !settled.Settled:
		http.Error(w, settled.Detail, http.StatusInternalServerError)
	default:
		fmt.Fprintf(w, "used %d of %d reserved, %d went back\n", used, int64(devAnswerBound), settled.Returned)
	}
}

// devMapping is what Envoy's descriptors mean in `dev`.
func devMapping() (*envoy.Mapping, error) {
	return envoy.ParseMapping("built-in mapping", envoy.FailClosedMapping())
}
