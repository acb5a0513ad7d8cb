package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenlease/tokenlease/proto/identity"
)

// certsShowSettings are how certificates are read.
type certsShowSettings struct {
	output outputFormat
	roles  string
}

// shownCertificate is a certificate as tokenlease reads it.
type shownCertificate struct {
	File    string   `json:"file"`
	Name    string   `json:"name"` // recorded for what its owner does
	Names   []string `json:"names"`
	Roles   []string `json:"roles"`
	Holders []string `json:"holders"`
	IsCA    bool     `json:"is_authority"`
	Expires string   `json:"expires"`
	Expired bool     `json:"expired"`
}

// certsShowCommand tells who a certificate makes its owner.
func (p *program) certsShowCommand() *cobra.Command {
	s := &certsShowSettings{output: formatTable}
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show the names and roles in certificates, and when they expire",
		Long: `Show the names and roles that tokenlease reads in certificates, and when they
expire. NAME is what is recorded for what its owner does. Of a file with several
certificates the first counts. Nothing is sent anywhere, and nothing is verified:
whether a server takes the certificate depends on its --tls-client-ca.

The exit code is 1 when one has expired.`,
		Example: `  tokenlease certs show operator.pem

  # With the file that the servers have for --roles.
  tokenlease certs show --roles roles.yaml gateway.pem -o json`,
		Args: exactArgs(-1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.certsShow(cmd.Context(), s, args) },
	}
	addSettings(cmd, func(flags *pflag.FlagSet) {
		flags.VarP(&s.output, "output", "o", "table, json or yaml")
		flags.StringVar(&s.roles, "roles", "", "YAML `file` of the roles of names that are not of tokenlease's own form")
	})
	return cmd
}

// certsShow reads all files before it prints.
func (p *program) certsShow(_ context.Context, s *certsShowSettings, files []string) error {
	var mapping *identity.Mapping
	if s.roles != "" {
		data, err := os.ReadFile(s.roles)
		if err != nil {
			return usageErrorf("--roles: %w", err)
		}
		if mapping, err = identity.ParseMapping(s.roles, data); err != nil {
			return usageErrorf("--roles:\n%w", err)
		}
	}
	var all []shownCertificate
	expired := false
	for _, file := range files {
		shown, err := readCertificate(file, mapping, time.Now())
		if err != nil {
			return err
		}
		all, expired = append(all, shown), expired || shown.Expired
	}
	if err := p.writeCertificates(s.output, all); err != nil {
		return err
	}
	if expired {
		return exitError{code: exitNo}
	}
	return nil
}

// readCertificate reads the first certificate of a file.
func readCertificate(file string, mapping *identity.Mapping, now time.Time) (shownCertificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return shownCertificate{}, err
	}
	block, rest := pem.Decode(data)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return shownCertificate{}, fmt.Errorf("%s: has no certificate in PEM form", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return shownCertificate{}, fmt.Errorf("%s: %w", file, err)
	}
	peer := identity.Identify(cert, mapping)
	shown := shownCertificate{
		File: file, Name: peer.Name, Names: append([]string{}, peer.Names...), Roles: append([]string{}, peer.Roles.Names()...), Holders: []string{},
		IsCA: cert.IsCA, Expires: cert.NotAfter.UTC().Format(time.RFC3339), Expired: now.After(cert.NotAfter),
	}
	for _, h := range peer.Holders {
		shown.Holders = append(shown.Holders, h.String())
	}
	return shown, nil
}

// writeCertificates prints what was read.
func (p *program) writeCertificates(format outputFormat, all []shownCertificate) error {
	if format == formatTable {
		t := &table{heading: []string{"FILE", "NAME", "ROLES", "HOLDERS", "EXPIRES", "OTHER NAMES"}}
		for _, c := range all {
			roles := strings.Join(c.Roles, ",")
			if c.IsCA {
				roles = "(authority)"
			}
			expires := c.Expires
			if c.Expired {
				expires += " (expired)"
			}
			var others []string
			for _, name := range c.Names {
				if name != c.Name {
					others = append(others, name)
				}
			}
			t.add(c.File, c.Name, roles, strings.Join(c.Holders, ","), expires, strings.Join(others, " "))
		}
		return t.write(p.stdout)
	}
	data, err := json.MarshalIndent(map[string]any{"certificates": all}, "", "  ")
	if err != nil {
		return err
	}
	if data = append(data, '\n'); format == formatYAML {
		if data, err = toYAML(data); err != nil {
			return err
		}
	}
	_, err = p.stdout.Write(data)
	return err
}
