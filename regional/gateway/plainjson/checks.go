package plainjson

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/jsonbody"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// check is one check as it was asked.
type check struct {
	apiKey, endpoint string
	count            decision.Cost // requestCount
}

// checkFields are the fields of a check.
func (c *check) fields() []field {
	return []field{
		{"apiKey", true, func(d *decoder, path string) error { return d.text(path, &c.apiKey) }},
		{"endpoint", true, func(d *decoder, path string) error { return d.text(path, &c.endpoint) }},
		{"requestCount", false, func(d *decoder, path string) error {
			c.count.Given = true
			return d.number(path, &c.count.Tokens)
		}},
	}
}

// readCheck reads the body of a check.
func readCheck(body []byte) (check, error) {
	var c check
	if err := readBody(body, c.fields()); err != nil {
		return check{}, err
	}
	return c, nil
}

// readBatch reads the body of a batch.
func readBatch(body []byte) ([]check, error) {
	var checks []check
	err := readBody(body, []field{{"requests", true, func(d *decoder, path string) error {
		return d.list(path, MaxBatch, func(path string) error {
			var c check
			err := d.object(path, c.fields())
			checks = append(checks, c)
			return err
		})
	}}})
	if err != nil {
		return nil, err
	}
	return checks, nil
}

// request is the decision that a check asks for.
func (a *API) request(c check) (decision.Request, error) {
	var r decision.Request
	if c.apiKey == "" {
		return r, fault("apiKey", "is empty")
	}
	endpoint := Endpoint{Operation: c.endpoint}
	if a.cfg.Endpoints != nil {
		var known bool
		if endpoint, known = a.cfg.Endpoints[c.endpoint]; !known {
			return r, fault("endpoint", "is not known here: ask the operator of the limiter to map it to an operation")
		}
	}
	account, err := a.cfg.Account(c.apiKey)
	if err != nil {
		return r, fault("apiKey", "%w", err)
	}
	r.Key = lease.Key{Account: account, Operation: endpoint.Operation}
	if r.Cost, err = costOf(endpoint, c.count); err != nil {
		return r, err
	}
	return r, checkKey("the account of apiKey", r.Key)
}

// costOf is the cost of so many requests.
func costOf(e Endpoint, count decision.Cost) (decision.Cost, error) {
	switch {
	case !count.Given && e.Cost == 0:
		return decision.Cost{}, nil
	case !count.Given:
		return decision.Tokens(e.Cost), nil
	case count.Tokens > math.MaxInt64/max(1, e.Cost):
		return decision.Cost{}, fault("requestCount", "costs more than can be counted: want less")
	}
	return decision.Tokens(count.Tokens * max(1, e.Cost)), nil
}

// result is the body of a check. Status is set in batches.
type result struct {
	Status            int    `json:"status,omitempty"`
	Allowed           bool   `json:"allowed"`
	Reason            string `json:"reason"`
	Limit             *int64 `json:"limit,omitempty"`
	Remaining         *int64 `json:"remaining,omitempty"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty"`
	Shadow            bool   `json:"shadow,omitempty"`
	Detail            string `json:"detail,omitempty"`
}

// resultOf is the body of an answer whose header fields are set.
func resultOf(h http.Header, answer decision.Answer) result {
	r := result{
		Allowed: httpanswer.Admitted(answer), Reason: httpanswer.Word(answer.Reason),
		RetryAfterSeconds: retryAfter(h), Shadow: answer.Shadow,
	}
	r.Limit, r.Remaining = numbers(answer)
	if len(answer.Detail) <= 1024 {
		r.Detail = answer.Detail
	}
	return r
}

// retryAfter is the Retry-After that was drawn for an answer; 0: none.
func retryAfter(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get(httpanswer.FieldRetryAfter), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Check decides one check of an API key.
func (a *API) Check() http.Handler {
	read := func(body []byte) (decision.Request, error) {
		c, err := readCheck(body)
		if err != nil {
			return decision.Request{}, err
		}
		return a.request(c)
	}
	return post(MaxBodyBytes, read, func(rw http.ResponseWriter, req *http.Request, asked decision.Request) {
		answer := a.cfg.Decider.Decide(req.Context(), asked)
		a.cfg.Answers.Headers(rw.Header(), answer)
		jsonbody.Write(rw, httpanswer.Status(answer), resultOf(rw.Header(), answer))
	})
}

// batch is the body of the answer to a batch.
type batch struct {
	Responses []result `json:"responses"`
}

// Batch decides several checks, each on its own.
func (a *API) Batch() http.Handler {
	return post(MaxBatchBytes, readBatch, func(rw http.ResponseWriter, req *http.Request, checks []check) {
		jsonbody.Write(rw, http.StatusOK, batch{a.decideAll(req.Context(), checks)})
	})
}

// decideAll decides checks of one budget in order, and those of several side by
// side, since some may have to wait for a first grant.
func (a *API) decideAll(ctx context.Context, checks []check) []result {
	results := make([]result, len(checks))
	byKey := map[lease.Key][]int{}
	asked := make([]decision.Request, len(checks))
	for i, c := range checks {
		var err error
		if asked[i], err = a.request(c); err != nil {
			results[i] = a.result(decision.Invalid(err.Error()))
			continue
		}
		byKey[asked[i].Key] = append(byKey[asked[i].Key], i)
	}
	var group sync.WaitGroup
	for _, indices := range byKey {
		group.Go(func() {
			for _, i := range indices {
				results[i] = a.result(a.cfg.Decider.Decide(ctx, asked[i]))
			}
		})
	}
	group.Wait()
	return results
}

// result is an answer in a batch.
func (a *API) result(answer decision.Answer) result {
	h := http.Header{}
	a.cfg.Answers.Headers(h, answer)
	r := resultOf(h, answer)
	r.Status = httpanswer.Status(answer)
	return r
}
