package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// DefaultPath is where brokers serve the page.
const DefaultPath = "/ui/"

//go:embed page
var page embed.FS

// index is the file that a folder stands for.
const index = "index.html"

// rootMark stands in index.html for the way from the page to the broker's root.
const rootMark = "{{root}}"

// policy is the page's content security policy. It allows the files that are
// served beside it and requests to its own origin, and nothing else; trusted types
// without a policy keep script from making HTML out of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// types of the page's files, so that none is left to the system's table or to a
// guess.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is a file of the page as it is served.
type file struct {
	content []byte
	kind    string
	tag     string
}

// Handler serves the page. Make one with New.
type Handler struct {
	path  string
	files map[string]file
	names []string
}

// Config of the page.
type Config struct {
	// Path that the page is served under: it begins and ends with a slash. Default
	// DefaultPath.
	Path string
	// Names by which the broker is reached, besides localhost and IP addresses: see
	// Guard.
	Names []string
}

// CheckPath says what is wrong with a path to serve under.
func CheckPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/") || !strings.HasSuffix(p, "/"):
		return fmt.Errorf("the dashboard's path %q must begin and end with a slash, as %s does", p, DefaultPath)
	case p == "/" || strings.HasPrefix(p, "/tokenlease.") || strings.HasPrefix(p, "/grpc."):
		return fmt.Errorf("the dashboard's path must not be %s, where the services are: choose one such as %s", p, DefaultPath)
	case path.Clean(p)+"/" != p || strings.ContainsFunc(p, unlikely):
		return fmt.Errorf("the dashboard's path %q must be of letters, digits, '.', '_' and '-' between slashes", p)
	}
	return nil
}

// unlikely says that a path must not have the character, so that it means the same
// to every router and in every header.
func unlikely(r rune) bool {
	return !strings.ContainsRune("/._-", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// New makes the page's handler. It fails on a path that CheckPath refuses.
func New(cfg Config) (*Handler, error) {
	if cfg.Path == "" {
		cfg.Path = DefaultPath
	}
	if err := CheckPath(cfg.Path); err != nil {
		return nil, err
	}
	h := &Handler{path: cfg.Path, files: map[string]file{}, names: cfg.Names}
	// The way back is relative, so that the page works behind a proxy that adds a
	// prefix.
	root := strings.Repeat("../", strings.Count(cfg.Path, "/")-1)
	return h, fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := page.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "page/")
		if name == index {
			content = bytes.ReplaceAll(content, []byte(rootMark), []byte(root))
		}
		sum := sha256.Sum256(content)
		h.files[name] = file{content: content, kind: types[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		return nil
	})
}

// Path is where the page is served.
func (h *Handler) Path() string { return h.path }

// Mount adds the page to mux, and sends people who ask for the root of the broker
// to it.
func (h *Handler) Mount(mux *http.ServeMux) {
	mux.Handle(h.path, h)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		// Relative, as the way back is.
		w.Header().Set("Location", strings.TrimPrefix(h.path, "/"))
		w.WriteHeader(http.StatusFound)
	})
}

// ServeHTTP answers GET and HEAD for the page's files.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	secure(w.Header())
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read with GET", http.StatusMethodNotAllowed)
		return
	}
	if err := checkName(req, h.names); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if embedded(req) {
		http.Error(w, "the page is not for other sites: open it by itself", http.StatusForbidden)
		return
	}
	name, under := strings.CutPrefix(req.URL.Path, h.path)
	if name == "" {
		name = index
	}
	f, ok := h.files[name]
	if !under || !ok {
		http.Error(w, "no such file: the page is at "+h.path, http.StatusNotFound)
		return
	}
	// The browser asks again each time, and gets an empty answer unless the broker
	// was upgraded: then all modules are of the new version.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, req, name, time.Time{}, bytes.NewReader(f.content))
}

// secure sets what every answer of the page says to browsers, refusals included.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// embedded says that another site asks for a part of the page, rather than a
// person for the page: to follow a link is fine, to load a script is not.
func embedded(req *http.Request) bool {
	switch req.Header.Get(fetchSite) {
	case "", "same-origin", "none":
		return false
	}
	return req.Header.Get("Sec-Fetch-Mode") != "navigate" || req.Header.Get("Sec-Fetch-Dest") != "document"
}
