package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/grpcreflect"

	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// bodyTimeout is how long the body of a request may take to arrive. Until then the
// request holds a place among those under way, and nobody has decided anything.
const bodyTimeout = 10 * time.Second

// sendsForLong says that the body of a request is a stream of messages, which lasts
// as long as its caller likes. With certificates, these are open to roles alone.
func sendsForLong(path string) bool {
	return path == tokenleasev1connect.LimiterCheckStreamProcedure ||
		strings.HasPrefix(path, "/"+grpcreflect.ReflectV1ServiceName+"/") ||
		strings.HasPrefix(path, "/"+grpcreflect.ReflectV1AlphaServiceName+"/")
}

// bodiesWithin ends the reading of bodies that take longer than limit to arrive.
// How long a request takes once its body is there is no matter: it may hang, and
// its answer may be a stream.
//
// It belongs around everything else, so that it sees the writer of net/http.
func bodiesWithin(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || sendsForLong(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		body := &timedBody{ReadCloser: r.Body, control: http.NewResponseController(w), until: time.Now().Add(limit)}
		body.timer = time.AfterFunc(limit, body.late) // stopped by whole or left
		defer body.left()
		timed := *r // net/http goes by the type of its own body
		timed.Body = body
		next.ServeHTTP(w, &timed)
	})
}

// timedBody is a body that has to arrive in time.
//
// The deadline of the connection is set only once it has passed: to set and reset
// it for each request would cost more than the timer, and over HTTP/1.1 one that
// is left behind would end the request long after its body was read.
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
	until   time.Time
	timer   *time.Timer

	mu   sync.Mutex
	over bool // it is whole, or nobody reads it any more
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.end()
	}
	return n, err
}

// end stops the timer, and reports whether it was still to be stopped.
func (b *timedBody) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.over = true
	b.timer.Stop()
	return true
}

// late ends the reading, whoever reads.
func (b *timedBody) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // long ago
	}
}

// left is when the handler has answered. Over HTTP/1.1 the server still reads what
// is left of the body, within the same time; then it sets a deadline of its own.
func (b *timedBody) left() {
	if b.end() {
		_ = b.control.SetReadDeadline(b.until)
	}
}
