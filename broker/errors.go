package broker

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/shard"
)

// Errors of requests, besides those of package shard.
var (
	// ErrNoOwner means that no broker owns the shard at the moment.
	ErrNoOwner = errors.New("broker: the shard has no owner at the moment; ask again")
	// ErrOverloaded means that too many requests wait.
	ErrOverloaded = errors.New("broker: too many requests are waiting; ask again later")
	// ErrStopping means that this broker is stopping.
	ErrStopping = errors.New("broker: stopping; ask another broker")
	// ErrOtherEpoch means that another epoch of the holder is current than the one
	// that an attestation names.
	ErrOtherEpoch = errors.New("broker: another epoch is current")
	// ErrHeard means that a holder was heard too lately to retire it without force.
	ErrHeard = errors.New("broker: the holder was heard a moment ago")
	// ErrNoBroker means that a broker that was named is not live.
	ErrNoBroker = errors.New("broker: no such broker is live")
	// ErrOtherCluster means that the store holds another cluster than configured.
	ErrOtherCluster = errors.New("broker: the store holds another cluster")
)

// codes maps errors to Connect codes; the first match counts.
var codes = []struct {
	err  error
	code connect.Code
}{
	{shard.ErrNotOwner, connect.CodeUnavailable},
	{shard.ErrUncertain, connect.CodeUnavailable},
	{shard.ErrSetBack, connect.CodeDataLoss},
	{shard.ErrRecord, connect.CodeDataLoss},
	{record.ErrUnreadable, connect.CodeDataLoss},
	{shard.ErrInvalid, connect.CodeInvalidArgument},
	{shard.ErrGrantGone, connect.CodeNotFound},
	{shard.ErrGrantLive, connect.CodeFailedPrecondition},
	{ErrPolicyVersion, connect.CodeFailedPrecondition},
	{ErrPlanInUse, connect.CodeFailedPrecondition},
	{ErrNotKept, connect.CodeFailedPrecondition},
	{ErrNoPlan, connect.CodeInvalidArgument},
	{ErrSplit, connect.CodeInvalidArgument},
	{ErrGeneration, connect.CodeFailedPrecondition},
	{ErrOtherEpoch, connect.CodeFailedPrecondition},
	{ErrHeard, connect.CodeFailedPrecondition},
	{ErrNoBroker, connect.CodeFailedPrecondition},
	{ErrNoCluster, connect.CodeFailedPrecondition},
	{ErrUndeclared, connect.CodeFailedPrecondition},
	{ErrNoOwner, connect.CodeUnavailable},
	{ErrStopping, connect.CodeUnavailable},
	{ErrOverloaded, connect.CodeResourceExhausted},
	{shard.ErrCanceled, connect.CodeCanceled},
	{context.Canceled, connect.CodeCanceled},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
}

// wireError is the error in the form of answers. What is not in the table came
// from the store, so it is unavailable: the caller retries safely.
func wireError(err error) error {
	var known *connect.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return connect.NewError(c.code, err)
		}
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the store did not answer: %w", err))
}
