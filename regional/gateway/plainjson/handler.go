package plainjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

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
			refuse(rw, &rejection{http.StatusMethodNotAllowed, "the method is not allowed here: want GET"})
		case a.cfg.Ready == nil || a.cfg.Ready():
			write(rw, http.StatusOK, health{"ok"})
		default:
			write(rw, http.StatusServiceUnavailable, health{"unavailable"})
		}
	})
}

type health struct {
	Status string `json:"status"`
}

// rejection is why a request is not understood. Nothing was asked.
type rejection struct {
	status int
	detail string
}

// Error is the detail.
func (r *rejection) Error() string { return r.detail }

// invalid is a rejection of a body.
func invalid(err error) *rejection {
	if r := (*rejection)(nil); errors.As(err, &r) {
		return r
	}
	return &rejection{http.StatusBadRequest, err.Error()}
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
		return nil, &rejection{http.StatusMethodNotAllowed, "the method is not allowed here: want POST"}
	}
	if err := checkType(req.Header); err != nil {
		return nil, &rejection{http.StatusUnsupportedMediaType, err.Error()}
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, req.Body, most))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &rejection{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: want at most %d bytes", most)}
	}
	if err != nil {
		return nil, &rejection{http.StatusBadRequest, "the body ended early"}
	}
	return body, nil
}

// checkType holds a request to one Content-Type, application/json, without any
// other encoding than UTF-8.
func checkType(header http.Header) error {
	const want = "want Content-Type: application/json"
	types := header["Content-Type"]
	if len(types) != 1 {
		return fmt.Errorf("there are %d Content-Types: %s", len(types), want)
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return errors.New("the Content-Type is another one: " + want)
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return errors.New("the Content-Type has a parameter that is not charset=utf-8: " + want)
		}
	}
	if len(header["Content-Encoding"]) > 0 {
		return errors.New("the body is compressed: want it as it is")
	}
	return nil
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
func refuse(rw http.ResponseWriter, r *rejection) {
	rw.Header().Set("Content-Type", httpanswer.ProblemContentType)
	write(rw, r.status, problem{httpanswer.TypeBlank, http.StatusText(r.status), r.status, r.detail, "denied", false, "invalid"})
}

// write answers in JSON.
func write(rw http.ResponseWriter, status int, value any) {
	h := rw.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set(httpanswer.FieldCacheControl, "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	body, _ := json.Marshal(value) //nolint:errchkjson // texts and numbers
	rw.WriteHeader(status)
	rw.Write(append(body, '\n'))
}
