// Package forwardauth answers proxies that ask a side service whether a request
// may pass: Traefik's ForwardAuth, Caddy's forward_auth, APISIX's forward-auth and
// NGINX's auth_request.
//
// # Who is believed
//
// The proxy has verified the caller and names the account in a header of its
// choice. So the handler answers peers of Config.Proxies alone; everybody else
// gets 403, and is counted. The proxy must set that header on every request, or
// remove it, so that a client cannot: all of these proxies pass a client's own
// headers on. A header that stands twice, or has a comma where one value is
// wanted, is refused: one of the two values may be the client's. So is an account
// of a reserved prefix (see package clientkey).
//
// # Which operation
//
// A fixed one, one that a header names, or that of the most specific rule by
// method and path of the original request. A rule's path covers itself and what is
// below it: /api covers /api, /api/ and /api/x, not /apis. The longest path goes
// first, and of two that are equal the one with the method. A rule for GET is for
// HEAD as well, unless there is one for HEAD. Queries do not count. What no rule
// covers is denied with 403, unless Config.Unmatched says otherwise.
//
// # Paths that can be read in two ways
//
// The rule is chosen by the path as the proxy received it, and the service behind
// it may read that path otherwise: /api/../admin, //admin, /api%2f..%2fadmin,
// /admin;x=1. Whoever could write /admin in a way that takes a rule with a cheaper
// operation would be rid of its limit. So
//
//   - a path with a dot segment, a backslash, a control character, bytes that are no
//     UTF-8, or an escape that is not valid, in any number of encodings, is refused
//     with 400;
//   - a path with an empty segment, an encoded slash, a path parameter (;), or
//     something encoded twice is decided by the segments before that, and refused
//     with 400 if a more specific rule begins with those segments, since then
//     another reading could take another rule. /files/a%2fb passes where /files has
//     rules at /files alone;
//   - percent-encoding of other characters is decoded: /%61dmin is /admin;
//   - case counts, unless Config.FoldCase says that the service takes no notice.
//
// Headers that override the method at the service are for the proxy to remove.
//
// # Answers
//
// 200 without a body where the request may pass, with the RateLimit fields of
// package httpanswer; else the problem that package describes. A proxy that gets no
// answer lets nothing pass, but for APISIX with allow_degradation.
//
// # Traefik, Caddy, APISIX
//
// Each names the original request in X-Forwarded-Method and X-Forwarded-Uri. Ask
// before anything rewrites the path. What has verified the account sets its header
// before.
//
//   - Traefik: leave trustForwardHeader off, which would let clients name method and
//     path. Its answer to a denial is this handler's. authResponseHeaders copies
//     fields of a 200 into the request to the service.
//   - Caddy: its answer to a denial is this handler's. copy_headers copies fields of a
//     200 into the request to the service.
//   - APISIX: extra_headers sets the account, never request_headers, which takes the
//     client's. Name Retry-After, RateLimit, RateLimit-Policy and Content-Type in
//     client_headers, or a denial is without them. upstream_headers copies fields of a
//     200 into the request to the service. Leave allow_degradation off, and
//     status_on_error a failure: 503.
//
// # NGINX
//
// auth_request knows 2xx, 401 and 403, and takes any other status as an error,
// which it answers with 500. With Config.DenyAs403 every denial is 403, and what
// could not be decided stays 503 (or 500, for want of a policy), which NGINX turns
// into 500. No answer is permission. X-Limit-Status has what a denial is, so that
// clients get 429 where a budget is used up, and only there:
//
//	location / {
//	    auth_request     /_limit;
//	    auth_request_set $limit_status $upstream_http_x_limit_status;
//	    auth_request_set $limit_retry  $upstream_http_retry_after;
//	    auth_request_set $limit_state  $upstream_http_ratelimit;
//	    auth_request_set $limit_policy $upstream_http_ratelimit_policy;
//	    add_header       RateLimit        $limit_state;
//	    add_header       RateLimit-Policy $limit_policy;
//	    error_page       403 = @limited;
//	    error_page       500 = @undecided;
//	    proxy_pass       http://service;
//	}
//	location @limited {
//	    add_header Retry-After $limit_retry always;
//	    add_header RateLimit   $limit_state always;
//	    if ($limit_status = 429) { return 429; }
//	    return     403;
//	}
//	location @undecided {
//	    add_header Retry-After $limit_retry always;
//	    return     503;
//	}
//	location = /_limit {
//	    internal;
//	    proxy_pass              http://127.0.0.1:7700/forward-auth;
//	    proxy_pass_request_body off;
//	    proxy_set_header        Content-Length    "";
//	    proxy_set_header        X-Account         $verified_account;
//	    proxy_set_header        X-Original-Method $request_method;
//	    proxy_set_header        X-Original-URI    $request_uri;
//	}
//
// Here $verified_account is what NGINX has verified, such as $ssl_client_s_dn_cn or
// a claim of auth_jwt; set to nothing, the header is not sent. It must be
// $request_uri and not $uri, which is what a rewrite has left. NGINX must ask over
// TCP: a peer on a Unix socket has no address, and is not trusted.
//
// # Concurrency
//
// A [Handler] may be used by any number of goroutines.
package forwardauth
