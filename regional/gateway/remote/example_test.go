package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
	"github.com/tokenlease/tokenlease/regional/decision"
	"github.com/tokenlease/tokenlease/regional/gateway/remote"
)

// A limiter is asked for a report that costs 5 of 40 tokens. Here it is a budget in
// a map, behind the real service.
func ExampleClient_Decide() {
	mux := http.NewServeMux()
	mux.Handle(tokenleasev1connect.NewLimiterHandler(newLimiter()))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()

	client, err := remote.New(remote.Config{URLs: []string{server.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := client.Decide(context.Background(), decision.Request{Part: decision.Part{
		Key: lease.Key{Account: "acme", Operation: "report.create"}, Cost: decision.Tokens(5),
	}})
	fmt.Println(a.Allowed, a.Remaining)
	// Output: true 35
}
