package identity

import (
	"errors"
	"mime"
	"net/http"

	"connectrpc.com/connect"

	connectpb "github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// dryRuns are the methods that viewers may call if the message says dry_run: it tells
// what would change, and changes nothing, so it is reading. All of them are unary.
var dryRuns = map[string]bool{
	connectpb.AdminApplyPoliciesProcedure:    true,
	connectpb.AdminRollbackPoliciesProcedure: true,
	connectpb.AdminRetireHolderProcedure:     true,
}

// maxDryRuns is how many requests may be under way at a time of callers that are let in
// only as far as their message says: what they send is read, and takes memory, before it
// is known whether they may.
const maxDryRuns = 2

// errBusy answers those beyond that.
var errBusy = errors.New("others are trying what changes would do: try again in a second")

// messageTypes are the content types of unary messages that servers read. In any other
// form nobody can say that a request is a dry run.
var messageTypes = map[string]bool{
	"application/proto": true, "application/json": true,
	"application/grpc": true, "application/grpc+proto": true, "application/grpc+json": true,
	"application/grpc-web": true, "application/grpc-web+proto": true, "application/grpc-web+json": true,
}

// mayDryRun are the roles for which the request may turn out to be a dry run once its
// message is read.
func mayDryRun(r *http.Request) Roles {
	if !dryRuns[r.URL.Path] || r.Method != http.MethodPost {
		return nobody
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || !messageTypes[kind] {
		return nobody
	}
	return Viewer
}

// untilRead lets in, a few at a time, who may make dry runs and nothing else with the
// method. It reports false for one too many, which is answered; done is to be called once
// the request has ended.
func (g *Guard) untilRead(w http.ResponseWriter, r *http.Request) (done func(), in bool) {
	select {
	case g.dryRuns <- struct{}{}:
		return func() { <-g.dryRuns }, true
	default:
	}
	err := connect.NewError(connect.CodeResourceExhausted, errBusy)
	err.Meta().Set("Retry-After", "1")
	_ = g.writer.Write(w, r, err) // the caller is gone
	return nil, false
}

// dryRunners are the roles that may call a procedure for what its message, as it was
// read, says. No message, and one of a type that does not know of dry runs, is none.
func dryRunners(procedure string, msg any) Roles {
	if m, ok := msg.(interface{ GetDryRun() bool }); ok && dryRuns[procedure] && m.GetDryRun() {
		return Viewer
	}
	return nobody
}
