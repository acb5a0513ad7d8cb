package regional

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// streamDepth is how many batches of one stream are decided at once.
const streamDepth = 8

// CheckStream implements tokenleasev1connect.LimiterHandler. Batches are begun in
// order and answered in order. A few are decided at once, so that one that has to
// wait does not hold up those behind it at once; while that many wait, the stream is
// not read.
func (s limiterService) CheckStream(ctx context.Context, stream *connect.BidiStream[pb.CheckStreamRequest, pb.CheckStreamResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan chan *pb.CheckStreamResponse, streamDepth-1)
	sent := make(chan error, 1)
	go func() { // ends when answers is closed
		defer cancel()
		sent <- sendInOrder(stream.Send, answers, cancel)
	}()
	err := s.receive(ctx, stream.Receive, answers)
	close(answers)
	return errors.Join(err, <-sent)
}

// receive decides what comes in until the stream ends. It puts the promise of each
// answer in line before it reads on.
func (s limiterService) receive(ctx context.Context, receive func() (*pb.CheckStreamRequest, error), answers chan<- chan *pb.CheckStreamResponse) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		req, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n := len(req.GetChecks()); n > pb.MaxBatchChecks {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("checks: must have 0 to %d elements, has %d", pb.MaxBatchChecks, n))
		}
		answer := make(chan *pb.CheckStreamResponse, 1)
		select {
		case answers <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		group.Go(func() { answer <- &pb.CheckStreamResponse{Results: s.batch(ctx, req.GetChecks())} })
	}
}

// sendInOrder sends the answers as they were promised, until there are no more. When
// one cannot be sent it stops the work, and drains the rest.
func sendInOrder(send func(*pb.CheckStreamResponse) error, answers <-chan chan *pb.CheckStreamResponse, stop func()) error {
	var failed error
	for answer := range answers {
		resp := <-answer
		if failed != nil {
			continue
		}
		if failed = send(resp); failed != nil {
			stop()
		}
	}
	return failed
}
