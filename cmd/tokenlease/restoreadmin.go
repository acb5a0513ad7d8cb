package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/broker"
	"github.com/tokenlease/tokenlease/broker/etcdstore"
	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// restoreSettings say where restores are declared: at a broker, or directly in
// the store while none runs.
type restoreSettings struct {
	client clientSettings
	store  brokerSettings // its data directory or its etcd cluster
	again  string         // what names a broker again in the next command
}

func (s *restoreSettings) register(flags *pflag.FlagSet) {
	s.client.register(flags)
	flags.StringVar(&s.store.dataDir, "data-dir", "", "`directory` of a broker's embedded etcd, while that is stopped: do without a broker")
	s.store.etcd.register(flags)
	registerPlaintext(flags, &s.store.tls.allowPlaintext)
}

// locate settles which place is meant. One that the command line names goes before
// what the environment and the file have for the others.
func (s *restoreSettings) locate(flags *pflag.FlagSet) error {
	var named []string
	flags.Visit(func(f *pflag.Flag) { // those of the command line, and no others
		switch f.Name {
		case brokerServer, "data-dir", "etcd-endpoints":
			named = append(named, "--"+f.Name)
		}
	})
	if len(named) > 1 {
		return usageErrorf("%s exclude each other", strings.Join(named, " and "))
	}
	if len(named) == 0 {
		return nil
	}
	switch named[0] {
	case "--data-dir":
		s.store.etcd.endpoints = nil
	case "--etcd-endpoints":
		s.store.dataDir = ""
	default:
		s.store.dataDir, s.store.etcd.endpoints = "", nil
		s.again = " --broker " + shownURL(s.client.url)
		return nil
	}
	if !s.direct() { // as from a variable that is not set: a broker is not meant
		return usageErrorf("%s is empty", named[0])
	}
	return nil
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
	return s.store.etcd.validate(s.store.tls.allowPlaintext)
}

// openStore opens a store that is there already. A restore never starts a new one.
func (s *restoreSettings) openStore(ctx context.Context, stderr io.Writer) (store.Store, func(), error) {
	if s.store.dataDir != "" {
		if err := checkStored(s.store.dataDir); err != nil {
			return nil, nil, err
		}
		st, _, closeStore, err := s.store.openStore(ctx, nil, newLogger(stderr, logSettings{level: choice{value: "error"}}))
		if errors.Is(err, etcdstore.ErrDirInUse) {
			return nil, nil, exitError{code: exitUnreachable, text: fmt.Sprintf("another process uses %s: stop every broker first, or ask the broker that runs, with --broker URL", s.store.dataDir)}
		}
		return st, closeStore, failure(err)
	}
	cfg, _, err := s.store.etcd.config(nil, slog.New(slog.DiscardHandler)) // no file changes in so short a time
	if err != nil {
		return nil, nil, err
	}
	// Half of the time is left for finding out why no endpoint answers. The error
	// says it all; the log of etcd's client would come first.
	cfg.DialTimeout, cfg.RequestTimeout = max(1, s.client.timeout/2), s.client.timeout
	st, err := etcdstore.Open(ctx, cfg)
	if err != nil {
		return nil, nil, failure(err)
	}
	return st, func() { _ = st.Close() }, nil
}

// checkStored wants the data of a broker in the directory.
func checkStored(dir string) error {
	err := etcdstore.HoldsStore(dir)
	if err == nil {
		return nil
	}
	if below := filepath.Join(dir, "etcd"); etcdstore.HoldsStore(below) == nil { // as `dev` keeps it
		return fmt.Errorf("--data-dir %s holds no store, but %s does: name that", dir, below)
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--data-dir %s: no such directory; name the one that the broker was started with", dir)
	}
	return fmt.Errorf("--data-dir %s: %w; name the one that the broker was started with", dir, err)
}

// restoreAdmin does what the commands ask for.
type restoreAdmin interface {
	show(ctx context.Context) (*tokenleasev1.ShowRestoreResponse, error)
	look(ctx context.Context) (restoreOutlook, error)
	declare(ctx context.Context, request *tokenleasev1.DeclareRestoreRequest) (*tokenleasev1.Restore, error)
	attest(ctx context.Context, request *tokenleasev1.AttestRestoreRequest) (*tokenleasev1.Restore, error)
}

// restoreRun completes a command with the settings, and runs it. What is wrong with
// its own flags, check finds before anything is opened or asked.
func (p *program) restoreRun(cmd *cobra.Command, check func() error, run func(ctx context.Context, s *restoreSettings, admin restoreAdmin) error) *cobra.Command {
	settings := &restoreSettings{client: clientSettings{server: brokerServer}}
	addSettings(cmd, settings.register)
	cmd.Args = exactArgs(0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, step := range []func() error{func() error { return settings.locate(cmd.Flags()) }, settings.validate, check} {
			if err := step(); err != nil {
				return err
			}
		}
		if !settings.direct() {
			return run(cmd.Context(), settings, brokerRestores{settings: &settings.client})
		}
		st, closeStore, err := settings.openStore(cmd.Context(), p.stderr)
		if err != nil {
			return err
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

// look asks which cluster it is, and for its holders. That these cannot be told is
// no reason not to declare that the store was restored.
func (r brokerRestores) look(ctx context.Context) (restoreOutlook, error) {
	cluster, err := ask(ctx, r.settings, r.settings.admin().ShowCluster, &tokenleasev1.ShowClusterRequest{})
	if err != nil {
		return restoreOutlook{}, err
	}
	outlook := restoreOutlook{clusterID: cluster.GetClusterId(), unixMs: cluster.GetUnixMs()}
	holders, err := ask(ctx, r.settings, r.settings.admin().ListHolders, &tokenleasev1.ListHoldersRequest{})
	outlook.holders, outlook.damaged, outlook.unknown = holders.GetHolders(), holders, err
	return outlook, nil
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

// look reads which cluster it is.
func (r storeRestores) look(ctx context.Context) (restoreOutlook, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	read, err := r.store.Txn(ctx, store.Txn{Then: []store.Op{{Kind: store.OpGet, Key: r.layout.Cluster()}}})
	if err != nil {
		return restoreOutlook{}, failure(err)
	}
	if len(read.Results[0].KVs) == 0 {
		return restoreOutlook{}, storeFailure(broker.ErrNoCluster)
	}
	cluster, err := record.Decode[record.Cluster](read.Results[0].KVs[0])
	return restoreOutlook{clusterID: cluster.ID, offline: true}, storeFailure(err)
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
	for _, refused := range []error{broker.ErrGeneration, broker.ErrNoCluster, broker.ErrUndeclared, record.ErrUnreadable} {
		if errors.Is(err, refused) {
			return exitError{code: exitRefused, text: err.Error()}
		}
	}
	return failure(err)
}
