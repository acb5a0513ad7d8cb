package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// restoreSettings say where restores are declared: at a broker, or directly in
// the store while none runs.
type restoreSettings struct {
	client clientSettings
	store  brokerSettings // its data directory or its etcd cluster
}

func (s *restoreSettings) register(flags *pflag.FlagSet) {
	s.client.register(flags)
	flags.StringVar(&s.store.dataDir, "data-dir", "", "`directory` of a broker's embedded etcd, while that is stopped: do without a broker")
	s.store.etcd.register(flags)
}

// direct says that no broker is asked.
func (s *restoreSettings) direct() bool {
	return s.store.dataDir != "" || len(s.store.etcd.endpoints) > 0
}

func (s *restoreSettings) validate() error {
	if err := s.client.validate(); err != nil {
		return err
	}
	if s.store.dataDir != "" && len(s.store.etcd.endpoints) > 0 {
		return usageErrorf("--data-dir and --etcd-endpoints exclude each other")
	}
	return s.store.etcd.validate()
}

// restoreAdmin does what the commands ask for.
type restoreAdmin interface {
	show(ctx context.Context) (*tokenleasev1.ShowRestoreResponse, error)
	declare(ctx context.Context, request *tokenleasev1.DeclareRestoreRequest) (*tokenleasev1.Restore, error)
	attest(ctx context.Context, request *tokenleasev1.AttestRestoreRequest) (*tokenleasev1.Restore, error)
}

// restoreRun completes a command with the settings, and runs it.
func (p *program) restoreRun(cmd *cobra.Command, run func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error) *cobra.Command {
	settings := &restoreSettings{client: clientSettings{server: brokerServer}}
	addSettings(cmd, settings.register)
	cmd.Args = exactArgs(0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.validate(); err != nil {
			return err
		}
		if !settings.direct() {
			return run(cmd.Context(), settings, brokerRestores{settings: &settings.client})
		}
		log := newLogger(p.stderr, logSettings{level: choice{value: "warn"}})
		st, closeStore, err := settings.store.openStore(cmd.Context(), log)
		if err != nil {
			return failure(err)
		}
		defer closeStore()
		return run(cmd.Context(), settings, storeRestores{
			store: st, layout: record.NewLayout(settings.store.etcd.prefix), timeout: settings.client.timeout,
		})
	}
	return cmd
}

// brokerRestores asks a broker.
type brokerRestores struct{ settings *clientSettings }

func (r brokerRestores) show(ctx context.Context) (*tokenleasev1.ShowRestoreResponse, error) {
	return ask(ctx, r.settings, r.settings.admin().ShowRestore, &tokenleasev1.ShowRestoreRequest{})
}

func (r brokerRestores) declare(ctx context.Context, request *tokenleasev1.DeclareRestoreRequest) (*tokenleasev1.Restore, error) {
	answer, err := ask(ctx, r.settings, r.settings.admin().DeclareRestore, request)
	return answer.GetRestore(), err
}

func (r brokerRestores) attest(ctx context.Context, request *tokenleasev1.AttestRestoreRequest) (*tokenleasev1.Restore, error) {
	answer, err := ask(ctx, r.settings, r.settings.admin().AttestRestore, request)
	return answer.GetRestore(), err
}

// storeRestores writes to the store itself.
type storeRestores struct {
	store   store.Store
	layout  record.Layout
	timeout time.Duration
}

func (r storeRestores) show(ctx context.Context) (*tokenleasev1.ShowRestoreResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	status, err := broker.ShowRestores(ctx, r.store.Txn, r.layout)
	return status, storeFailure(err)
}

func (r storeRestores) declare(ctx context.Context, request *tokenleasev1.DeclareRestoreRequest) (*tokenleasev1.Restore, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	done, err := broker.DeclareRestore(ctx, r.store.Txn, r.layout, request, time.Now().UnixMilli(), broker.DrawStride)
	return done, storeFailure(err)
}

func (r storeRestores) attest(ctx context.Context, request *tokenleasev1.AttestRestoreRequest) (*tokenleasev1.Restore, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	done, err := broker.AttestRestore(ctx, r.store.Txn, r.layout, request, time.Now().UnixMilli())
	return done, storeFailure(err)
}

// storeFailure ends the program with the code of what went wrong.
func storeFailure(err error) error {
	if errors.Is(err, broker.ErrGeneration) || errors.Is(err, broker.ErrNoCluster) || errors.Is(err, record.ErrUnreadable) {
		return exitError{code: exitRefused, text: err.Error()}
	}
	return failure(err)
}
