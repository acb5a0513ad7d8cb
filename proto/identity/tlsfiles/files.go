package tlsfiles

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenlease/tokenlease/proto/identity"
)

// PollEvery is how often files should be looked at.
const PollEvery = 5 * time.Second

// maxFileBytes is the largest file that is read.
const maxFileBytes = 4 << 20

// Config names the files.
type Config struct {
	// Use is a word for metrics and logs, such as "server". Files with the same
	// registerer need different ones.
	Use string
	// CertFile has the certificate to show, and the intermediate ones; KeyFile its
	// key. Both or neither.
	CertFile, KeyFile string
	// CAFile has the authorities that others are verified by. Empty: those of the
	// system, for clients alone.
	CAFile string
	// RolesFile has an identity.Mapping. Empty: there is none.
	RolesFile string

	Registerer prometheus.Registerer // nil: metrics go nowhere
	Logger     *slog.Logger          // nil discards
}

// Files are what was read last that was right.
type Files struct {
	cfg     Config
	state   atomic.Pointer[state]
	metrics metrics

	mu    sync.Mutex
	parts []*part
}

// part are files that are put in force together, and without the others: while a
// renewal of the certificate fails, an authority or a role can still be taken out.
type part struct {
	what  string
	names []string // of files; empty: there is none
	take  func(next *state, contents [][]byte) error

	seen  [][]byte // the contents at the last look
	tried [][]byte // those that were judged last, right or wrong
	err   error    // of those
}

// state is what is in force. It does not change.
type state struct {
	certificate *tls.Certificate // nil: none
	trust       *identity.Trust
	authorities time.Time // when the first of them expires; zero: not known
}

// Open reads the files. The error names the file and what is wrong with it.
func Open(cfg Config) (*Files, error) {
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return nil, errors.New("tlsfiles: a certificate and its key need each other")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Files{cfg: cfg, metrics: newMetrics(cfg)}
	f.parts = []*part{
		{what: "certificate", names: []string{cfg.CertFile, cfg.KeyFile}, take: f.takeCertificate},
		{what: "authorities and roles", names: []string{cfg.CAFile, cfg.RolesFile}, take: f.takeTrust},
	}
	first := &state{trust: &identity.Trust{}}
	for _, p := range f.parts {
		contents, err := p.read()
		if err == nil {
			err = p.take(first, contents)
		}
		if err != nil {
			return nil, err
		}
		p.seen, p.tried = contents, contents
	}
	f.state.Store(first)
	f.metrics.read(first)
	f.metrics.judged(true)
	return f, nil
}

// Reload looks at the files. What has changed since they were judged last is judged
// when two looks in a row have found the same, so that nothing counts that is half
// written, and is put in force if it is right. The error is that of the files as they
// were judged last; what was in force of those then stays.
func (f *Files) Reload() error { return f.reload(false) }

// Retry is Reload for an operator who says that the files are written, and waits for
// the outcome: they are judged at this look, and that is logged and counted also where
// nothing has changed.
func (f *Files) Retry() error { return f.reload(true) }

func (f *Files) reload(retry bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var faults []error
	for _, p := range f.parts {
		f.look(p, retry)
		faults = append(faults, p.err)
	}
	err := errors.Join(faults...)
	f.metrics.judged(err == nil)
	return err
}

// look looks at a part, and judges it if it is time to.
func (f *Files) look(p *part, retry bool) {
	contents, err := p.read()
	if err != nil {
		contents = [][]byte{[]byte(err.Error())}
	}
	settled := sameContents(contents, p.seen)
	p.seen = contents
	if !retry && (!settled || sameContents(contents, p.tried)) {
		return
	}
	p.tried = contents
	next := *f.state.Load()
	if err == nil {
		err = p.take(&next, contents)
	}
	p.err = err
	if err != nil {
		f.metrics.failed()
		f.cfg.Logger.Error("files for TLS were not taken; what was in force stays so", "use", f.cfg.Use, "what", p.what, "error", err)
		return
	}
	f.state.Store(&next)
	f.metrics.read(&next)
	f.cfg.Logger.Info("files for TLS were read again", "use", f.cfg.Use, "what", p.what, "expires", f.Expires())
}

func sameContents(a, b [][]byte) bool { return slices.EqualFunc(a, b, slices.Equal[[]byte]) }

// Run looks at the files at each tick, and at each signal also if they have not
// changed. It returns when done is closed.
func (f *Files) Run(done <-chan struct{}, ticks <-chan time.Time, signals <-chan os.Signal) {
	for {
		select {
		case <-done:
			return
		case <-ticks:
			_ = f.Reload() // logged
		case <-signals:
			_ = f.Retry() // logged
		}
	}
}

// Trust is what callers are judged by now.
func (f *Files) Trust() *identity.Trust { return f.state.Load().trust }

// Expires is when the certificate does that is shown now; zero: there is none.
func (f *Files) Expires() time.Time {
	if cert := f.state.Load().certificate; cert != nil {
		return cert.Leaf.NotAfter
	}
	return time.Time{}
}

// read reads the files of a part, in the order of names.
func (p *part) read() ([][]byte, error) {
	var all [][]byte
	for _, name := range p.names {
		if name == "" {
			all = append(all, nil)
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(data) > maxFileBytes {
			return nil, fmt.Errorf("%s: has %d bytes: at most %d are read", name, len(data), maxFileBytes)
		}
		all = append(all, data)
	}
	return all, nil
}

// takeCertificate adds the certificate to what comes into force, if it is right.
func (f *Files) takeCertificate(next *state, contents [][]byte) (err error) {
	if f.cfg.CertFile != "" {
		next.certificate, err = parsePair(f.cfg.CertFile, f.cfg.KeyFile, contents[0], contents[1], time.Now())
	}
	return err
}

// takeTrust adds what callers are judged by, if all of it is right.
func (f *Files) takeTrust(next *state, contents [][]byte) (err error) {
	trust := &identity.Trust{}
	if f.cfg.CAFile != "" {
		if trust.Authorities, next.authorities, err = parseAuthorities(f.cfg.CAFile, contents[0]); err != nil {
			return err
		}
	}
	if f.cfg.RolesFile != "" {
		if trust.Mapping, err = identity.ParseMapping(f.cfg.RolesFile, contents[1]); err != nil {
			return err
		}
	}
	next.trust = trust
	return nil
}
