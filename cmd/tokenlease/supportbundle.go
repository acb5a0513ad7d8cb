package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

const supportBundleLong = `Write a file with what an engineer needs to understand a cluster: versions, what
` + "`tokenlease doctor`" + ` finds, the brokers, shards, policies, holders, a page of
budgets and of grants, the newest 1,000 entries of the audit, and the metrics of the
broker.

It has no keys, no passwords, and no values of variables. Account names are replaced,
each by the same word everywhere in the file, unless --with-accounts; nobody can
tell the names from those words. Names of operators and of machines are in it, and
so is what operators wrote as reasons, with known account names replaced: look at
it before you hand it on, with tar -xzf.

What cannot be had is named in problems.txt, and the file is written nonetheless.
FILE must not be there yet; - is standard output.`

// supportBundleFlags say what goes in, and where to.
type supportBundleFlags struct {
	withAccounts bool
}

func (p *program) supportBundleCommand() *cobra.Command {
	s := &doctorSettings{client: clientSettings{server: brokerServer}}
	flags := &supportBundleFlags{}
	cmd := &cobra.Command{
		Use:   "support-bundle [FILE.tar.gz]",
		Short: "Write a file with what an engineer needs, without secrets",
		Long:  supportBundleLong,
		Example: `  tokenlease support-bundle
  tokenlease support-bundle problem.tar.gz
  tokenlease support-bundle - | tar -tzf -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageErrorf("want at most one FILE, got %s", countOf(int64(len(args)), "argument"))
			}
			if err := s.validate(); err != nil {
				return err
			}
			file := "tokenlease-support-" + p.now().UTC().Format("20060102-150405") + ".tar.gz"
			if len(args) == 1 {
				file = args[0]
			}
			return p.supportBundle(cmd.Context(), s, flags, file)
		},
	}
	addSettings(cmd, s.register)
	cmd.Flags().BoolVar(&flags.withAccounts, "with-accounts", false, "leave account names as they are")
	return cmd
}

// supportBundle collects everything, and writes it at the end: a file is there only
// if it is whole.
func (p *program) supportBundle(ctx context.Context, s *doctorSettings, flags *supportBundleFlags, file string) error {
	out, err := p.createBundle(file)
	if err != nil {
		return err
	}
	b := &bundle{p: p, settings: s, hide: newConcealer(flags.withAccounts)}
	seen := b.collect(ctx)
	if ctx.Err() != nil {
		return errors.Join(exitError{code: exitUnreachable, text: "interrupted: nothing was written"}, out.abandon())
	}
	data, err := b.archive(p.now())
	if err == nil {
		err = out.finish(data)
	}
	if err != nil {
		return errors.Join(failure(err), out.abandon())
	}
	fmt.Fprintf(p.stderr, "%s: %s, %s. Look at it before you hand it on.\n", file, countOf(int64(len(b.files)), "file"), countOf(int64(len(b.problems)), "problem"))
	switch {
	case seen.refused():
		return exitError{code: exitRefused, text: shownURL(s.client.url) + " refused: the file has only what is known here.\nName a certificate that it knows, of an operator or a viewer, with --cert and --key"}
	case seen.answering() == nil:
		return exitError{code: exitUnreachable, text: shownURL(s.client.url) + " was not reached: the file has only what is known here"}
	}
	return nil
}

// bundleFile is where a bundle goes.
type bundleFile struct {
	w    io.Writer
	file *os.File // nil: standard output
}

// createBundle makes the file before anything is asked, so that a name that is taken
// is told at once.
func (p *program) createBundle(name string) (*bundleFile, error) {
	if name == "-" {
		if p.console().Shows() {
			return nil, usageErrorf("the file is not for a terminal: name one, or pipe it")
		}
		return &bundleFile{w: p.stdout}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, usageErrorf("%s is there already: name another file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the file: %w", err)
	}
	return &bundleFile{w: f, file: f}, nil
}

// finish writes the bundle.
func (f *bundleFile) finish(data []byte) error {
	if _, err := f.w.Write(data); err != nil {
		return err
	}
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// abandon takes the file away again.
func (f *bundleFile) abandon() error {
	if f.file == nil {
		return nil
	}
	f.file.Close()
	return os.Remove(f.file.Name())
}

// archive packs what was collected.
func (b *bundle) archive(now time.Time) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	tape := tar.NewWriter(zip)
	for _, f := range b.files {
		header := &tar.Header{Name: filepath.ToSlash(filepath.Join("tokenlease-support", f.name)), Mode: 0o600, Size: int64(len(f.data)), ModTime: now, Typeflag: tar.TypeReg}
		if err := tape.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := tape.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(tape.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
