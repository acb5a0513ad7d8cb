package jsonbody

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Rejection is why a request is not understood.
type Rejection struct {
	// Status of the answer, such as 400.
	Status int
	// Detail says what is wrong and what would be right.
	Detail string
}

// Error is the detail.
func (r *Rejection) Error() string { return r.Detail }

// Read reads a body of at most so many bytes, which the header calls JSON. Whether
// it is, is left to be seen. The error is a *[Rejection]: 415 another type, 413 too
// large, 400 ended early.
func Read(rw http.ResponseWriter, req *http.Request, most int64) ([]byte, error) {
	if err := checkType(req.Header); err != nil {
		return nil, &Rejection{http.StatusUnsupportedMediaType, err.Error()}
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, req.Body, most))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &Rejection{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: want at most %d bytes", most)}
	}
	if err != nil {
		return nil, &Rejection{http.StatusBadRequest, "the body ended early"}
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

// Write answers with a value in JSON. The Content-Type is application/json unless
// the header has one. Nobody is to keep the answer.
func Write(rw http.ResponseWriter, status int, value any) {
	h := rw.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	body, _ := json.Marshal(value) //nolint:errchkjson // the answers are of texts, numbers and lists
	rw.WriteHeader(status)
	rw.Write(append(body, '\n'))
}
