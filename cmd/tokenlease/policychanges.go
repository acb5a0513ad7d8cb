package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// writeChanges prints changes for people: each subject with its fields, before ->
// after.
func (p *program) writeChanges(changes []*tokenleasev1.PolicyChange) error {
	for _, c := range changes {
		if err := writeChange(p.stdout, c); err != nil {
			return err
		}
	}
	return nil
}

func writeChange(w io.Writer, c *tokenleasev1.PolicyChange) error {
	lines := changeLines(c)
	widest := 0
	for _, line := range lines {
		widest = max(widest, len(line.field))
	}
	var b strings.Builder
	fmt.Fprintln(&b, changeHeading(c))
	for _, line := range lines {
		if line.field == "" {
			fmt.Fprintf(&b, "    %s\n", line.text)
			continue
		}
		fmt.Fprintf(&b, "    %-*s   %s\n", widest, line.field, line.text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// changeHeading names what changes.
func changeHeading(c *tokenleasev1.PolicyChange) string {
	heading := cell(c.GetSubject())
	if operation := c.GetOperation(); operation != "" && c.GetSubject() != "policy "+operation {
		heading += ", " + cell(operation)
	}
	switch {
	case isNew(c):
		return heading + ": new"
	case isRemoved(c):
		return heading + ": removed"
	}
	return heading
}

// isNew says that a policy or a plan was not there before.
func isNew(c *tokenleasev1.PolicyChange) bool {
	return c.GetBefore() == nil && c.GetAfter() != nil || isPlan(c) && c.GetBeforeText() == ""
}

// isRemoved says that a policy or a plan is not there any more.
func isRemoved(c *tokenleasev1.PolicyChange) bool {
	return c.GetBefore() != nil && c.GetAfter() == nil || isPlan(c) && c.GetAfterText() == ""
}

// isPlan says that a change is about whether a plan is there.
func isPlan(c *tokenleasev1.PolicyChange) bool {
	return c.GetOperation() == "" && strings.HasPrefix(c.GetSubject(), "plan ")
}

// changeLine is one field of a change.
type changeLine struct{ field, text string }

// changeLines are the fields that change, and what that does to budgets.
func changeLines(c *tokenleasev1.PolicyChange) []changeLine {
	var lines []changeLine
	switch before, after := c.GetBefore(), c.GetAfter(); {
	case isPlan(c): // the heading says it
	case before == nil && after == nil:
		lines = []changeLine{{"", arrow(c.GetBeforeText(), c.GetAfterText())}}
	case before == nil:
		lines = allFields(after)
	case after == nil:
		lines = allFields(before)
	default:
		lines = fieldsBetween(before, after)
	}
	if n := c.GetLiveBudgets(); n > 0 {
		lines = append(lines, changeLine{"live budgets", strconv.FormatInt(n, 10)})
	}
	if n := c.GetRecalledTokens(); n > 0 {
		lines = append(lines, changeLine{"recalled tokens", strconv.FormatInt(n, 10)})
	}
	return lines
}

func arrow(before, after string) string { return cell(before) + " -> " + cell(after) }

// allFields are those of a policy but its operation.
func allFields(policy *tokenleasev1.Policy) []changeLine {
	var lines []changeLine
	for _, f := range policyfile.Fields(policy)[1:] {
		lines = append(lines, changeLine{f.Name, cell(f.Value)})
	}
	return lines
}

// fieldsBetween are the fields in which two policies differ. Rules of two kinds have
// none in common, and are told as a whole.
func fieldsBetween(before, after *tokenleasev1.Policy) []changeLine {
	var lines []changeLine
	anotherKind := ruleKind(before) != ruleKind(after)
	if anotherKind {
		lines = append(lines, changeLine{"rule", arrow(policyfile.RuleInWords(before), policyfile.RuleInWords(after))})
	}
	values := map[string][2]string{}
	var order []string
	for i, policy := range []*tokenleasev1.Policy{before, after} {
		for _, f := range policyfile.Fields(policy) {
			if anotherKind && strings.HasPrefix(f.Name, ruleKind(policy)+".") {
				continue
			}
			pair, known := values[f.Name]
			if !known {
				order = append(order, f.Name)
			}
			pair[i] = f.Value
			values[f.Name] = pair
		}
	}
	for _, name := range order {
		if pair := values[name]; pair[0] != pair[1] {
			lines = append(lines, changeLine{name, arrow(pair[0], pair[1])})
		}
	}
	if was, is := strictness(before, false), strictness(after, false); was != is {
		lines = append(lines, changeLine{"strict", arrow(was, is)})
	}
	return lines
}
