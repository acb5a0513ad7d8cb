package plainjson

import (
	"errors"
	"net/http"

	"github.com/tokenlease/tokenlease/proto/jsonbody"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// The paths of Mount.
const (
	DecisionsPath = "/internal/rate-decisions"
	CheckPath     = "/v1/ratelimit/check"
	BatchPath     = "/v1/ratelimit/check/batch"
	HealthPath    = "/v1/health"
)

// API has the handlers. They may be used by any number of goroutines.
type API struct{ cfg Config }

// New fails if Validate does.
func New(cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Account == nil {
		cfg.Account = HashedKey
	}
	return &API{cfg}, nil
}

// Mount adds every handler under its path.
func (a *API) Mount(mux *http.ServeMux) {
	mux.Handle(DecisionsPath, a.Decisions())
	mux.Handle(CheckPath, a.Check())
	mux.Handle(BatchPath, a.Batch())
	mux.Handle(HealthPath, a.Health())
}

// Health tells whether the limiter can decide.
func (a *API) Health() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			rw.Header().Set("Allow", "GET, HEAD")
			refuse(rw, &jsonbody.Rejection{Status: http.StatusMethodNotAllowed, Detail: "the method is not allowed here: want GET"})
		case a.cfg.Ready == nil || a.cfg.Ready():
			jsonbody.Write(rw, http.StatusOK, health{"ok"})
		default:
			jsonbody.Write(rw, http.StatusServiceUnavailable, health{"unavailable"})
		}
	})
}

type health struct {
	Status string `json:"status"`
}

// invalid is a rejection of a body.
func invalid(err error) *jsonbody.Rejection {
	if r := (*jsonbody.Rejection)(nil); errors.As(err, &r) {
		return r
	}
	return &jsonbody.Rejection{Status: http.StatusBadRequest, Detail: err.Error()}
}

// post is a handler of bodies in JSON: read understands one, answer replies.
func post[T any](most int64, read func([]byte) (T, error), answer func(http.ResponseWriter, *http.Request, T)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		body, err := bodyOf(rw, req, most)
		if err != nil {
			refuse(rw, invalid(err))
			return
		}
		value, err := read(body)
		if err != nil {
			refuse(rw, invalid(err))
			return
		}
		answer(rw, req, value)
	})
}

// bodyOf reads a body in JSON of a bounded size.
func bodyOf(rw http.ResponseWriter, req *http.Request, most int64) ([]byte, error) {
	if req.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		return nil, &jsonbody.Rejection{Status: http.StatusMethodNotAllowed, Detail: "the method is not allowed here: want POST"}
	}
	return jsonbody.Read(rw, req, most)
}

// problem is the body of a rejection, by RFC 9457. It denies in the words of every
// endpoint.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Decision string `json:"decision"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason"`
}

// refuse answers a request that is not understood.
func refuse(rw http.ResponseWriter, r *jsonbody.Rejection) {
	rw.Header().Set("Content-Type", httpanswer.ProblemContentType)
	jsonbody.Write(rw, r.Status, problem{httpanswer.TypeBlank, http.StatusText(r.Status), r.Status, r.Detail, "denied", false, "invalid"})
}
