package plainconfig

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/proto/jsonbody"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// The paths of Mount.
const (
	LimitPath  = "/v1/config/limit"
	LimitsPath = "/v1/config/limits"
	PlanPath   = "/v1/config/plan"
)

// MaxBodyBytes is the largest body of a request.
const MaxBodyBytes = 256 << 10

// Admin is what is asked of the operators' service: any client of it will do. Errors
// are those of Connect.
type Admin interface {
	ListPolicies(context.Context, *connect.Request[pb.ListPoliciesRequest]) (*connect.Response[pb.ListPoliciesResponse], error)
	ListAccounts(context.Context, *connect.Request[pb.ListAccountsRequest]) (*connect.Response[pb.ListAccountsResponse], error)
	ApplyPolicies(context.Context, *connect.Request[pb.ApplyPoliciesRequest]) (*connect.Response[pb.ApplyPoliciesResponse], error)
}

// API has the handlers. They may be used by any number of goroutines.
type API struct{ admin Admin }

// New is the API over a service, far away or in this process (see [Within]).
func New(admin Admin) *API { return &API{admin} }

// Mount adds every handler under its path.
func (a *API) Mount(mux *http.ServeMux) {
	mux.Handle(LimitPath, methods(map[string]answerer{http.MethodGet: a.limit}))
	mux.Handle(LimitsPath, methods(map[string]answerer{http.MethodGet: a.limits}))
	mux.Handle(PlanPath, methods(map[string]answerer{http.MethodPost: a.create, http.MethodPut: a.replace, http.MethodDelete: a.remove}))
}

// answerer answers a request with a status and a value in JSON, or says why not.
type answerer func(rw http.ResponseWriter, req *http.Request) (status int, value any, err error)

// methods is a handler that answers by method.
func methods(byMethod map[string]answerer) http.Handler {
	var allowed []string
	for method := range byMethod {
		allowed = append(allowed, method)
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		method := req.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		answer, ok := byMethod[method]
		if !ok {
			rw.Header().Set("Allow", strings.Join(allowed, ", "))
			refuse(rw, &jsonbody.Rejection{
				Status: http.StatusMethodNotAllowed, Detail: "the method is not allowed here: want " + strings.Join(allowed, " or "),
			})
			return
		}
		status, value, err := answer(rw, req.WithContext(withRemote(req.Context(), req.RemoteAddr)))
		if err != nil {
			refuse(rw, err)
			return
		}
		jsonbody.Write(rw, status, value)
	})
}

// problem is the body of what is refused, by RFC 9457.
type problem struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail"`
	Faults []fault `json:"faults,omitempty"` // of the body
}

// fault is one thing that is wrong with a body.
type fault struct {
	Field   string `json:"field,omitempty"` // empty: the body as a whole
	Problem string `json:"problem"`
}

// maxFaults is how many faults of a body an answer lists: the first.
const maxFaults = 20

// refuse answers a request that has changed nothing, or of which that is not known.
func refuse(rw http.ResponseWriter, err error) {
	status, detail := statusOf(err)
	p := problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
	if faults, ok := errors.AsType[strictyaml.Faults](err); ok {
		for _, f := range faults[:min(len(faults), maxFaults)] {
			p.Faults = append(p.Faults, fault{f.Field, f.Problem})
		}
	}
	rw.Header().Set("Content-Type", "application/problem+json")
	jsonbody.Write(rw, status, p)
}

// statusOf is how an error is answered in HTTP.
func statusOf(err error) (status int, detail string) {
	var rejected *jsonbody.Rejection
	var faults strictyaml.Faults
	var field *pb.FieldError
	var failed *connect.Error
	switch {
	case errors.As(err, &rejected):
		return rejected.Status, rejected.Detail
	case errors.As(err, &faults):
		detail = faults[0].Problem
		if faults[0].Field != "" {
			detail = faults[0].Field + ": " + detail
		}
		return http.StatusBadRequest, detail
	case errors.As(err, &field):
		return http.StatusBadRequest, err.Error()
	case errors.As(err, &failed):
		return statusOfCode(failed.Code()), failed.Message()
	}
	return http.StatusInternalServerError, "the broker has failed"
}

// statusOfCode is a code of Connect in HTTP.
func statusOfCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeFailedPrecondition, connect.CodeAlreadyExists, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return http.StatusServiceUnavailable // it is safe to ask again
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeDataLoss:
	}
	return http.StatusInternalServerError
}
