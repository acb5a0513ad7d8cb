package rpclimit_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/rpclimit"
)

// A gRPC server whose calls are limited by account, health checks excepted.
func ExampleGRPC() {
	limiter := newFake() // or a limiter of this process, or a remote one
	unary, stream, err := rpclimit.GRPC(limiter, rpclimit.Config{
		Request: func(_ context.Context, call rpclimit.Call) (decision.Request, error) {
			account := call.Header.Get("X-Account") // as verified by an interceptor before
			return decision.Request{Part: decision.Part{Key: lease.Key{Account: account, Operation: call.Procedure}}}, nil
		},
		Exempt: func(call rpclimit.Call) bool { return call.Procedure == "/grpc.health.v1.Health/Check" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream))
	fmt.Println(len(server.GetServiceInfo()))
	// Output: 0
}
