package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// examinedBroker is what one broker has said, and when it was asked by the clock of
// this machine.
type examinedBroker struct {
	url            string
	err            error // of ShowCluster; nil: it has answered
	asked, told    time.Time
	cluster        *tokenleasev1.ShowClusterResponse
	whoErr         error
	who            *tokenleasev1.WhoAmIResponse
	programVersion string // of this program
}

// shown is its URL for people: a password in it is nobody's business.
func (b *examinedBroker) shown() string { return shownURL(b.url) }

// examination is everything that a diagnosis is made of. What could not be looked at
// has an error instead.
type examination struct {
	now     time.Time
	brokers []*examinedBroker

	shards     *tokenleasev1.ListShardsResponse
	shardsErr  error
	holders    *tokenleasev1.ListHoldersResponse
	holdersErr error
	policy     *tokenleasev1.ShowPolicyStatusResponse
	policyErr  error
	restore    *tokenleasev1.ShowRestoreResponse
	restoreErr error
	orphans    []*tokenleasev1.Grant // the first of them
	orphansErr error
}

// answering is the first broker that has answered, nil for none.
func (e *examination) answering() *examinedBroker {
	for _, b := range e.brokers {
		if b.err == nil {
			return b
		}
	}
	return nil
}

// refused says that a broker was reached, and that none lets the caller look.
func (e *examination) refused() bool {
	return e.answering() == nil && slices.ContainsFunc(e.brokers, func(b *examinedBroker) bool { return isRefused(b.err) })
}

// orphansLooked is how many orphaned grants are looked at.
const orphansLooked = 1000

// examine asks everybody.
func (p *program) examine(ctx context.Context, s *doctorSettings) *examination {
	seen := &examination{now: p.now()}
	urls := []string{s.client.url}
	for _, url := range s.also {
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	for _, url := range urls {
		seen.brokers = append(seen.brokers, p.examineBroker(ctx, s, url))
	}
	if b := seen.answering(); b != nil {
		at := s.client
		at.url = b.url
		if seen.shardsErr = at.validate(); seen.shardsErr == nil {
			seen.look(ctx, &at)
			p.lookAgain(ctx, &at, seen)
		}
	}
	return seen
}

// examineBroker asks one broker about the cluster, and who the caller is to it.
func (p *program) examineBroker(ctx context.Context, s *doctorSettings, url string) *examinedBroker {
	at := s.client
	at.url = url
	b := &examinedBroker{url: url, programVersion: version()}
	if b.err = at.validate(); b.err != nil {
		return b
	}
	// The first question opens the connection, which takes time of its own; the
	// answer to the second is compared with the clock.
	b.who, b.whoErr = ask(ctx, &at, at.admin().WhoAmI, &tokenleasev1.WhoAmIRequest{})
	b.asked = p.now()
	b.cluster, b.err = ask(ctx, &at, at.admin().ShowCluster, &tokenleasev1.ShowClusterRequest{})
	b.told = p.now()
	return b
}

// look asks a broker that answers for the rest.
func (e *examination) look(ctx context.Context, at *clientSettings) {
	admin := at.admin()
	e.shards, e.shardsErr = ask(ctx, at, admin.ListShards, &tokenleasev1.ListShardsRequest{})
	e.holders, e.holdersErr = ask(ctx, at, admin.ListHolders, &tokenleasev1.ListHoldersRequest{})
	e.policy, e.policyErr = ask(ctx, at, admin.ShowPolicyStatus, &tokenleasev1.ShowPolicyStatusRequest{})
	e.restore, e.restoreErr = ask(ctx, at, admin.ShowRestore, &tokenleasev1.ShowRestoreRequest{})
	orphans, err := firstGrants(ctx, at, &tokenleasev1.ListGrantsRequest{
		State: tokenleasev1.GrantState_GRANT_STATE_ORPHANED, PageSize: orphansLooked,
	}, orphansLooked)
	e.orphans, e.orphansErr = orphans.GetGrants(), err
}

// commitsWithin is above the five seconds after which an owner stores its ledger time.
const commitsWithin = 6 * time.Second

// lookAgain asks once more for the shards if any seems to have stopped committing. What
// an owner has found that has just started was committed by the one before, however
// long ago.
func (p *program) lookAgain(ctx context.Context, at *clientSettings, e *examination) {
	if e.shardsErr != nil || len(silentShards(e)) == 0 {
		return
	}
	wait := p.wait
	if wait == nil {
		wait = pause
	}
	fmt.Fprintf(p.stderr, "Shards have committed nothing lately: looking again in %v.\n", commitsWithin)
	if !wait(ctx, commitsWithin) {
		return
	}
	if shards, err := ask(ctx, at, at.admin().ListShards, &tokenleasev1.ListShardsRequest{}); err == nil {
		e.shards = shards
	}
}
