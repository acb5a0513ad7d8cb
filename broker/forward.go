package broker

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

const (
	// forwardedHeader marks a request that a broker has passed on. It is not
	// passed on again, so requests never go in circles.
	forwardedHeader = identity.ForwardedHeader
	// ownerWait is how long a request waits for its shard to get an owner.
	ownerWait = 2 * time.Second
)

// peers are the clients of other brokers, by URL. They name the caller on whose
// behalf they ask.
type peers struct {
	http    *http.Client
	options []connect.ClientOption
	self    string

	mu      sync.Mutex
	brokers map[string]peer
}

type peer struct {
	broker tokenleasev1connect.BrokerClient
	admin  tokenleasev1connect.AdminClient
}

// newPeers makes the clients. secure refuses brokers that are registered in clear text.
func newPeers(client *http.Client, self string, secure bool, options []connect.ClientOption) *peers {
	if secure {
		base := client.Transport
		if base == nil {
			base = http.DefaultTransport
		}
		only := *client
		only.Transport = encrypted{base}
		client = &only
	}
	return &peers{http: client, self: self, options: options, brokers: map[string]peer{}}
}

// encrypted asks https URLs alone. Those of other brokers come from the store, and a
// request names the caller and hands out credit.
type encrypted struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e encrypted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, fmt.Errorf("the broker at %s is registered in clear text, and this one speaks TLS alone: give that one certificates", req.URL.Host)
	}
	return e.RoundTripper.RoundTrip(req)
}

func (p *peers) at(url string) peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.brokers[url]
	if !ok {
		options := append([]connect.ClientOption{connect.WithInterceptors(identity.PassOn())}, p.options...)
		known = peer{
			broker: tokenleasev1connect.NewBrokerClient(p.http, url, options...),
			admin:  tokenleasev1connect.NewAdminClient(p.http, url, options...),
		}
		p.brokers[url] = known
	}
	return known
}

// owner finds the owner of a shard: a runner here, or another broker. A request
// that was passed on already, or finds no owner in time, is refused.
func (b *Broker) owner(ctx context.Context, header http.Header, id uint32) (*runner, record.Owner, error) {
	timer := b.cfg.Clock.Timer(ownerWait)
	defer timer.Stop()
	for {
		local, remote, changed := b.ownership.route(id)
		switch {
		case local != nil:
			return local, record.Owner{}, nil
		case header.Get(forwardedHeader) != "":
			return nil, record.Owner{}, shard.ErrNotOwner
		case remote.URL != "" && remote.BrokerID != b.cfg.ID:
			b.obs.forwarded.Inc()
			return nil, remote, nil
		}
		select {
		case <-changed:
		case <-b.ownership.ended:
			return nil, record.Owner{}, ErrStopping
		case <-timer.C:
			return nil, record.Owner{}, ErrNoOwner
		case <-ctx.Done():
			return nil, record.Owner{}, ctx.Err()
		}
	}
}

// replaced waits until the shard has another owner than was, and says false if
// that takes longer than a request waits for an owner.
func (b *Broker) replaced(ctx context.Context, id uint32, was record.Owner) bool {
	timer := b.cfg.Clock.Timer(ownerWait)
	defer timer.Stop()
	for {
		local, remote, changed := b.ownership.route(id)
		if local != nil || remote != was {
			return true
		}
		select {
		case <-changed:
		case <-b.ownership.ended:
			return false
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// passOn is the request in a form that the next broker does not pass on again.
func passOn[T any](b *Broker, msg *T) *connect.Request[T] {
	req := connect.NewRequest(msg)
	req.Header().Set(forwardedHeader, b.cfg.ID)
	return req
}

// relayed is the owner's error in the form of answers. What does not come from
// the owner, or ended there though the caller still waits, is a failure to reach
// it: the caller asks again.
func relayed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return wireError(ctx.Err())
	case connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeCanceled:
		return err
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the owner of the shard did not answer: %w", err))
}
