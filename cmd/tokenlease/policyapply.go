package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// defaultWait is how long `policy apply --wait` waits.
const defaultWait = 2 * time.Minute

// applyLong is the help of `policy apply`.
const applyLong = `Put the policies, plans and accounts of files in force, all of them or none. - is
standard input.

If anything is wrong in any file, all the faults are told with their lines, and
nothing is sent. What is the same as in force changes nothing, however often it is
applied. A new version applies to the balances that exist, and gives nobody more at
once. What the files do not name stays as it is, unless --prune removes it; a plan,
and what an account has of its own, is named as a whole.

The files may name 1,000 policies, 1,000 plans and 1,000 accounts. Of these, 124 may
change at once: what is so already does not count. Where more change, apply it in
parts.

A lower capacity calls back what is out above it. Until enough is in, the old
capacity is the guarantee: --wait waits for that, and until no limiter holds credit
under an older version. One that is cut off and holds nothing hears of it when it is
back, and nobody waits for that. After --wait-timeout it ends with exit code 1 and
says who is missing; the version stays in force.

Where the kind of the rule changes, budgets in use start as if all of the new one
had just been spent.`

func (p *program) policyApplyCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	var c change
	prune, wait, timeout := false, false, defaultWait
	cmd := &cobra.Command{
		Use:     "apply FILE...",
		Short:   "Put the policies, plans and accounts of files in force, all or none",
		Long:    applyLong,
		Example: policyApplyExample,
	}
	c.register(cmd.Flags())
	cmd.Flags().BoolVar(&prune, "prune", false, pruneUsage)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it holds everywhere")
	cmd.Flags().DurationVar(&timeout, "wait-timeout", timeout, "how long --wait waits")
	return clientCommand(cmd, settings, -1, func(ctx context.Context, files []string) error {
		switch {
		case wait && c.dryRun:
			return usageErrorf("--wait has nothing to wait for with --dry-run: want one of them")
		case cmd.Flags().Changed("wait-timeout") && !wait:
			return usageErrorf("--wait-timeout does nothing without --wait")
		case timeout <= 0:
			return usageErrorf("--wait-timeout %v must be more than 0", timeout)
		}
		answer, err := p.applyFiles(ctx, settings, c.applyRequest(), files, prune)
		if err != nil {
			return err
		}
		if err := p.writeApplied(settings.output, answer); err != nil || !wait {
			return err
		}
		return p.awaitPolicies(ctx, settings, answer.GetVersion(), timeout)
	})
}

// pruneUsage says what --prune does.
const pruneUsage = "remove policies for everybody, and plans, that no file names"

// applyFiles reads the files into the request, and sends it.
func (p *program) applyFiles(ctx context.Context, settings *clientSettings, request *tokenleasev1.ApplyPoliciesRequest, files []string, prune bool) (*tokenleasev1.ApplyPoliciesResponse, error) {
	doc, err := p.readPolicies(files)
	if err != nil {
		return nil, err
	}
	request.Policies, request.Plans, request.DefaultPlan, request.Accounts = doc.Policies, doc.Plans, doc.DefaultPlan, doc.Accounts
	if err := validRequest(request); err != nil {
		return nil, err
	}
	if prune {
		listed, err := ask(ctx, settings, settings.admin().ListPolicies, &tokenleasev1.ListPoliciesRequest{})
		if err != nil {
			return nil, err
		}
		pruneRest(request, doc, listed)
	}
	answer, err := ask(ctx, settings, settings.admin().ApplyPolicies, request)
	if err == nil {
		p.warn(notesOf(doc))
	}
	return answer, err
}

// pruneRest has everything removed that is in force and that the document does not
// name: what was seen, so the request is held to the version that was seen.
func pruneRest(request *tokenleasev1.ApplyPoliciesRequest, doc policyfile.Document, listed *tokenleasev1.ListPoliciesResponse) {
	operations, plans := map[string]bool{}, map[string]bool{}
	for _, policy := range doc.Policies {
		operations[policy.GetOperation()] = true
	}
	for _, plan := range doc.Plans {
		plans[plan.GetName()] = true
	}
	for _, policy := range listed.GetPolicies() {
		if !operations[policy.GetOperation()] {
			request.RemoveOperations = append(request.RemoveOperations, policy.GetOperation())
		}
	}
	for _, plan := range listed.GetPlans() {
		if !plans[plan.GetName()] {
			request.RemovePlans = append(request.RemovePlans, plan.GetName())
		}
	}
	if request.GetIfVersion() == 0 {
		request.IfVersion = listed.GetVersion()
	}
}

// writeApplied prints what a request has changed, or would change.
func (p *program) writeApplied(format outputFormat, answer *tokenleasev1.ApplyPoliciesResponse) error {
	p.warn(answer.GetWarnings())
	p.tellVersion(answer.GetVersion(), answer.GetChanges(), answer.GetDryRun())
	if format != formatTable {
		return p.write(format, answer, nil)
	}
	return p.writeChanges(answer.GetChanges())
}

// tellVersion says which version is in force, and what it means for what is out.
func (p *program) tellVersion(version int64, changes []*tokenleasev1.PolicyChange, dryRun bool) {
	recalled := int64(0)
	for _, c := range changes {
		recalled += c.GetRecalledTokens()
	}
	switch {
	case len(changes) == 0:
		fmt.Fprintf(p.stderr, "Nothing changes: version %d is in force, and the same.\n", version)
	case dryRun && version == 0: // of which no request can say that it is the one
		fmt.Fprintln(p.stderr, "Nothing was changed. This was computed for a cluster without policies, plans and accounts: none was ever applied.")
	case dryRun:
		fmt.Fprintf(p.stderr, "Nothing was changed. This was computed at version %d: apply exactly this with --if-version %d.\n", version, version)
	default:
		fmt.Fprintf(p.stderr, "Version %d is in force.\n", version)
	}
	if recalled > 0 && !dryRun {
		fmt.Fprintf(p.stderr, "Called back are %s that are out above new capacities. Until they are in, the old\ncapacities are the guarantee: `tokenlease policy status` tells who has them.\n",
			countOf(recalled, "token"))
	}
}

const policyApplyExample = `  tokenlease policy apply policies.yaml --because "the new plan"

  # Apply exactly what policy diff has shown, and wait until it holds everywhere.
  tokenlease policy apply policies.yaml --if-version 6 --wait --wait-timeout 5m

  # The files are all there is: remove other policies and plans.
  tokenlease policy apply policies.yaml plans.yaml --prune --dry-run

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
      max-staleness: 1m       # credit is spent for so long without a broker; left out: no limit
      reclaim: deadline       # what a silent limiter has out counts as spent after that
      reclaim-margin: 15s     # and so much: for slow clocks and pauses. Weaker than proof
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
      shadow: true            # not strict: decide and count, but admit
  plans:                      # what goes before that, for the accounts of a plan
    - plan: free              # has no policies: those above rule
    - plan: premium
      policies:
        - operation: report.create
          token-bucket: {capacity: 400, refill: 200 per 1s}
  default-plan: free          # of accounts without a plan; "" is none
  accounts:
    - account: Acme           # names keep their case: acme is another account
      plan: premium
    - account: "007"          # quotes where YAML sees a number, true, or null
      policies:               # what goes before any plan, for this account
        - operation: report.render
          concurrency: {slots: 2}`
