package plainconfig_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/plainconfig"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// version is the policy version in force.
func (c *cluster) version() int64 {
	c.t.Helper()
	listed, err := c.admin.ListPolicies(c.t.Context(), connect.NewRequest(&pb.ListPoliciesRequest{}))
	if err != nil {
		c.t.Fatal(err)
	}
	return listed.Msg.GetVersion()
}

// problem is the body of a refusal.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// requireRefused wants a problem with the status, and that nothing was changed.
func (c *cluster) requireRefused(rec *httptest.ResponseRecorder, status int, detail string) {
	c.t.Helper()
	var p problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		c.t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	if rec.Code != status || p.Status != status || p.Title != http.StatusText(status) || p.Detail != detail {
		c.t.Errorf("got %d %s\nwant %d %s", rec.Code, rec.Body, status, detail)
	}
	if got := rec.Header().Get("Content-Type"); got != "application/problem+json" {
		c.t.Errorf("Content-Type %q", got)
	}
	if rec.Body.Len() > 4096 {
		c.t.Errorf("the answer has %d bytes", rec.Body.Len())
	}
	if got := c.version(); got != 1 {
		c.t.Errorf("version %d is in force: something was changed", got)
	}
}

func TestCase48BodiesAreReadStrictly(t *testing.T) {
	c := start(t)
	limit := func(fields string) string {
		return `{"plan":"a","limits":[{"operation":"o",` + fields + `}]}`
	}
	const bucket = `"token-bucket":{"capacity":1}`
	for _, test := range []struct{ body, detail string }{
		{limit(`"token-bucket":{"capacity":1.5}`), `limits[0].token-bucket.capacity: "1.5" is not whole: want a whole number of tokens`},
		{limit(`"token-bucket":{"capacity":1e3}`), `limits[0].token-bucket.capacity: "1e3" has an exponent: want a whole number with all its digits`},
		{limit(`"token-bucket":{"capacity":-1}`), `limits[0].token-bucket.capacity: "-1" is negative: want 0 or more`},
		{limit(`"token-bucket":{"capacity":"40"}`), `limits[0].token-bucket.capacity: "40" is text: want a whole number without quotes`},
		{limit(`"token-bucket":{"capacity":null}`), `limits[0].token-bucket.capacity: "null" is empty: want a whole number`},
		{limit(`"token-bucket":{"capacity":9223372036854775808}`), `limits[0].token-bucket.capacity: "9223372036854775808" is too large: want at most 9223372036854775807`},
		{limit(`"token-bucket":{"capacity":010}`), `the body is not JSON, at byte 68: invalid character '1' after object key:value pair`},
		{limit(`"token-bucket":{"capacity":1,"refill":"20/s"}`), `limits[0].token-bucket.refill: "20/s" is not a refill: want 20 per 1s`},
		{limit(`"token-bucket":{"capacity":1,"capacity":2}`), `limits[0].token-bucket.capacity: stands twice, first in line 1: remove one`},
		{limit(bucket + `,"concurrency":{"slots":1}`), `limits[0].concurrency: is a second rule, beside token-bucket in line 1: want one`},
		{limit(bucket + `,"max-share":60`), `limits[0].max-share: is "60": want 1% to 100%, in whole percent`},
		{limit(bucket + `,"shadow":"true"`), `limits[0].shadow: is "true": want true or false`},
		{limit(bucket + `,"maxCost":5`), `limits[0].maxCost: is unknown: did you mean max-cost?`},
		{`{"plan":"a","limits":[{"operation":"o",` + bucket + `},{"operation":"o",` + bucket + `}]}`, `limits[1].operation: "o" has a policy already, in line 1: want one for each operation`},
		{`{"plan":"a","limits":null}`, `limits: is "null": want a list of policies`},
		{`{"plan":"a","limits":{}}`, `limits: is a group of fields: want a list of policies`},
		{`{"plan":"a"}`, `the body names a plan alone: want its limits, or the account to assign to it`},
		{`{"plan":"a","account":"Acme","limits":[]}`, `limits: are of a plan, and account assigns an account to it: want one of them`},
		{`{"limits":[]}`, `plan: is missing`},
		{`{"plan":"a b","limits":[]}`, `plan: "a b" is no name of a plan: want letters, digits, '.', '_' and '-' alone`},
		{`{"plan":12,"limits":[]}`, `plan: "12" reads as something else than a name: put it in quotes`},
		{`{"plan":"a","account":7}`, `account: "7" reads as something else than a name: put it in quotes`},
		{`{"plan":"a","account":""}`, `account: has 0 bytes: want 1 to 256`},
		{`{"plan":"a","account":"\u0000"}`, `account: "\x00" has a control character: remove it`},
		{`{"plan":"a","account":"\ud800"}`, `the body is not UTF-8: half a character is escaped before byte 30`},
		{`{"plan":"a","account":"` + strings.Repeat("b", 257) + `"}`, `account: has 257 bytes: want 1 to 256`},
		{`{"Plan":"a","limits":[]}`, `Plan: is unknown: did you mean plan?`},
		{`{"plan":"a","limits":[],"if-version":"1"}`, `if-version: "1" is text: want a whole number without quotes`},
		{`{"plan":"a","limits":[],"` + strings.Repeat("x", 5000) + `":1}`, `"` + strings.Repeat("x", 40) + `"...: is unknown: want one of plan, limits, account, because, by, if-version`},
		{`{"plan":"a","limits":[],"by":""}`, `by: has 0 bytes: want 1 to 128`},
		{`{"plan":"a","limits":[]} {}`, `the body is not JSON, at byte 26: invalid character '{' after top-level value`},
		{`[]`, `is a list: want the fields plan, limits, account, because, by, if-version`},
		{" ", `the body is empty: want a JSON object`},
		{"{\"plan\":\"\xff\"}", `the body is not UTF-8`},
		{`{"plan":"a","limits":[` + strings.TrimSuffix(strings.Repeat(`{"operation":1},`, 60), ",") + `]}`, `limits[0].operation: "1" reads as something else than a name: put it in quotes`},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			c.requireRefused(c.ask(method, "/v1/config/plan", test.body), http.StatusBadRequest, test.detail)
		}
	}
	many := `{"plan":"a","limits":[`
	for i := range pb.MaxPolicies + 1 {
		many += `{"operation":"o` + strconv.Itoa(i) + `",` + bucket + `},`
	}
	rec := c.ask(http.MethodPut, "/v1/config/plan", strings.TrimSuffix(many, ",")+"]}")
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "1000") {
		t.Errorf("too many limits: %d %.300s", rec.Code, rec.Body)
	}
}

// TestPaymentIsRefusedByName: whatever is about money, wherever it stands.
func TestPaymentIsRefusedByName(t *testing.T) {
	c := start(t)
	const said = "payment is not handled here: this API sets limits alone"
	for _, name := range []string{"payment", "price", "card", "billing", "amount", "currency", "invoice", "cardNumber", "PRICE", "monthly_price", "payment-method", "creditCard", "creditcard", "CardNumbers", "pay", "bill", "pay1"} {
		c.requireRefused(c.ask(http.MethodPost, "/v1/config/plan", `{"plan":"a","limits":[],"`+name+`":"1"}`), http.StatusBadRequest, name+": "+said)
		c.requireRefused(c.ask(http.MethodPut, "/v1/config/plan", `{"plan":"a","limits":[{"operation":"o","token-bucket":{"capacity":1,"`+name+`":{}}}]}`),
			http.StatusBadRequest, "limits[0].token-bucket."+name+": "+said)
		for _, target := range []string{"/v1/config/limit?account=a&operation=o&", "/v1/config/limits?"} {
			c.requireRefused(c.ask(http.MethodGet, target+name+"=1", ""), http.StatusBadRequest, `the parameter "`+name+`": `+said)
		}
		c.requireRefused(c.ask(http.MethodDelete, "/v1/config/plan?plan=a&"+name+"=1", ""), http.StatusBadRequest, `the parameter "`+name+`": `+said)
	}
	// An operation may be called so: it is a value.
	if rec := c.ask(http.MethodPost, "/v1/config/plan", `{"plan":"a","limits":[{"operation":"invoice.create","token-bucket":{"capacity":1}}]}`); rec.Code != http.StatusCreated {
		t.Errorf("an operation with such a name: %d %s", rec.Code, rec.Body)
	}
}

func TestRequestsThatAreNotUnderstood(t *testing.T) {
	c := start(t)
	for _, test := range []struct {
		method, target, body string
		status               int
		detail               string
	}{
		{"GET", "/v1/config/limit?account=Acme", "", 400, "operation: must have 1 to 128 bytes, has 0"},
		{"GET", "/v1/config/limit?operation=o", "", 400, "account: must have 1 to 256 bytes, has 0"},
		{"GET", "/v1/config/limit?account=a&operation=o&account=b", "", 400, `the parameter "account": stands twice`},
		{"GET", "/v1/config/limit?account=a&operation=o&plan=b", "", 400, `the parameter "plan": is unknown: want account, operation`},
		{"GET", "/v1/config/limit?account=%zz&operation=o", "", 400, "the query is not understood: want parameters such as ?operation=report.create"},
		{"GET", "/v1/config/limit?account=a&operation=o%00", "", 400, "operation: must have no control characters, has U+0000 at byte 1"},
		{"GET", "/v1/config/limit?account=a&operation=none", "", 404, "no policy rules the operation for this account, so all of it is denied: /v1/config/limits lists those that are ruled"},
		{"GET", "/v1/config/limits?account=", "", 400, "account: must have 1 to 256 bytes, has 0"},
		{"GET", "/v1/config/limits?operation=o", "", 400, `the parameter "operation": is unknown: want account`},
		{"POST", "/v1/config/limit?account=a&operation=o", "{}", 405, "the method is not allowed here: want GET or HEAD"},
		{"DELETE", "/v1/config/limits", "", 405, "the method is not allowed here: want GET or HEAD"},
		{"GET", "/v1/config/plan", "", 405, "the method is not allowed here: want DELETE or POST or PUT"},
		{"PATCH", "/v1/config/plan", "{}", 405, "the method is not allowed here: want DELETE or POST or PUT"},
		{"POST", "/v1/config/plan?plan=a", `{"plan":"a","limits":[]}`, 400, `the parameter "plan": is unknown: no parameters are wanted here`},
		{"POST", "/v1/config/plan", "", 415, "there are 0 Content-Types: want Content-Type: application/json"},
		{"PUT", "/v1/config/plan", `{"plan":"` + strings.Repeat("a", plainconfig.MaxBodyBytes) + `"}`, 413, "the body is too large: want at most 262144 bytes"},
		{"DELETE", "/v1/config/plan", "", 400, "want one of the parameters plan, to delete a plan, and account, to take an account off its plan"},
		{"DELETE", "/v1/config/plan?plan=a&account=b", "", 400, "want one of the parameters plan, to delete a plan, and account, to take an account off its plan"},
		{"DELETE", "/v1/config/plan?plan=a", `{"plan":"a"}`, 400, "a body is not wanted here: name the plan or the account in the query, as in /v1/config/plan?plan=premium"},
		{"DELETE", "/v1/config/plan?plan=a", "", 404, "there is no such plan: /v1/config/limits lists those that are"},
		{"DELETE", "/v1/config/plan?account=Acme", "", 404, "the account is on no plan of its own, so on the default plan"},
		{"PUT", "/v1/config/plan", `{"plan":"a","limits":[],"if-version":7}`, 409, ""},
	} {
		rec := c.ask(test.method, test.target, test.body)
		detail := test.detail
		if detail == "" { // the broker's words
			var p problem
			_ = json.Unmarshal(rec.Body.Bytes(), &p)
			detail = p.Detail
		}
		c.requireRefused(rec, test.status, detail)
		if (rec.Header().Get("Allow") != "") != (test.status == 405) {
			t.Errorf("%s %s: Allow %q", test.method, test.target, rec.Header().Get("Allow"))
		}
	}
}

func TestDisabledIsTold(t *testing.T) {
	c := start(t)
	for _, operation := range []string{"report.create", "login"} {
		_, err := c.admin.DisableOperation(t.Context(), connect.NewRequest(&pb.DisableOperationRequest{Operation: operation, DisabledBy: "ann", Because: "abuse"}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"/v1/config/limits", "/v1/config/limits?account=Acme"} {
		var got struct {
			Limits []struct {
				Operation string          `json:"operation"`
				From      string          `json:"from"`
				Limit     json.RawMessage `json:"limit"`
				Disabled  *struct {
					Because string `json:"because"`
					By      string `json:"by"`
				} `json:"disabled"`
			} `json:"limits"`
		}
		if err := json.Unmarshal(c.ask(http.MethodGet, target, "").Body.Bytes(), &got); err != nil || len(got.Limits) != 2 {
			t.Fatalf("%s: %v, %v", target, got, err)
		}
		login, create := got.Limits[0], got.Limits[1]
		if login.Operation != "login" || login.Disabled == nil || login.Limit != nil || login.From != "" {
			t.Errorf("%s: login %v", target, login)
		}
		if create.Disabled == nil || create.Disabled.Because != "abuse" || create.Disabled.By != "ann" || bytes.Contains(create.Limit, []byte("disabled")) {
			t.Errorf("%s: report.create %v", target, create)
		}
	}
}

// TestCase49AccountsByTheirCase: Acme and acme are two.
func TestCase49AccountsByTheirCase(t *testing.T) {
	c := start(t)
	c.applyFile("plans: [{plan: a, policies: [{operation: o, token-bucket: {capacity: 1}}]}]\naccounts: [{account: Acme, plan: a}]")
	if rec := c.ask(http.MethodGet, "/v1/config/limit?account=Acme&operation=o", ""); rec.Code != http.StatusOK {
		t.Errorf("Acme: %d %s", rec.Code, rec.Body)
	}
	if rec := c.ask(http.MethodGet, "/v1/config/limit?account=acme&operation=o", ""); rec.Code != http.StatusNotFound {
		t.Errorf("acme: %d %s", rec.Code, rec.Body)
	}
	if rec := c.ask(http.MethodDelete, "/v1/config/plan?account=acme", ""); rec.Code != http.StatusNotFound {
		t.Errorf("acme is taken off its plan: %d %s", rec.Code, rec.Body)
	}
}

// TestAssigningKeepsWhatAnAccountHas: its own policies go on.
func TestAssigningKeepsWhatAnAccountHas(t *testing.T) {
	c := start(t)
	c.applyFile("plans: [{plan: a}, {plan: b}]\naccounts: [{account: Acme, plan: a, policies: [{operation: o, token-bucket: {capacity: 7}}]}]")
	own := func() string {
		return c.ask(http.MethodGet, "/v1/config/limit?account=Acme&operation=o", "").Body.String()
	}
	for _, step := range []struct {
		method, target, body string
		status               int
		plan                 string
	}{
		{"POST", "/v1/config/plan", `{"account":"Acme","plan":"b"}`, 409, `"plan":"a"`},
		{"POST", "/v1/config/plan", `{"account":"Acme","plan":"a"}`, 201, `"plan":"a"`}, // a repetition
		{"PUT", "/v1/config/plan", `{"account":"Acme","plan":"b"}`, 200, `"plan":"b"`},
		{"DELETE", "/v1/config/plan?account=Acme", "", 200, `"from":"account"`},
		{"POST", "/v1/config/plan", `{"account":"Acme","plan":"b"}`, 201, `"plan":"b"`},
	} {
		if rec := c.ask(step.method, step.target, step.body); rec.Code != step.status {
			t.Errorf("%s %s: %d %s", step.method, step.body, rec.Code, rec.Body)
		}
		if got := own(); !strings.Contains(got, `"capacity":7`) || !strings.Contains(got, step.plan) {
			t.Errorf("after %s %s the limit is %s", step.method, step.body, got)
		}
	}
}

// overtaken is a service on which somebody else changes something after it was read.
type overtaken struct {
	tokenleasev1connect.AdminClient

	change func()
}

func (o overtaken) ListAccounts(ctx context.Context, req *connect.Request[pb.ListAccountsRequest]) (*connect.Response[pb.ListAccountsResponse], error) {
	resp, err := o.AdminClient.ListAccounts(ctx, req)
	o.change()
	return resp, err
}

// TestOvertakenIsRefused: what another one has just given to an account is not lost.
func TestOvertakenIsRefused(t *testing.T) {
	c := start(t)
	c.applyFile("plans: [{plan: a}]")
	mux := http.NewServeMux()
	plainconfig.New(overtaken{c.admin, func() {
		c.applyFile("accounts: [{account: Acme, policies: [{operation: o, token-bucket: {capacity: 7}}]}]")
	}}).Mount(mux)
	c.api = mux
	if rec := c.ask(http.MethodPut, "/v1/config/plan", `{"account":"Acme","plan":"a"}`); rec.Code != http.StatusConflict {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	resp, err := c.admin.ListAccounts(t.Context(), connect.NewRequest(&pb.ListAccountsRequest{Account: "Acme"}))
	if err != nil || len(resp.Msg.GetAccounts()) != 1 || len(resp.Msg.GetAccounts()[0].GetPolicies()) != 1 {
		t.Errorf("the account has %v, %v", resp, err)
	}
}

// failing is a service that answers with an error.
type failing struct{ err error }

func (f failing) ListPolicies(context.Context, *connect.Request[pb.ListPoliciesRequest]) (*connect.Response[pb.ListPoliciesResponse], error) {
	return nil, f.err
}

func (f failing) ListAccounts(context.Context, *connect.Request[pb.ListAccountsRequest]) (*connect.Response[pb.ListAccountsResponse], error) {
	return nil, f.err
}

func (f failing) ApplyPolicies(context.Context, *connect.Request[pb.ApplyPoliciesRequest]) (*connect.Response[pb.ApplyPoliciesResponse], error) {
	return nil, f.err
}

func TestErrorsOfTheService(t *testing.T) {
	c := start(t)
	for code, status := range map[connect.Code]int{
		connect.CodeUnauthenticated: 401, connect.CodePermissionDenied: 403, connect.CodeResourceExhausted: 429, connect.CodeUnimplemented: 501,
		connect.CodeUnavailable: 503, connect.CodeDeadlineExceeded: 503, connect.CodeCanceled: 503, connect.CodeInternal: 500, connect.CodeUnknown: 500,
		connect.CodeFailedPrecondition: 409, connect.CodeInvalidArgument: 400, connect.CodeNotFound: 404, connect.CodeAborted: 409,
	} {
		mux := http.NewServeMux()
		plainconfig.New(failing{connect.NewError(code, errors.New("said by the broker"))}).Mount(mux)
		c.api = mux
		c.requireRefused(c.ask(http.MethodGet, "/v1/config/limits", ""), status, "said by the broker")
		c.requireRefused(c.ask(http.MethodPut, "/v1/config/plan", `{"plan":"a","limits":[]}`), status, "said by the broker")
	}
	mux := http.NewServeMux()
	plainconfig.New(failing{errors.New("secret")}).Mount(mux)
	c.api = mux
	c.requireRefused(c.ask(http.MethodGet, "/v1/config/limits", ""), 500, "the broker has failed")
}
