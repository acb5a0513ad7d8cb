package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// policyCommand shows policies and puts them in force.
func (p *program) policyCommand() *cobra.Command {
	return groupCommand("policy", "See the rules, and put new ones in force",
		p.policyListCommand(), p.policyShowCommand(), p.policyApplyCommand())
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
version. A new version applies to the balances that exist, and gives nobody more.
Where the kind of the rule changes, budgets in use start as if all of the new one
had just been spent.`,
		Example: policyApplyExample,
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
		before, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return err
		}
		answer, err := ask(ctx, settings, settings.admin().ApplyPolicies, request)
		if err != nil {
			return err
		}
		t := &table{heading: []string{"OPERATION", "VERSION", "CHANGED", "RULE", "STRICT"}}
		for _, policy := range answer.GetPolicies() {
			changed := "no"
			if slices.Contains(answer.GetChanged(), policy.GetOperation()) {
				changed = "yes"
			}
			t.add(policy.GetOperation(), policy.GetVersion(), changed, policyfile.RuleInWords(policy), strictness(policy, false))
		}
		p.warnOfKinds(before.GetPolicies(), answer.GetPolicies())
		p.warnOfPolicies(answer.GetPolicies())
		return p.write(settings.output, answer, t)
	})
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

const policyApplyExample = `  tokenlease policy apply policies.yaml --because "the new plan"

  # A file. Each policy has one rule:
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
      on-unavailable: reject
    - operation: report.export
      fixed-window:
        limit: 1000
        period: day           # minute, hour, day, week or month
        time-zone: Europe/Berlin # left out: UTC
      on-unavailable: local   # not strict: each limiter has this of its own
      local: {capacity: 5, refill: 1 per 1s, for: 10m}
    - operation: login
      rolling-window: {limit: 3, window: 1m}
      disabled: true
      disabled-because: "abuse, ticket 4711"
    - operation: report.render
      concurrency: {slots: 10}
      hold: 5m                # how long a slot or a reservation lasts; left out: 60s
    - operation: chat.complete
      token-bucket: {capacity: 100000, refill: 1000 per 1s}
      postpaid: true          # not strict: a settlement may be above its reservation
      shadow: true            # not strict: decide and count, but admit`
