package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// readPolicies reads all files as one document. The error tells what is wrong in any
// of them.
func (p *program) readPolicies(files []string) (policyfile.Document, error) {
	merged := merger{from: map[string]string{}}
	for _, file := range files {
		data, err := p.readFile(file)
		if err != nil {
			merged.problem("%v", err)
			continue
		}
		name := file
		if file == "-" {
			name = "standard input"
		}
		doc, err := policyfile.Parse(name, data)
		if err != nil {
			merged.problem("%v", err)
			continue
		}
		merged.add(name, doc)
	}
	merged.count("policies", len(merged.all.Policies))
	merged.count("plans", len(merged.all.Plans))
	merged.count("accounts", len(merged.all.Accounts))
	if len(merged.problems) > 0 {
		return policyfile.Document{}, fmt.Errorf("nothing was sent:\n%s", strings.Join(merged.problems, "\n"))
	}
	return merged.all, nil
}

// merger makes one document of several. What two of them name is a fault.
type merger struct {
	all      policyfile.Document
	from     map[string]string // the file that names a thing
	problems []string
}

func (m *merger) problem(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// add takes in the document of a file.
func (m *merger) add(file string, d policyfile.Document) {
	for _, policy := range d.Policies {
		m.once(file, fmt.Sprintf("the operation %q has a policy", policy.GetOperation()))
	}
	for _, plan := range d.Plans {
		m.once(file, fmt.Sprintf("the plan %q stands", plan.GetName()))
	}
	for _, account := range d.Accounts {
		m.once(file, fmt.Sprintf("the account %q stands", account.GetAccount()))
	}
	m.all.Policies = append(m.all.Policies, d.Policies...)
	m.all.Plans = append(m.all.Plans, d.Plans...)
	m.all.Accounts = append(m.all.Accounts, d.Accounts...)
	if d.DefaultPlan != nil {
		m.once(file, "the default plan stands")
		m.all.DefaultPlan = d.DefaultPlan
	}
}

// once holds a thing to one file.
func (m *merger) once(file, thing string) {
	if earlier, ok := m.from[thing]; ok {
		m.problem("%s: %s in %s already", file, thing, earlier)
		return
	}
	m.from[thing] = file
}

// count holds a list to what one request may have.
func (m *merger) count(what string, n int) {
	if n > tokenleasev1.MaxPolicies {
		m.problem("there are %d %s: at most %d are applied at once, so apply some of the files first", n, what, tokenleasev1.MaxPolicies)
	}
}

// readFile reads a file, or standard input for "-", but no more than can be a
// policy file.
func (p *program) readFile(file string) ([]byte, error) {
	source := p.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		source = opened
	}
	return io.ReadAll(io.LimitReader(source, policyfile.MaxFileBytes+1))
}
