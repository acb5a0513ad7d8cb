package plainconfig

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// Within is the service that a handler of this process serves. It is called with the
// context of the caller's request and its address: so what stands before the service
// knows the caller, and authorises, limits and counts it as it would for the same
// call over the network.
func Within(server http.Handler) Admin {
	return tokenleasev1connect.NewAdminClient(&http.Client{Transport: within{server}}, "http://within")
}

// remoteKey has the address of the caller.
type remoteKey struct{}

func withRemote(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, remoteKey{}, address)
}

// within is a network of one server: a request is a call of its handler.
type within struct{ server http.Handler }

// RoundTrip implements http.RoundTripper, for answers that are not streams.
func (w within) RoundTrip(req *http.Request) (*http.Response, error) {
	asked := req.Clone(req.Context())
	asked.RemoteAddr, _ = req.Context().Value(remoteKey{}).(string)
	asked.RequestURI = req.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	defer asked.Body.Close()
	answer := &answerBuffer{header: http.Header{}}
	w.server.ServeHTTP(answer, asked)
	answer.WriteHeader(http.StatusOK)
	return &http.Response{
		StatusCode: answer.status, Header: answer.sent, Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, req.Context().Err()
}

// answerBuffer keeps an answer.
type answerBuffer struct {
	header, sent http.Header
	status       int // 0: not yet
	body         bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answerBuffer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. The first counts.
func (a *answerBuffer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (a *answerBuffer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(data)
}
