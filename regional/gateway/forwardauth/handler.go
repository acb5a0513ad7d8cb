package forwardauth

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/clientkey"
	"github.com/tokenlease/tokenlease/regional/gateway/httpanswer"
)

// FieldStatus has the status that a denial would have had without
// Config.DenyAs403, which sets it.
const FieldStatus = "X-Limit-Status"

// Handler answers proxies. It may be used by any number of goroutines.
type Handler struct {
	cfg     Config
	rules   rules
	keys    *clientkey.Keys // nil: an account is required
	metrics *metrics
}

// New fails if Validate does.
func New(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	keys := cfg.Keys
	if cfg.Anonymous != nil {
		var err error
		if keys, err = clientkey.New(cfg.anonymous()); err != nil {
			return nil, err
		}
	}
	for _, header := range []*string{&cfg.AccountHeader, &cfg.OperationHeader, &cfg.MethodHeader, &cfg.URIHeader, &cfg.CostHeader} {
		*header = textproto.CanonicalMIMEHeaderKey(*header)
	}
	cfg.MethodHeader, cfg.URIHeader = orDefault(cfg.MethodHeader, DefaultMethodHeader), orDefault(cfg.URIHeader, DefaultURIHeader)
	cfg.Proxies = slices.Clone(cfg.Proxies)
	compiledRules, err := compile(cfg.Rules, cfg.FoldCase)
	return &Handler{cfg: cfg, rules: compiledRules, keys: keys, metrics: newMetrics(cfg.Registerer)}, err
}

// refusal is why a request is answered without a decision.
type refusal struct {
	outcome outcome
	status  int
	detail  string
}

// ServeHTTP answers one question of a proxy, of any method. The body is not read.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	check, found, refused := h.read(req)
	switch {
	case refused != nil:
		h.metrics.count(refused.outcome)
		h.deny(rw, decision.Invalid(refused.detail), refused.status)
	case !found:
		h.metrics.count(unmatchedAllowed)
		h.allow(rw)
	default:
		h.answer(rw, h.cfg.Decider.Decide(req.Context(), check))
	}
}

// answer writes a decision.
func (h *Handler) answer(rw http.ResponseWriter, a decision.Answer) {
	status := httpanswer.Status(a)
	switch {
	case httpanswer.Admitted(a):
		h.metrics.count(allowed)
		h.cfg.Answers.Headers(rw.Header(), a)
		h.allow(rw)
		return
	case status >= http.StatusInternalServerError:
		h.metrics.count(undecided)
	default:
		h.metrics.count(denied)
	}
	h.deny(rw, a, status)
}

// deny writes a problem, under a status that the proxy understands.
func (h *Handler) deny(rw http.ResponseWriter, a decision.Answer, status int) {
	if h.cfg.DenyAs403 {
		rw.Header().Set(FieldStatus, strconv.Itoa(status))
		if status < http.StatusInternalServerError {
			status = http.StatusForbidden
		}
	}
	h.cfg.Answers.ProblemAs(rw, a, status)
}

// allow writes permission, which nobody may keep.
func (h *Handler) allow(rw http.ResponseWriter) {
	rw.Header().Set(httpanswer.FieldCacheControl, "no-store")
	rw.WriteHeader(http.StatusOK)
}

// read makes a decision's request of a proxy's. It is not found if no rule covers
// it and the configuration lets it pass.
func (h *Handler) read(req *http.Request) (check decision.Request, found bool, refused *refusal) {
	peer, known := clientkey.Peer(req.RemoteAddr)
	if !known || !clientkey.Within(peer, h.cfg.Proxies) {
		return check, false, &refusal{untrusted, http.StatusForbidden, "Only trusted proxies may ask here, and this peer is none: add its address to the proxies, or ask the proxy."}
	}
	check.Key.Operation, check.Cost, refused = h.operation(req.Header)
	if refused != nil || check.Key.Operation == "" {
		return check, false, refused
	}
	if check.Key.Account, refused = h.account(req); refused != nil {
		return check, false, refused
	}
	if refused := h.cost(req.Header, &check.Cost); refused != nil {
		return check, false, refused
	}
	key := pb.BudgetKey{Account: check.Key.Account, Operation: check.Key.Operation}
	if err := key.Validate(); err != nil {
		return check, false, bad(err.Error())
	}
	return check, true, nil
}

// account is who pays.
func (h *Handler) account(req *http.Request) (string, *refusal) {
	if h.cfg.AccountHeader != "" {
		account, refused := single(req.Header, h.cfg.AccountHeader)
		if refused != nil {
			return "", refused
		}
		if account != "" {
			if err := clientkey.CheckVerified(account); err != nil {
				return "", &refusal{ambiguous, http.StatusBadRequest, "The account in " + h.cfg.AccountHeader + " " + err.Error() + "."}
			}
			return account, nil
		}
	}
	if h.keys == nil {
		return "", &refusal{noAccount, http.StatusForbidden, "The request has no verified account: the proxy has to put it into " + h.cfg.AccountHeader + "."}
	}
	return h.keys.Account(req), nil
}

// operation is what the request is for; empty if nothing says so and it may pass.
func (h *Handler) operation(header http.Header) (string, decision.Cost, *refusal) {
	if h.cfg.Operation != "" {
		return h.cfg.Operation, decision.Cost{}, nil
	}
	if h.cfg.OperationHeader != "" {
		operation, refused := single(header, h.cfg.OperationHeader)
		if refused == nil && operation == "" {
			refused = h.unmatched("The request has no operation: the proxy has to put it into " + h.cfg.OperationHeader + ".")
		}
		return operation, decision.Cost{}, refused
	}
	rule, refused := h.rule(header)
	if rule == nil {
		return "", decision.Cost{}, refused
	}
	return rule.Operation, rule.Cost, nil
}

// rule is the one that covers the request; nil with a refusal, or without one if
// the request may pass.
func (h *Handler) rule(header http.Header) (*compiled, *refusal) {
	method, refused := single(header, h.cfg.MethodHeader)
	if refused != nil {
		return nil, refused
	}
	if h.rules.byMethod && !validMethod(method) {
		return nil, bad("The method in " + h.cfg.MethodHeader + " is missing or not in upper-case letters.")
	}
	values := header[h.cfg.URIHeader]
	if len(values) != 1 {
		return nil, bad(h.cfg.URIHeader + " stands " + strconv.Itoa(len(values)) + " times: want it once.")
	}
	t, problem := parseTarget(values[0])
	if problem != "" {
		return nil, bad("The path in " + h.cfg.URIHeader + " " + problem + ".")
	}
	rule, unsure := h.rules.find(method, t)
	if unsure {
		return nil, bad("The path in " + h.cfg.URIHeader + " can be read in two ways that differ in their limit: write it without empty segments, semicolons and encoded slashes.")
	}
	if rule == nil {
		return nil, h.unmatched("No limit is configured for this method and path.")
	}
	return rule, nil
}

// unmatched is the configured answer to what has no operation.
func (h *Handler) unmatched(detail string) *refusal {
	if h.cfg.Unmatched == UnmatchedAllow {
		return nil
	}
	return &refusal{unmatchedDenied, http.StatusForbidden, detail}
}

// cost reads the cost, if a header has one.
func (h *Handler) cost(header http.Header, cost *decision.Cost) *refusal {
	if h.cfg.CostHeader == "" {
		return nil
	}
	text, refused := single(header, h.cfg.CostHeader)
	if refused != nil || text == "" {
		return refused
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < 0 {
		return bad("The cost in " + h.cfg.CostHeader + " is no whole number of 0 to 9223372036854775807 in plain digits.")
	}
	*cost = decision.Tokens(n)
	return nil
}

// single is the one value of a header, empty if it is missing. Of two values one
// may be the client's.
func single(header http.Header, name string) (string, *refusal) {
	values := header[name]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", bad(name + " stands " + strconv.Itoa(len(values)) + " times: want it once.")
	case strings.Contains(values[0], ","):
		return "", bad(name + " has a comma, so that it may be two values in one: want one value.")
	}
	return values[0], nil
}

// bad refuses a request that cannot be understood in one way only.
func bad(detail string) *refusal { return &refusal{ambiguous, http.StatusBadRequest, detail} }
