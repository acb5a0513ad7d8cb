package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errCut is what a dial over a link that is cut ends with.
var errCut = errors.New("the link is cut")

// link is the network between one region and the brokers, for trials: Cut closes
// every connection and refuses new ones, until Heal.
type link struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

// Dial connects, unless the link is cut.
func (l *link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.isCut() {
		return nil, errCut
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = conn.Close()
		return nil, errCut
	}
	if l.conns == nil {
		l.conns = map[net.Conn]struct{}{}
	}
	l.conns[conn] = struct{}{}
	return linkConn{Conn: conn, link: l}, nil
}

// Cut closes every connection and refuses new ones.
func (l *link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// Heal lets connections through again.
func (l *link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// linkConn forgets itself when it is closed.
type linkConn struct {
	net.Conn
	link *link
}

// Close closes the connection.
func (c linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c.Conn)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
