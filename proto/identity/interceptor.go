package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// CallerHeader has the name of the caller, escaped as in a path, in requests that
// a broker passes on.
const CallerHeader = "Tokenlease-Caller"

// ForwardedHeader marks a request that a broker has passed on, and has checked. Of
// anybody else it is taken out before a method sees it.
const ForwardedHeader = "Tokenlease-Forwarded-By"

type callerKey struct{}

// FromContext is the caller of the request: of one that a peer with the role broker
// has passed on, the caller of that. nil: the server has no guard, and nothing is
// known.
func FromContext(ctx context.Context) *Peer {
	if peer, ok := ctx.Value(callerKey{}).(*Peer); ok {
		return peer // of an RPC: nothing that happens meanwhile makes it another
	}
	if c := connectionOf(ctx); c != nil {
		if v := c.judged.Load(); v != nil {
			return v.peer
		}
	}
	return nil
}

// Interceptor authorises each RPC, and each message of a stream: by its method,
// and by the holder that it names, or by whether it is a dry run. [Guard.Handler] must
// stand in front of it; what comes around that is refused.
func (g *Guard) Interceptor() connect.Interceptor { return interceptor{g} }

type interceptor struct{ guard *Guard }

// WrapUnary authorises the request before next sees it.
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		ctx, err := i.guard.authorise(ctx, req.Spec().Procedure, req.Header(), req.Any(), req.Peer().Addr)
		if err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient changes nothing.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler authorises the stream, and each of its messages.
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, err := i.guard.authorise(ctx, conn.Spec().Procedure, conn.RequestHeader(), nil, conn.Peer().Addr)
		if err != nil {
			return err
		}
		return next(ctx, guardedStream{conn, ctx, i.guard})
	}
}

// guardedStream is a stream whose caller is looked at with each message, in either
// direction: a stream may last for long.
type guardedStream struct {
	connect.StreamingHandlerConn

	ctx   context.Context //nolint:containedctx // that of the stream, whose caller it has
	guard *Guard
}

// Receive reads the next message of a caller that is still let in.
func (s guardedStream) Receive(msg any) error {
	if err := s.StreamingHandlerConn.Receive(msg); err != nil {
		return err
	}
	_, err := s.guard.authorise(s.ctx, s.Spec().Procedure, nil, msg, s.Peer().Addr)
	return err
}

// errOld ends a stream from the server in order, so that the caller opens it again
// on another connection: most of these have no end of their own.
var errOld = errors.New("the connection has reached its age: open the stream again")

// Send tells a caller something that is still let in.
func (s guardedStream) Send(msg any) error {
	if s.Spec().StreamType == connect.StreamTypeServer && connectionOf(s.ctx).old() {
		return connect.NewError(connect.CodeAborted, errOld)
	}
	if _, err := s.guard.authorise(s.ctx, s.Spec().Procedure, nil, nil, s.Peer().Addr); err != nil {
		return err
	}
	return s.StreamingHandlerConn.Send(msg)
}

// authorise lets a message in, nil for none, or tells why not. The context that it
// returns knows the caller.
func (g *Guard) authorise(ctx context.Context, procedure string, header http.Header, msg any, remote string) (context.Context, error) {
	c := connectionOf(ctx)
	if c == nil {
		return ctx, g.note(&refusal{code: connect.CodeUnauthenticated, method: methodName(procedure), err: errUnguarded}, remote)
	}
	peer, refused := g.enter(c, http.MethodPost, procedure, dryRunners(procedure, msg))
	switch {
	case refused != nil:
		return ctx, g.note(refused, remote)
	case peer == nil: // open to everybody
		return ctx, nil
	case peer.Roles.Has(Broker): // it has looked at what follows before it passed it on
		return context.WithValue(ctx, callerKey{}, passedOn(peer, header)), nil
	}
	header.Del(ForwardedHeader) // that is a broker's word
	named, ok := msg.(interface{ GetHolder() *pb.Holder })
	if ok && methods[procedure] == taking && !peer.MayBe(named.GetHolder().GetRegion(), named.GetHolder().GetInstance()) {
		return ctx, g.note(&refusal{
			code: connect.CodePermissionDenied, method: methodName(procedure), peer: peer.Name,
			err: fmt.Errorf("%q may act as %v, and the request is of %.64q/%.64q", peer.Name, peer.Holders, named.GetHolder().GetRegion(), named.GetHolder().GetInstance()),
		}, remote)
	}
	return context.WithValue(ctx, callerKey{}, peer), nil
}

// passedOn is the caller of a request that a broker has passed on, or the broker
// itself, which asks for its own sake.
func passedOn(broker *Peer, header http.Header) *Peer {
	escaped := header.Get(CallerHeader)
	name, err := url.PathUnescape(escaped)
	if escaped == "" || err != nil || len(name) > MaxNameBytes {
		return broker
	}
	return &Peer{Name: name}
}

// PassOn is an interceptor of clients with which a broker asks other brokers: it
// tells them in whose name.
func PassOn() connect.Interceptor { return passOn{} }

type passOn struct{}

// WrapUnary names the caller.
func (passOn) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			nameCaller(ctx, req.Header())
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient names the caller.
func (passOn) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		nameCaller(ctx, conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler changes nothing.
func (passOn) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func nameCaller(ctx context.Context, header http.Header) {
	if peer := FromContext(ctx); peer != nil {
		header.Set(CallerHeader, url.PathEscape(peer.Name))
	}
}
