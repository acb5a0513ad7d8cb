package regional

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// brokers calls one of several brokers, and moves on to the next when it fails.
// A call is made once: the caller decides whether to repeat it.
type brokers struct {
	clients []tokenleasev1connect.BrokerClient
	current atomic.Uint64
}

func newBrokers(clients []tokenleasev1connect.BrokerClient) *brokers {
	return &brokers{clients: clients}
}

func (b *brokers) pick() (tokenleasev1connect.BrokerClient, uint64) {
	at := b.current.Load()
	return b.clients[at%uint64(len(b.clients))], at
}

// failed moves on from the broker that was picked at, unless another call did
// so already or the error is not the broker's.
func (b *brokers) failed(ctx context.Context, at uint64, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	switch connect.CodeOf(err) {
	case connect.CodeCanceled, connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeResourceExhausted, connect.CodeUnknown, connect.CodeUnimplemented, connect.CodeInternal, connect.CodeFailedPrecondition, connect.CodeDataLoss,
		connect.CodeUnauthenticated, connect.CodePermissionDenied:
		b.current.CompareAndSwap(at, at+1)
	}
}

func (b *brokers) register(ctx context.Context, req *pb.RegisterRequest) (*pb.RegisterResponse, error) {
	client, at := b.pick()
	resp, err := client.Register(ctx, connect.NewRequest(req))
	if err != nil {
		b.failed(ctx, at, err)
		return nil, err
	}
	return resp.Msg, nil
}

func (b *brokers) sync(ctx context.Context, req *pb.SyncRequest) (*pb.SyncResponse, error) {
	client, at := b.pick()
	resp, err := client.Sync(ctx, connect.NewRequest(req))
	if err != nil {
		b.failed(ctx, at, err)
		return nil, err
	}
	return resp.Msg, nil
}

// watch calls hint for each message until the stream ends.
func (b *brokers) watch(ctx context.Context, req *pb.WatchRequest, hint func(*pb.WatchResponse)) error {
	client, _ := b.pick()
	stream, err := client.Watch(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	for stream.Receive() {
		hint(stream.Msg())
	}
	return errors.Join(stream.Err(), stream.Close())
}

// shownURLs are URLs as they are logged: without the passwords that they may have.
func shownURLs(urls []string) []string {
	shown := make([]string, 0, len(urls))
	for _, text := range urls {
		if parsed, err := url.Parse(text); err == nil {
			text = parsed.Redacted()
		}
		shown = append(shown, text)
	}
	return shown
}

// clearHint is an attribute for a log that says what may be meant, if a broker that
// was asked in clear text answered with what is no HTTP, as one with TLS does. The
// error alone says no more than that the answer ended early, in one of many ways: which
// rests on what is read first, the end of the connection, its reset or an alert.
func clearHint(urls []string, err error) []any {
	plain := slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, "http://") })
	if !plain || connect.IsWireError(err) {
		return nil
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil // nobody has answered
	}
	return []any{"hint", "do the brokers want https? Then name them so, with the file of their authorities: --ca"}
}
