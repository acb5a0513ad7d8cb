package dashboard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// fetchSite is the header in which browsers tell whose request it is.
const fetchSite = "Sec-Fetch-Site"

// Guard refuses requests that a browser makes for somebody else, with status 403,
// before next sees them:
//
//   - Whatever may change something (every method but GET, HEAD and OPTIONS, so
//     every RPC) from another origin. Without it, any site could retire a holder by
//     the certificate of an operator who looks at it. What such a site GETs, the
//     browser itself keeps from it.
//   - Everything from a page of this origin, if the origin's name is not the server's:
//     a site can have its own name resolve to 127.0.0.1, and is then of the same
//     origin for the browser, which shows it all answers. IP addresses and localhost
//     cannot be had that way; other names must be among names. Over TLS the
//     certificate has proven the name already.
//
// Browsers are known by what a page cannot leave out: Origin or Sec-Fetch-Site, and
// where they send neither, as when a page in clear text reads from its own origin,
// Accept-Language or the User-Agent. Requests without all of these pass as they are.
func Guard(next http.Handler, names ...string) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		err := origins.Check(req)
		if err == nil && fromBrowser(req) {
			err = checkName(req, names)
		}
		if err != nil {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// fromBrowser says that a browser has made the request. Origin comes with every
// request that may change something; with one that reads, there may be nothing but
// what browsers say of themselves. A page can choose the value of Accept-Language,
// but not that there is one.
func fromBrowser(req *http.Request) bool {
	if req.Header.Get("Origin") != "" || req.Header.Get(fetchSite) != "" {
		return true
	}
	_, speaks := req.Header["Accept-Language"]
	return reads(req.Method) && (speaks || strings.HasPrefix(req.Header.Get("User-Agent"), "Mozilla/"))
}

// reads says that requests of the method change nothing.
func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// checkName refuses a request in clear text to a name that somebody else may have
// pointed at this server.
func checkName(req *http.Request, names []string) error {
	if req.TLS != nil {
		return nil
	}
	name := req.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || name == "localhost" {
		return nil
	}
	if slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) }) {
		return nil
	}
	return fmt.Errorf("%.100q is not a name of this server: use its IP address or localhost, or add the name with --dashboard-names of a broker", name)
}
