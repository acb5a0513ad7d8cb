package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/tokenlease/tokenlease/lease"
	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// candidatesShown is how many grants an ambiguous beginning of an ID lists.
const candidatesShown = 10

// grantIDBegins is what an ID begins with, or is.
var grantIDBegins = regexp.MustCompile(`^g([0-9]+(-([0-9a-f]+(-[0-9a-f]*)?)?)?)?$`)

// wholeGrantID is the ID that a given beginning is unique to. A whole one comes back
// as it is: the server has the word on it, as its grant may have ended.
func wholeGrantID(ctx context.Context, settings *clientSettings, given string) (string, error) {
	if err := (&tokenleasev1.ShowGrantRequest{GrantId: given}).Validate(); err != nil {
		return "", usageError{err}
	}
	if _, err := lease.ParseGrantID(given); err == nil {
		return given, nil
	}
	request := &tokenleasev1.ListGrantsRequest{GrantIdPrefix: given, PageSize: candidatesShown + 1}
	if !isBeginning(given) { // the server has the word
		return given, nil
	}
	page, err := firstGrants(ctx, settings, request, candidatesShown+1)
	if err != nil {
		return "", err
	}
	found := page.GetGrants()
	for _, g := range found {
		if g.GetGrantId() == given {
			return given, nil
		}
	}
	if page.GetUnusableCount() > 0 && len(found) < 2 { // which may be the one that is meant
		return "", usageErrorf("a record that cannot be read may be of a grant that begins with %s: say the whole ID\n    %s", given, strings.Join(page.GetUnusable(), "\n    "))
	}
	switch len(found) {
	case 0:
		if !grantIDBegins.MatchString(given) {
			return "", usageErrorf("%.40q is no grant ID, nor the beginning of one: want the form g1-003-0000002a", given)
		}
		return "", exitError{code: exitNo, text: fmt.Sprintf("no unresolved grant begins with %s. Of one that has ended, say the whole ID to `tokenlease grants explain`", given)}
	case 1:
		return found[0].GetGrantId(), nil
	}
	return "", ambiguous(given, found)
}

// firstGrants reads pages until there are so many grants, or no more, and makes one of
// them.
func firstGrants(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListGrantsRequest, most int) (*tokenleasev1.ListGrantsResponse, error) {
	found := &tokenleasev1.ListGrantsResponse{}
	err := askPages(ctx, settings, settings.admin().ListGrants, request, func(page *tokenleasev1.ListGrantsResponse) bool {
		found.Grants = append(found.Grants, page.GetGrants()...)
		found.Unusable, found.UnusableCount = addUnusable(found.GetUnusable(), found.GetUnusableCount(), page)
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != "" && len(found.GetGrants()) < most
	})
	return found, err
}

// ambiguous lists the grants that a beginning of an ID fits.
func ambiguous(given string, found []*tokenleasev1.Grant) error {
	var b strings.Builder
	for i, g := range found {
		if i == candidatesShown {
			b.WriteString("\n    ... and more")
			break
		}
		fmt.Fprintf(&b, "\n    %s   %s %s, %s, %s", g.GetGrantId(), cell(g.GetBudget().GetAccount()), cell(g.GetBudget().GetOperation()),
			holderName(g.GetHolder()), enumWord(g.GetState(), "GRANT_STATE_"))
	}
	return usageErrorf("more than one grant begins with %s: say more of the ID%s", given, b.String())
}

// isBeginning says that grants can be asked for by how their ID begins.
func isBeginning(given string) bool {
	return validRequest(&tokenleasev1.ListGrantsRequest{GrantIdPrefix: given}) == nil
}
