package broker

import (
	"context"
	"log/slog"
	"path"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// act is a request by which an operator changes something. Each says why.
type act interface{ GetBecause() string }

// actor is who an act claims to be by.
func actor(msg any) string {
	switch m := msg.(type) {
	case interface{ GetAppliedBy() string }:
		return m.GetAppliedBy()
	case interface{ GetAttestedBy() string }:
		return m.GetAttestedBy()
	case interface{ GetDeclaredBy() string }:
		return m.GetDeclaredBy()
	case interface{ GetDisabledBy() string }:
		return m.GetDisabledBy()
	case interface{ GetEnabledBy() string }:
		return m.GetEnabledBy()
	case interface{ GetMovedBy() string }:
		return m.GetMovedBy()
	}
	return ""
}

// logActs logs what operators ask this broker to change, and what came of it: beside
// the audit, which has what was done, the log has what was refused. Dry runs, and what
// another broker has passed on and logs itself, are not told.
func logActs(log *slog.Logger) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			resp, err := next(ctx, req)
			asked, ok := req.Any().(act)
			if dry, is := req.Any().(interface{ GetDryRun() bool }); !ok || is && dry.GetDryRun() || req.Header().Get(forwardedHeader) != "" {
				return resp, err
			}
			by, verified := person(ctx, actor(asked))
			attrs := []any{"method", path.Base(req.Spec().Procedure), "by", by, "verified", verified, "because", asked.GetBecause()}
			switch {
			case err != nil:
				log.Warn("a change was not made", append(attrs, "error", err)...)
			case isUnchanged(resp.Any()):
				log.Info("nothing was changed: it was so already", attrs...)
			default:
				log.Info("a change was made", attrs...)
			}
			return resp, err
		}
	})
}

// isUnchanged says that, as an answer tells, all that was asked for was so already.
func isUnchanged(answer any) bool {
	switch m := answer.(type) {
	case interface{ GetChanges() []*pb.PolicyChange }:
		return len(m.GetChanges()) == 0
	case *pb.EnableOperationResponse:
		return !m.GetWasDisabled()
	}
	return false
}
