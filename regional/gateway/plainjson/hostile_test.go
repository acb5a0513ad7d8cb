package plainjson_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tokenlease/tokenlease/lease"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/plainjson"
)

// refused is the body of a request that is not understood.
func refused(status int, title, detail string) string {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.Encode(struct {
		Type     string `json:"type"`
		Title    string `json:"title"`
		Status   int    `json:"status"`
		Detail   string `json:"detail"`
		Decision string `json:"decision"`
		Allowed  bool   `json:"allowed"`
		Reason   string `json:"reason"`
	}{"about:blank", title, status, detail, "denied", false, "invalid"})
	return strings.TrimSuffix(body.String(), "\n")
}

// requireRefused posts a body that is not understood, after which nothing has been
// asked.
func requireRefused(t *testing.T, f *fake, got answer, status int, detail string) {
	t.Helper()
	got.check(t, status, refused(status, http.StatusText(status), detail))
	if got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("Content-Type is %q", got.header.Get("Content-Type"))
	}
	if len(got.body) > 600 {
		t.Errorf("the answer has %d bytes", len(got.body))
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d decisions were asked for, want none", n)
	}
}

// TestCase29Decisions: whatever is wrong with a body, the answer says what, it is
// short, and nothing has changed.
func TestCase29Decisions(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	const key = `"verifiedAccount":"acme","operation":"report.create"`
	const reserved = `, which is reserved for accounts that are not verified identities: give the identity another name`
	long := strings.Repeat("9", 1000)
	for _, tc := range []struct{ name, in, detail string }{
		{"nothing", "", "the body is empty: want a JSON object"},
		{"blanks", " \n", "the body is empty: want a JSON object"},
		{"a list", "[]", "the body must be an object, is a list"},
		{"null", "null", "the body must be an object, is null"},
		{"a text", `"x"`, "the body must be an object, is a text"},
		{"a number", `1`, "the body must be an object, is a number"},
		{"broken off", `{` + key, "the body is not JSON, at byte 53: unexpected end of JSON input"},
		{"trailing data", `{` + key + `}{}`, "the body is not JSON, at byte 55: invalid character '{' after top-level value"},
		{"a trailing comma", `{` + key + `,}`, "the body is not JSON, at byte 55: invalid character '}' looking for beginning of object key string"},
		{"NaN", `{` + key + `,"cost":NaN}`, "the body is not JSON, at byte 62: invalid character 'N' looking for beginning of value"},
		{"cost 010", `{` + key + `,"cost":010}`, "the body is not JSON, at byte 63: invalid character '1' after object key:value pair"},
		{"no account", `{"operation":"o"}`, "verifiedAccount: is missing"},
		{"no operation", `{"verifiedAccount":"a"}`, "operation: is missing"},
		{"an empty account", `{"verifiedAccount":"","operation":"o"}`, "verifiedAccount: must have 1 to 256 bytes, has 0"},
		{"an empty operation", `{"verifiedAccount":"a","operation":""}`, "operation: must have 1 to 128 bytes, has 0"},
		{"a long account", `{"verifiedAccount":"` + strings.Repeat("a", 257) + `","operation":"o"}`, "verifiedAccount: must have 1 to 256 bytes, has 257"},
		{"a long operation", `{"verifiedAccount":"a","operation":"` + strings.Repeat("o", 60_000) + `"}`, "operation: must have 1 to 128 bytes, has 60000"},
		{"an anonymous account", `{"verifiedAccount":"anonymous/shared","operation":"o"}`, `verifiedAccount: begins with "anonymous/"` + reserved},
		{"the account of a key", `{"verifiedAccount":"key:1","operation":"o"}`, `verifiedAccount: begins with "key:"` + reserved},
		{"a number for a text", `{"verifiedAccount":1,"operation":"o"}`, "verifiedAccount: must be a text, is a number"},
		{"null for a text", `{"verifiedAccount":null,"operation":"o"}`, "verifiedAccount: must be a text, is null"},
		{"an object for a text", `{"verifiedAccount":{},"operation":"o"}`, "verifiedAccount: must be a text, is an object"},
		{"a line end", `{"verifiedAccount":"a\n","operation":"o"}`, "verifiedAccount: must have no control characters"},
		{"NUL", `{"verifiedAccount":"a\u0000","operation":"o"}`, "verifiedAccount: must have no control characters"},
		{"no UTF-8", `{"verifiedAccount":"a` + "\xff" + `","operation":"o"}`, "the body is not UTF-8"},
		{"the first half of a character", `{"verifiedAccount":"a\ud83d","operation":"o"}`, "the body is not UTF-8: half a character is escaped before byte 28"},
		{"two first halves", `{"verifiedAccount":"\ud83d\ud83d","operation":"o"}`, "the body is not UTF-8: half a character is escaped before byte 32"},
		{"the second half", `{"verifiedAccount":"\\\ude00","operation":"o"}`, "the body is not UTF-8: half a character is escaped before byte 28"},
		{"another case", `{"VerifiedAccount":"a","operation":"o"}`, `the body has the unknown field "VerifiedAccount": want verifiedAccount, operation, cost, policyVersion, decisionId`},
		{"an unknown field", `{` + key + `,"costs":1}`, `the body has the unknown field "costs": want verifiedAccount, operation, cost, policyVersion, decisionId`},
		{"a long unknown field", `{"` + strings.Repeat("é", 9000) + `":1}`, `the body has the unknown field "` + strings.Repeat("é", 20) + `"...: want verifiedAccount, operation, cost, policyVersion, decisionId`},
		{"two accounts", `{` + key + `,"verifiedAccount":"evil"}`, "verifiedAccount: stands twice"},
		{"two accounts, one escaped", `{` + key + `,"verified\u0041ccount":"evil"}`, "verifiedAccount: stands twice"},
		{"two costs", `{` + key + `,"cost":1,"cost":1}`, "cost: stands twice"},
		{"a text for a cost", `{` + key + `,"cost":"5"}`, "cost: must be a whole number, is a text"},
		{"null for a cost", `{` + key + `,"cost":null}`, "cost: must be a whole number, is null"},
		{"true for a cost", `{` + key + `,"cost":true}`, "cost: must be a whole number, is true or false"},
		{"a list for a cost", `{` + key + `,"cost":[1]}`, "cost: must be a whole number, is a list"},
		{"cost 1.5", `{` + key + `,"cost":1.5}`, "cost: must be a whole number in plain digits, is 1.5"},
		{"cost 1.0", `{` + key + `,"cost":1.0}`, "cost: must be a whole number in plain digits, is 1.0"},
		{"cost 1e3", `{` + key + `,"cost":1e3}`, "cost: must be a whole number in plain digits, is 1e3"},
		{"cost -1", `{` + key + `,"cost":-1}`, "cost: must be 0 or more, is -1"},
		{"cost -0", `{` + key + `,"cost":-0}`, "cost: must be 0 or more, is -0"},
		{"cost 2^63", `{` + key + `,"cost":9223372036854775808}`, "cost: must be at most 9223372036854775807, is 9223372036854775808"},
		{"a cost of 1000 digits", `{` + key + `,"cost":` + long + `}`, "cost: must be at most 9223372036854775807, is " + long[:40] + "..."},
		{"a negative version", `{` + key + `,"policyVersion":-1}`, "policyVersion: must be 0 or more, is -1"},
		{"an empty ID", `{` + key + `,"decisionId":""}`, "decisionId: must have 1 to 128 bytes, has 0"},
		{"a long ID", `{` + key + `,"decisionId":"` + strings.Repeat("x", 129) + `"}`, "decisionId: must have 1 to 128 bytes, has 129"},
		{"an ID with a space", `{` + key + `,"decisionId":"a b"}`, "decisionId: must be printable ASCII without spaces, is not at byte 1"},
		{"an ID beyond ASCII", `{` + key + `,"decisionId":"é"}`, "decisionId: must be printable ASCII without spaces, is not at byte 0"},
		{"deep nesting", `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "the body is not JSON, at byte 10005: invalid character '[' exceeded max depth"},
	} {
		t.Run(tc.name, func(t *testing.T) { requireRefused(t, f, a.post(plainjson.DecisionsPath, tc.in), 400, tc.detail) })
	}
	requireRefused(t, f, a.post(plainjson.DecisionsPath, strings.Repeat(" ", 64<<10+1)), 413, "the body is too large: want at most 65536 bytes")
	requireRefused(t, f, a.post(plainjson.DecisionsPath, `{"verifiedAccount":"`+strings.Repeat("a", 10_000_000)), 413, "the body is too large: want at most 65536 bytes")
	padded := a.post(plainjson.DecisionsPath, strings.Repeat(" ", 64<<10-len(report("")))+report(""))
	if padded.status != 200 {
		t.Errorf("a body of 64 KiB is answered %d %s", padded.status, padded.body)
	}
}

func TestCase29Checks(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	for _, tc := range []struct{ name, in, detail string }{
		{"nothing", "", "the body is empty: want a JSON object"},
		{"no key", `{"endpoint":"e"}`, "apiKey: is missing"},
		{"an empty key", `{"apiKey":"","endpoint":"e"}`, "apiKey: is empty"},
		{"no endpoint", `{"apiKey":"k"}`, "endpoint: is missing"},
		{"an empty endpoint", `{"apiKey":"k","endpoint":""}`, "operation: must have 1 to 128 bytes, has 0"},
		{"another case", `{"apikey":"k","endpoint":"e"}`, `the body has the unknown field "apikey": want apiKey, endpoint, requestCount`},
		{"a count of 1.5", `{"apiKey":"k","endpoint":"e","requestCount":1.5}`, "requestCount: must be a whole number in plain digits, is 1.5"},
		{"a count of -1", `{"apiKey":"k","endpoint":"e","requestCount":-1}`, "requestCount: must be 0 or more, is -1"},
		{"two keys", `{"apiKey":"k","endpoint":"e","apiKey":"l"}`, "apiKey: stands twice"},
	} {
		t.Run(tc.name, func(t *testing.T) { requireRefused(t, f, a.post(plainjson.CheckPath, tc.in), 400, tc.detail) })
	}
	one := `{"apiKey":"k","endpoint":"e"}`
	for _, tc := range []struct{ name, in, detail string }{
		{"nothing", "", "the body is empty: want a JSON object"},
		{"no requests", `{}`, "requests: is missing"},
		{"no list", `{"requests":{}}`, "requests: must be a list, is an object"},
		{"an empty list", `{"requests":[]}`, "requests: must have 1 to 1000 elements, has 0"},
		{"1,001", `{"requests":[` + strings.Repeat(one+",", 1000) + one + `]}`, "requests: must have 1 to 1000 elements, has more"},
		{"a check that is none", `{"requests":[` + one + `,1]}`, "requests[1]: must be an object, is a number"},
		{"a field missing", `{"requests":[` + one + `,{"apiKey":"k"}]}`, "requests[1].endpoint: is missing"},
		{"an unknown field", `{"requests":[{"apiKey":"k","endpoint":"e","cost":1}]}`, `requests[0]: has the unknown field "cost": want apiKey, endpoint, requestCount`},
		{"a count of 1e3", `{"requests":[{"apiKey":"k","endpoint":"e","requestCount":1e3}]}`, "requests[0].requestCount: must be a whole number in plain digits, is 1e3"},
		{"two lists", `{"requests":[` + one + `],"requests":[` + one + `]}`, "requests: stands twice"},
		{"a field beside", `{"requests":[` + one + `],"x":1}`, `the body has the unknown field "x": want requests`},
	} {
		t.Run("batch/"+tc.name, func(t *testing.T) { requireRefused(t, f, a.post(plainjson.BatchPath, tc.in), 400, tc.detail) })
	}
	requireRefused(t, f, a.post(plainjson.CheckPath, strings.Repeat(" ", 64<<10+1)), 413, "the body is too large: want at most 65536 bytes")
	requireRefused(t, f, a.post(plainjson.BatchPath, strings.Repeat(" ", 1<<20+1)), 413, "the body is too large: want at most 1048576 bytes")
	full := a.post(plainjson.BatchPath, `{"requests":[`+strings.Repeat(one+",", 999)+one+`]}`)
	if full.status != 200 || strings.Count(full.body, `"status":`) != 1000 {
		t.Errorf("a batch of 1,000 is answered %d", full.status)
	}
}

// TestCase29Requests: methods and types.
func TestCase29Requests(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	plain := func(values ...string) http.Header { return http.Header{"Content-Type": values} }
	for path, body := range map[string]string{
		plainjson.DecisionsPath: report(""), plainjson.CheckPath: `{"apiKey":"k","endpoint":"quota"}`, plainjson.BatchPath: `{"requests":[{"apiKey":"k","endpoint":"quota"}]}`,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			got := a.do(method, path, body, plain("application/json"))
			requireRefused(t, f, got, 405, "the method is not allowed here: want POST")
			if got.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", got.header.Get("Allow"))
			}
		}
		for _, tc := range []struct {
			header http.Header
			detail string
		}{
			{http.Header{}, "there are 0 Content-Types: want Content-Type: application/json"},
			{plain("application/json", "application/json"), "there are 2 Content-Types: want Content-Type: application/json"},
			{plain("text/plain"), "the Content-Type is another one: want Content-Type: application/json"},
			{plain("application/x-www-form-urlencoded"), "the Content-Type is another one: want Content-Type: application/json"},
			{plain("application/json;;"), "the Content-Type is another one: want Content-Type: application/json"},
			{plain("application/json; charset=latin1"), "the Content-Type has a parameter that is not charset=utf-8: want Content-Type: application/json"},
			{plain("application/json; q=1"), "the Content-Type has a parameter that is not charset=utf-8: want Content-Type: application/json"},
			{http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, "the body is compressed: want it as it is"},
		} {
			requireRefused(t, f, a.do(http.MethodPost, path, body, tc.header), 415, tc.detail)
		}
	}
	for _, fine := range []string{"application/json", "Application/JSON; Charset=UTF-8", `application/json;charset="utf-8"`} {
		if got := a.do(http.MethodPost, plainjson.DecisionsPath, report(""), plain(fine)); got.status != 200 {
			t.Errorf("%s is answered %d %s", fine, got.status, got.body)
		}
	}
}

// A pair of escapes is one character, and an escaped backslash begins none.
func TestEscapesThatAreFine(t *testing.T) {
	f := newFake()
	a := serve(t, plainjson.Config{Decider: f})
	for in, want := range map[string]string{`\ud83d\ude00`: "😀", `\\ud83d`: `\ud83d`, `a\"b\/`: `a"b/`, `b\u00fccher`: "bücher"} {
		before := len(f.requests())
		got := a.post(plainjson.DecisionsPath, `{"verifiedAccount":"`+in+`","operation":"quota"}`)
		if got.status != 200 {
			t.Errorf("%s is answered %d %s", in, got.status, got.body)
		} else if account := f.requests()[before].Key.Account; account != want {
			t.Errorf("%s reads %q, want %q", in, account, want)
		}
	}
}

// fuzzBody posts a body to a handler in memory.
func fuzzBody(t *testing.T, path, body string) (*fake, *httptest.ResponseRecorder) {
	t.Helper()
	f := newFake()
	a, err := plainjson.New(plainjson.Config{Decider: f})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	a.Mount(mux)
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, req)
	if !json.Valid(rec.Body.Bytes()) || rec.Code == 0 {
		t.Errorf("%q is answered %d %q", body, rec.Code, rec.Body)
	}
	for _, r := range f.requests() {
		key := pb.BudgetKey{Account: r.Key.Account, Operation: r.Key.Operation}
		if err := key.Validate(); err != nil || r.Cost.Tokens < 0 || r.PolicyVersion < 0 || !utf8.ValidString(body) {
			t.Errorf("%q asks for %+v: %v", body, r, err)
		}
	}
	return f, rec
}

// FuzzDecisions holds what is asked against the reading of encoding/json.
func FuzzDecisions(f *testing.F) {
	f.Add(report(`,"cost":5,"policyVersion":3,"decisionId":"x"`))
	f.Add(`{"verifiedAccount":"\ud83d\ude00","operation":"\u0000"}`)
	f.Add(`{"verifiedAccount":"a","operation":"o","cost":-1e3}`)
	f.Add(`{"verifiedaccount":"a","operation":"o"} {}`)
	f.Fuzz(func(t *testing.T, body string) {
		asked, rec := fuzzBody(t, plainjson.DecisionsPath, body)
		requests := asked.requests()
		if len(requests) == 0 {
			if rec.Code < 400 {
				t.Errorf("%q passes without a decision", body)
			}
			return
		}
		var want struct {
			VerifiedAccount string `json:"verifiedAccount"`
			Operation       string `json:"operation"`
			DecisionID      string `json:"decisionId"`
			Cost            *int64 `json:"cost"`
			PolicyVersion   int64  `json:"policyVersion"`
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q is read, and is %v", body, err)
		}
		got := requests[0]
		if got.Key != (lease.Key{Account: want.VerifiedAccount, Operation: want.Operation}) || got.ID != want.DecisionID ||
			got.PolicyVersion != want.PolicyVersion || got.Cost.Given != (want.Cost != nil) || want.Cost != nil && got.Cost.Tokens != *want.Cost {
			t.Errorf("%q asks for %+v, want %+v", body, got, want)
		}
		if clientkey.CheckVerified(got.Key.Account) != nil {
			t.Errorf("%q is of a reserved account", body)
		}
	})
}

// FuzzChecks and FuzzBatch hold that one check is asked for by each that is read.
func FuzzChecks(f *testing.F) {
	f.Add(`{"apiKey":"k","endpoint":"e","requestCount":1}`)
	f.Add(`{"apiKey":"k","endpoint":"e","requestCount":9223372036854775808}`)
	f.Fuzz(func(t *testing.T, body string) {
		asked, rec := fuzzBody(t, plainjson.CheckPath, body)
		for _, r := range asked.requests() {
			if !strings.HasPrefix(r.Key.Account, "key:") || len(r.Key.Account) != 36 {
				t.Errorf("%q asks for the account %q", body, r.Key.Account)
			}
		}
		if len(asked.requests()) == 0 && rec.Code < 400 {
			t.Errorf("%q passes without a decision", body)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(`{"requests":[{"apiKey":"k","endpoint":"e"},{"apiKey":"","endpoint":"search","requestCount":0}]}`)
	f.Add(`{"requests":[[]]}`)
	f.Fuzz(func(t *testing.T, body string) {
		asked, rec := fuzzBody(t, plainjson.BatchPath, body)
		var got struct {
			Responses []struct {
				Status  int  `json:"status"`
				Allowed bool `json:"allowed"`
			} `json:"responses"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if rec.Code != 200 && (len(got.Responses) != 0 || len(asked.requests()) != 0) {
			t.Errorf("%q is refused and asks for %d decisions", body, len(asked.requests()))
		}
		if rec.Code == 200 && (len(got.Responses) == 0 || len(got.Responses) < len(asked.requests())) {
			t.Errorf("%q has %d answers to %d decisions", body, len(got.Responses), len(asked.requests()))
		}
		for _, r := range got.Responses {
			if r.Allowed != (r.Status == 200) {
				t.Errorf("%q is answered %+v", body, r)
			}
		}
	})
}
