package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/lease"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policyCommand shows policies and puts them in force.
func (p *program) policyCommand() *cobra.Command {
	return groupCommand("policy", "See the rules, and put new ones in force",
		p.policyListCommand(), p.policyApplyCommand())
}

func (p *program) policyListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the policies in force",
		Long:  `List the policies in force. With -o yaml the output is a file for policy apply.`,
		Example: `  tokenlease policy list
  tokenlease policy list -o yaml > policies.yaml`,
	}
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		answer, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		if settings.output == formatYAML {
			_, err := p.stdout.Write(policyfile.Format(answer.GetPolicies()))
			return err
		}
		t := &table{heading: []string{"OPERATION", "VERSION", "CAPACITY", "REFILL", "COST", "MAX-COST", "MAX-SHARE", "RECLAIM", "ON-UNAVAILABLE", "UPDATED"}}
		for _, policy := range answer.GetPolicies() {
			addPolicy(t, policy)
		}
		return p.write(settings.output, answer, t)
	})
}

// addPolicy adds a row to a table of policies.
func addPolicy(t *table, policy *tokenleasev1.Policy) {
	bucket := policy.GetTokenBucket()
	most := ""
	if policy.GetMaxCostTokens() > 0 {
		most = strconv.FormatInt(policy.GetMaxCostTokens(), 10)
	}
	t.add(policy.GetOperation(), policy.GetVersion(), bucket.GetCapacityTokens(), policyfile.FormatRefill(bucket),
		policy.GetDefaultCostTokens(), most, fmt.Sprintf("%d%%", policy.GetMaxSharePercent()), enumWord(policy.GetReclaim(), "RECLAIM_"),
		enumWord(policy.GetOnUnavailable(), "UNAVAILABILITY_"), moment(policy.GetUpdatedUnixMs()))
}

func (p *program) policyApplyCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	request := &tokenleasev1.ApplyPoliciesRequest{}
	cmd := &cobra.Command{
		Use:   "apply FILE...",
		Short: "Put the policies of files in force, all or none",
		Long: `Put the policies of files in force, all of them or none. - is standard input.

If anything is wrong in any file, all the faults are told with their lines, and
nothing is applied. A policy that is the same as the one in force keeps its
version. A new version applies to the balances that exist, and gives nobody more.`,
		Example: `  tokenlease policy apply policies.yaml --because "the new plan"

  # A file:
  policies:
    - operation: report.create
      token-bucket:
        capacity: 40
        refill: 20 per 1s     # 0 or left out: a fixed quota
      cost: 5                 # left out: 1
      max-cost: 40            # left out: no limit but the capacity
      allow-zero-cost: false
      max-share: 100%         # the most of it that one limiter may hold
      reclaim: proof
      on-unavailable: reject`,
	}
	cmd.Flags().StringVar(&request.Because, "because", "", "why: recorded")
	cmd.Flags().StringVar(&request.AppliedBy, "by", currentUser(), "who applies: recorded")
	return clientCommand(cmd, settings, -1, func(ctx context.Context, args []string) error {
		var err error
		if request.Policies, err = p.readPolicies(args); err != nil {
			return err
		}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.admin().ApplyPolicies, request)
		if err != nil {
			return err
		}
		t := &table{heading: []string{"OPERATION", "VERSION", "CHANGED"}}
		for _, policy := range answer.GetPolicies() {
			changed := "no"
			if slices.Contains(answer.GetChanged(), policy.GetOperation()) {
				changed = "yes"
			}
			t.add(policy.GetOperation(), policy.GetVersion(), changed)
		}
		p.warnOfPolicies(answer.GetPolicies())
		return p.write(settings.output, answer, t)
	})
}

// warnOfPolicies tells of policies that are valid and deny everything.
func (p *program) warnOfPolicies(policies []*tokenleasev1.Policy) {
	for _, policy := range policies {
		capacity := policy.GetTokenBucket().GetCapacityTokens()
		most := lease.Rule{Capacity: capacity, MaxSharePercent: policy.GetMaxSharePercent()}.ShareCap()
		switch cost := max(1, policy.GetDefaultCostTokens()); {
		case capacity == 0:
			fmt.Fprintf(p.stderr, "tokenlease: warning: %s has capacity 0, which denies every check\n", policy.GetOperation())
		case cost > most:
			fmt.Fprintf(p.stderr, "tokenlease: warning: %s costs %d, and one limiter may hold %d at most (max-share %d%% of %d): checks of that cost are always denied\n",
				policy.GetOperation(), cost, most, policy.GetMaxSharePercent(), capacity)
		}
	}
}

// readPolicies reads the policies of all files. The error tells what is wrong in
// any of them.
func (p *program) readPolicies(files []string) ([]*tokenleasev1.Policy, error) {
	var all []*tokenleasev1.Policy
	var problems []string
	from := map[string]string{} // the file of each operation
	for _, file := range files {
		data, err := p.readFile(file)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		policies, err := policyfile.Parse(file, data)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, policy := range policies {
			if earlier, ok := from[policy.GetOperation()]; ok {
				problems = append(problems, fmt.Sprintf("%s: the operation %q has a policy in %s already", file, policy.GetOperation(), earlier))
			}
			from[policy.GetOperation()] = file
		}
		all = append(all, policies...)
	}
	if len(all) > tokenleasev1.MaxPolicies {
		problems = append(problems, fmt.Sprintf("there are %d policies: at most %d are applied at once", len(all), tokenleasev1.MaxPolicies))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("nothing was applied:\n%s", strings.Join(problems, "\n"))
	}
	return all, nil
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
