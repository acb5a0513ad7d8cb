package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/identity"
	"github.com/tokenlease/tokenlease/proto/identity/localca"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// certsCommand makes certificates for trials, and reads any.
func (p *program) certsCommand() *cobra.Command {
	return groupCommand("certs", "Make certificates to try, and see who one makes its owner",
		p.certsDevCommand(), p.certsShowCommand())
}

// certsDevFlags are what is to be made.
type certsDevFlags struct {
	dir         string
	hosts       []string
	holders     []string
	trustDomain string
}

// certsDevCommand makes an authority and certificates of every role.
func (p *program) certsDevCommand() *cobra.Command {
	f := &certsDevFlags{}
	cmd := &cobra.Command{
		Use:   "dev --dir DIR",
		Short: "Make an authority and a certificate of every role, for trials",
		Long: `Make a local authority and certificates of every role, for trials: a broker, a
limiter of each --holder, a gateway, a viewer and an operator. They last 30 days.

The names in them are URIs, which give their role by themselves:
    spiffe://TRUST-DOMAIN/tokenlease/holder/REGION/INSTANCE
    spiffe://TRUST-DOMAIN/tokenlease/gateway/NAME      (viewer, operator, broker alike)

The key of the authority lies beside the certificates, so this is for trials: in
production the authority is one of your own, and --roles of the servers gives its
names their roles. Nothing that exists is overwritten.`,
		Example: `  tokenlease certs dev --dir certs
  tokenlease certs dev --dir certs --host broker-1,10.0.0.5 --holder eu/limiter-0,us/limiter-0`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			plan, err := f.plan()
			if err != nil {
				return err
			}
			if err := writeCertificates(f.dir, plan, time.Now); err != nil {
				return err
			}
			p.printCertsDev(f.dir, plan)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "`directory` to write to (required)")
	flags.StringSliceVar(&f.hosts, "host", []string{"localhost", "127.0.0.1", "::1"}, "`names` and addresses of brokers and limiters, with commas between")
	flags.StringSliceVar(&f.holders, "holder", []string{"eu/limiter-0"}, "`REGION/INSTANCE` of each limiter, with commas between")
	flags.StringVar(&f.trustDomain, "trust-domain", "tokenlease.local", "`name` that the URIs begin with")
	return cmd
}

// plannedCertificate is a certificate to make, and its file without the ending.
type plannedCertificate struct {
	file    string
	request localca.Request
}

// plan is what to make, if all of it is valid.
func (f *certsDevFlags) plan() ([]plannedCertificate, error) {
	if f.dir == "" {
		return nil, usageErrorf("--dir is missing: say where to write the certificates")
	}
	for _, host := range f.hosts {
		if net.ParseIP(host) == nil && (host == "" || strings.ContainsAny(host, " /:@")) {
			return nil, usageErrorf("--host %q is neither a name such as broker-1.example.org nor an address", host)
		}
	}
	uri := func(role identity.Roles, parts ...string) string { return identity.URI(f.trustDomain, role, parts...) }
	if uri(identity.Viewer, "viewer") == "" {
		return nil, usageErrorf("--trust-domain %q must be of lower case letters, digits, '.', '-' and '_'", f.trustDomain)
	}
	plan := []plannedCertificate{{"broker", localca.Request{CommonName: "broker", URIs: []string{uri(identity.Broker, "broker")}, Hosts: f.hosts}}}
	for _, text := range f.holders {
		region, instance, _ := strings.Cut(text, "/")
		holder := &tokenleasev1.Holder{Region: region, Instance: instance}
		if err := holder.Validate(); err != nil {
			return nil, usageErrorf("--holder %q is not REGION/INSTANCE such as eu/limiter-0: %w", text, err)
		}
		plan = append(plan, plannedCertificate{
			"limiter-" + region + "-" + instance,
			localca.Request{CommonName: text, URIs: []string{uri(identity.Holder, region, instance)}, Hosts: f.hosts},
		})
	}
	for _, role := range []identity.Roles{identity.Gateway, identity.Viewer, identity.Operator} {
		plan = append(plan, plannedCertificate{role.String(), localca.Request{CommonName: role.String(), URIs: []string{uri(role, role.String())}}})
	}
	return plan, nil
}

// writeCertificates makes the authority and the certificates, unless one of the
// files exists already.
func writeCertificates(dir string, plan []plannedCertificate, now func() time.Time) error {
	ca, err := localca.New("tokenlease trial authority", now)
	if err != nil {
		return err
	}
	files := []string{"ca"}
	pairs := []*localca.Pair{&ca.Pair}
	for _, c := range plan {
		pair, err := ca.Issue(c.request)
		if err != nil {
			return err
		}
		files, pairs = append(files, c.file), append(pairs, pair)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range files { // nothing is written beside what is there
		for _, ending := range []string{".pem", "-key.pem"} {
			if _, err := os.Lstat(filepath.Join(dir, file+ending)); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s exists: choose another --dir, or remove what is in it", filepath.Join(dir, file+ending))
			}
		}
	}
	for i, file := range files {
		if err := writeNew(filepath.Join(dir, file+"-key.pem"), pairs[i].KeyPEM, 0o600); err != nil {
			return err
		}
		if err := writeNew(filepath.Join(dir, file+".pem"), pairs[i].CertificatePEM, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file that is not there.
func writeNew(name string, data []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// printCertsDev tells what was made and what to try. What is made is data; the rest
// is for people.
func (p *program) printCertsDev(dir string, plan []plannedCertificate) {
	fmt.Fprintf(p.stdout, "%s\n", filepath.Join(dir, "ca.pem"))
	limiter, holder := "", ""
	for _, c := range plan {
		fmt.Fprintf(p.stdout, "%s\n", filepath.Join(dir, c.file+".pem"))
		if limiter == "" && strings.HasPrefix(c.file, "limiter-") {
			limiter, holder = c.file, c.request.CommonName
		}
	}
	fmt.Fprintf(p.stderr, `
Each has its key beside it. Try, in three terminals:

    tokenlease broker --data-dir tokenlease-data \
      --tls-cert %[1]s/broker.pem --tls-key %[1]s/broker-key.pem --tls-client-ca %[1]s/ca.pem
`, dir)
	if region, instance, ok := strings.Cut(holder, "/"); ok {
		fmt.Fprintf(p.stderr, `
    tokenlease limiter --region %[3]s --instance %[4]s --journal-dir tokenlease-journal --brokers https://127.0.0.1:7600 \
      --tls-cert %[1]s/%[2]s.pem --tls-key %[1]s/%[2]s-key.pem --tls-client-ca %[1]s/ca.pem
`, dir, limiter, region, instance)
	}
	fmt.Fprintf(p.stderr, `
    export TOKENLEASE_CA=%[1]s/ca.pem TOKENLEASE_CERT=%[1]s/operator.pem TOKENLEASE_KEY=%[1]s/operator-key.pem
    export TOKENLEASE_BROKER=https://127.0.0.1:7600 TOKENLEASE_LIMITER=https://127.0.0.1:7700
    tokenlease holders list
    tokenlease check acme report.create --cert %[1]s/gateway.pem --key %[1]s/gateway-key.pem
`, dir)
}
