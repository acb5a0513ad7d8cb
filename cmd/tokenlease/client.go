package main

import (
	"context"
	"errors"
	"net/http"
	"os/user"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// Names of the servers, which are the names of the flags that locate them.
const (
	brokerServer  = "broker"
	limiterServer = "limiter"
)

// clientSettings are what every command that asks a server has.
type clientSettings struct {
	server  string // brokerServer or limiterServer
	url     string
	timeout time.Duration
	output  outputFormat
	tls     clientTLS

	client *http.Client // nil: http.DefaultClient
}

// register adds the settings to flags.
func (s *clientSettings) register(flags *pflag.FlagSet) {
	s.registerURL(flags)
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait for each answer")
	s.tls.register(flags)
	s.output = formatTable
	flags.VarP(&s.output, "output", "o", "table, json or yaml")
}

// registerURL adds the setting that says where the server is.
func (s *clientSettings) registerURL(flags *pflag.FlagSet) {
	location := map[string]string{brokerServer: "http://127.0.0.1:7600", limiterServer: "http://127.0.0.1:7700"}
	flags.StringVar(&s.url, s.server, location[s.server], "`URL` of a "+s.server)
}

// validate checks the settings together.
func (s *clientSettings) validate() error {
	if err := checkURL(s.server, s.url); err != nil {
		return err
	}
	if s.timeout <= 0 {
		return usageErrorf("--timeout %v must be more than 0", s.timeout)
	}
	if err := s.tls.validate("cert", "key"); err != nil {
		return err
	}
	var err error
	s.client, err = s.tls.once(s.url)
	return err
}

// httpClient makes the requests.
func (s *clientSettings) httpClient() *http.Client {
	if s.client == nil {
		return http.DefaultClient
	}
	return s.client
}

// admin is a client of a broker's operators' service.
func (s *clientSettings) admin() tokenleasev1connect.AdminClient {
	return tokenleasev1connect.NewAdminClient(s.httpClient(), s.url)
}

// limiter is a client of a limiter.
func (s *clientSettings) limiter() tokenleasev1connect.LimiterClient {
	return tokenleasev1connect.NewLimiterClient(s.httpClient(), s.url)
}

// failed wraps what a call ended with. It keeps nil.
func (s *clientSettings) failed(err error) error { return s.failedAsking(nil, err) }

// failedAsking is failed for a request, which may be for a change.
func (s *clientSettings) failedAsking(request any, err error) error {
	if err == nil {
		return nil
	}
	return serverError{who: s.server, where: shownURL(s.url), err: err, look: whereToLook(request)}
}

// whereToLook is the command that tells whether a change was made after all; empty for a
// request that changes nothing.
func whereToLook(request any) string {
	if dry, ok := request.(interface{ GetDryRun() bool }); ok && dry.GetDryRun() {
		return ""
	}
	switch request.(type) {
	case *tokenleasev1.ApplyPoliciesRequest, *tokenleasev1.RollbackPoliciesRequest, *tokenleasev1.DisableOperationRequest, *tokenleasev1.EnableOperationRequest:
		return "tokenlease policy history"
	case interface{ GetBecause() string }: // every change has a reason
		return "tokenlease audit list"
	}
	return ""
}

// caller is a method of a generated client.
type caller[Request, Response any] func(context.Context, *connect.Request[Request]) (*connect.Response[Response], error)

// ask makes one call with the deadline of the settings.
func ask[Request, Response any](ctx context.Context, s *clientSettings, call caller[Request, Response], request *Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		response, err := call(ctx, connect.NewRequest(request))
		if err == nil {
			return response.Msg, nil
		}
		if !tooOften(err) || !pause(ctx, time.Second) {
			return nil, s.failedAsking(request, err)
		}
	}
}

// tooOften says that the server wants to be asked again a second later, as one does
// that is asked for page after page.
func tooOften(err error) bool {
	failed, ok := errors.AsType[*connect.Error](err)
	return ok && failed.Code() == connect.CodeResourceExhausted && failed.Meta().Get("Retry-After") == "1"
}

// pause waits, and says false if the context ends before that.
func pause(ctx context.Context, d time.Duration) bool {
	if until, ok := ctx.Deadline(); ok && time.Until(until) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// askPages makes a call until no page is left. Add takes a page, and puts the
// token of the next into the request; it says whether there is one.
func askPages[Request, Response any](ctx context.Context, s *clientSettings, call caller[Request, Response], request *Request, add func(*Response) bool) error {
	for {
		page, err := ask(ctx, s, call, request)
		if err != nil {
			return err
		}
		if !add(page) {
			return nil
		}
	}
}

// clientCommand completes a command that asks a server: the settings, the number
// of arguments, and what it does.
func clientCommand(cmd *cobra.Command, settings *clientSettings, args int, run func(ctx context.Context, args []string) error) *cobra.Command {
	addSettings(cmd, settings.register)
	cmd.Args = exactArgs(args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := settings.validate(); err != nil {
			return err
		}
		warnOfClear(cmd.ErrOrStderr(), settings.url)
		return run(cmd.Context(), args)
	}
	return cmd
}

// exactArgs wants so many arguments; fewer than 0 means at least one.
func exactArgs(count int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if count < 0 && len(args) > 0 || len(args) == count {
			return nil
		}
		return usageErrorf("want %q, got %s", cmd.UseLine(), countOf(int64(len(args)), "argument"))
	}
}

// currentUser names who runs the program, or nobody.
func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
