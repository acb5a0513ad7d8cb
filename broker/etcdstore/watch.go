package etcdstore

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tokenlease/tokenlease/broker/store"
)

// errWatchEnded is reported when etcd ends a watch without saying why.
var errWatchEnded = errors.New("etcdstore: the watch was ended by etcd")

// Watch delivers changes as store.Store says. A member that loses its leader ends
// the watch with an error, rather than keeping silent. If after is 0, Watch first
// asks for the newest revision, so that no change after its return is missed.
func (s *Store) Watch(ctx context.Context, key, end string, after int64) <-chan store.WatchBatch {
	out := make(chan store.WatchBatch, 1) // room for the error of a failed start
	ctx, done, err := s.begin(ctx)
	if err != nil {
		close(out)
		return out
	}
	if after == 0 {
		if after, err = s.newestRevision(ctx, key); err != nil {
			if ctx.Err() == nil {
				out <- store.WatchBatch{Err: err}
			}
			close(out)
			done()
			return out
		}
	}
	go func() { // ends with ctx, with Close, or with the watch
		defer done()
		defer close(out)
		opts := append(rangeOptions(end), clientv3.WithRev(after+1))
		deliver(ctx, s.client.Watch(clientv3.WithRequireLeader(ctx), firstKey(key), opts...), out)
	}()
	return out
}

// newestRevision reads one key of the watched range, which needs no more
// permission than the watch.
func (s *Store) newestRevision(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.requestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, firstKey(key), clientv3.WithKeysOnly())
	if err != nil {
		return 0, readError("starting a watch", err)
	}
	return resp.Header.Revision, nil
}

// deliver passes on batches until the watch ends, and then why, unless ctx has
// ended.
func deliver(ctx context.Context, responses clientv3.WatchChan, out chan<- store.WatchBatch) {
	send := func(batch store.WatchBatch) bool {
		select {
		case out <- batch:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for resp := range responses {
		if err := resp.Err(); err != nil {
			if ctx.Err() == nil {
				send(store.WatchBatch{Err: readError("watching", err)})
			}
			return
		}
		if len(resp.Events) > 0 && !send(store.WatchBatch{Events: events(resp.Events)}) {
			return
		}
	}
	if ctx.Err() == nil {
		send(store.WatchBatch{Err: errWatchEnded})
	}
}

func events(list []*clientv3.Event) []store.Event {
	out := make([]store.Event, len(list))
	for i, e := range list {
		out[i] = store.Event{Deleted: e.Type == clientv3.EventTypeDelete, KV: keyValue(e.Kv)}
	}
	return out
}
