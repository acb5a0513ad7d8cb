package broker

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
	"github.com/tokenlease/tokenlease/broker/store"
)

// peerPatience is how long a broker waits for what others add to an answer for
// people. Who has not answered by then is named as missing.
const peerPatience = 2 * time.Second

// forwarded says that another broker has passed the request on: it asks for what
// this one knows itself.
func forwarded(header http.Header) bool { return header.Get(forwardedHeader) != "" }

// said is what one broker has answered.
type said[T any] struct {
	broker record.Broker
	answer T
	took   time.Duration
	err    error
}

// askOthers asks the other brokers, all at once.
func askOthers[T any](ctx context.Context, b *Broker, brokers []record.Broker, question func(context.Context, peer) (T, error)) []said[T] {
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	var all sync.WaitGroup
	answers := make([]said[T], 0, len(brokers))
	for _, other := range brokers {
		if other.ID != b.cfg.ID {
			answers = append(answers, said[T]{broker: other})
		}
	}
	for i := range answers {
		all.Go(func() {
			start := b.cfg.Clock.Mono()
			answers[i].answer, answers[i].err = question(ctx, b.peers.at(answers[i].broker.URL))
			answers[i].took = b.cfg.Clock.Mono() - start
		})
	}
	all.Wait()
	return answers
}

// brokers are the live brokers, in order of ID.
func (v *view) brokers() ([]record.Broker, error) {
	var brokers []record.Broker
	err := v.each(v.b.layout.Brokers(), func(kv store.KeyValue) error {
		r, err := record.Decode[record.Broker](kv)
		brokers = append(brokers, r)
		return err
	})
	slices.SortFunc(brokers, func(a, b record.Broker) int { return strings.Compare(a.ID, b.ID) })
	return brokers, err
}

// askShards asks every shard that this broker serves, in its loop. One that does not
// answer is left out, as is one whose answer is not ok.
func askShards[T any](ctx context.Context, b *Broker, question func(*shard.Shard, shard.Moment) (answer T, ok bool)) map[uint32]T {
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[uint32]T{}
	for id, r := range b.ownership.serving() {
		all.Go(func() {
			answer, err := ask(ctx, r, func(s *shard.Shard, m shard.Moment, reply func(T, error)) func() {
				answer, ok := question(s, m)
				if !ok {
					reply(answer, shard.ErrNotOwner)
				} else {
					reply(answer, nil)
				}
				return nil
			})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = answer
			}
		})
	}
	all.Wait()
	return answers
}
