package policyfile

import (
	"bytes"
	"fmt"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// Format writes a valid document as a file that [Parse] reads back to the same
// document, but for versions and times, which a file does not have.
//
// Optional fields are written out where they say something. Of a document that says
// nothing the list of policies is empty, which Parse refuses.
func Format(d Document) []byte {
	var b bytes.Buffer
	if d.IsEmpty() {
		return []byte("policies: []\n")
	}
	formatPolicies(&b, d.Policies, "")
	if len(d.Plans) > 0 {
		b.WriteString("plans:\n")
	}
	for _, plan := range d.Plans {
		fmt.Fprintf(&b, "  - plan: %s\n", strictyaml.FormatName(plan.GetName()))
		formatPolicies(&b, plan.GetPolicies(), "    ")
	}
	if d.DefaultPlan != nil {
		fmt.Fprintf(&b, "default-plan: %s\n", strictyaml.FormatName(*d.DefaultPlan))
	}
	if len(d.Accounts) > 0 {
		b.WriteString("accounts:\n")
	}
	for _, account := range d.Accounts {
		fmt.Fprintf(&b, "  - account: %s\n", strictyaml.FormatName(account.GetAccount()))
		if account.GetPlan() != "" {
			fmt.Fprintf(&b, "    plan: %s\n", strictyaml.FormatName(account.GetPlan()))
		}
		formatPolicies(&b, account.GetPolicies(), "    ")
	}
	return b.Bytes()
}

// formatPolicies writes the field policies, if there are any.
func formatPolicies(b *bytes.Buffer, policies []*tokenleasev1.Policy, indent string) {
	if len(policies) > 0 {
		fmt.Fprintf(b, "%spolicies:\n", indent)
	}
	for _, p := range policies {
		formatPolicy(b, p, indent+"  ")
	}
}

// formatPolicy writes one element of a list.
func formatPolicy(b *bytes.Buffer, p *tokenleasev1.Policy, indent string) {
	mark, open := "- ", ""
	for _, f := range Fields(p) {
		group, own := f.group()
		if group != open && group != "" {
			fmt.Fprintf(b, "%s  %s:\n", indent, group)
		}
		open = group
		if group != "" {
			mark = "    "
		}
		fmt.Fprintf(b, "%s%s%s: %s\n", indent, mark, own, f.yaml())
		mark = "  "
	}
}
