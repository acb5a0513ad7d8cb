package identity

import (
	"context"
	"net/http"
	"path"

	"connectrpc.com/connect"
)

// Handler lets requests in that may come in, and answers the others: methods in
// the form of their protocol, before the body is read, and paths with 401 or 403.
// It belongs around everything that a server serves. Where viewers may make dry runs,
// it lets them in to have the message read, and [Guard.Interceptor] judges by that.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connectionOf(r.Context())
		if c == nil { // a server without the hooks: each request is judged by itself
			c = &connection{}
			r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, c))
		}
		c.shown(r.TLS)
		if c.old() {
			w.Header().Set("Connection", "close") // over HTTP/2 as well: it says GOAWAY
		}
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			http.Error(w, "the path is not in its shortest form", http.StatusBadRequest)
			return
		}
		if _, refused := g.enter(c, r.Method, r.URL.Path, nobody); refused != nil {
			if _, refused = g.enter(c, r.Method, r.URL.Path, mayDryRun(r)); refused != nil {
				g.answer(w, r, refused)
				return
			}
			done, in := g.untilRead(w, r)
			if !in {
				return
			}
			defer done()
		}
		next.ServeHTTP(w, r)
	})
}

// answer tells a caller why its request was refused.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, refused *refusal) {
	err := g.note(refused, r.RemoteAddr)
	if _, known := methods[r.URL.Path]; known && g.writer.IsSupported(r) {
		_ = g.writer.Write(w, r, err) // the caller is gone
		return
	}
	status := http.StatusForbidden
	if refused.code == connect.CodeUnauthenticated {
		status = http.StatusUnauthorized
	}
	http.Error(w, refused.err.Error(), status)
}
