package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// heardLately is how long ago a holder was heard at most that is likely alive. `holders
// retire` wants --force for as long.
const heardLately = time.Minute

// restoreOutlook is what a declaration or an attestation is about, as far as it is
// known.
type restoreOutlook struct {
	clusterID string
	unixMs    int64                        // by the clock that the holders were heard at
	holders   []*tokenleasev1.HolderStatus // in the store as it is now
	unknown   error                        // why there are no holders; nil: they are all
	damaged   partial                      // tells which records of theirs cannot be read; nil: none
	offline   bool                         // no broker was asked
}

// confirmRestore shows what would happen, and has the cluster's ID typed.
func (p *program) confirmRestore(ctx context.Context, admin restoreAdmin, word *attestation, to string, tell func(restoreOutlook) string) error {
	outlook, err := admin.look(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(p.stderr, tell(outlook))
	if outlook.damaged != nil {
		p.warnUnusable(outlook.damaged)
	}
	return word.confirm(ctx, p, outlook.clusterID, to)
}

// declaring tells what a declaration does.
func declaring(generation uint32) func(restoreOutlook) string {
	return func(o restoreOutlook) string {
		var b strings.Builder
		fmt.Fprintf(&b, "Cluster %s, generation %d: you declare that its store was restored from an older copy.\n", cell(o.clusterID), generation)
		b.WriteString("Every holder is fenced and has to start again, and nothing is granted until `tokenlease restore attest`.\n")
		switch credited, heard := o.count(); {
		case o.offline:
			b.WriteString("No broker was asked, so it is not known which holders were heard lately.\n")
		case o.unknown != nil:
			fmt.Fprintf(&b, "Which holders were heard lately is not known: %v\n", o.unknown)
		default:
			fmt.Fprintf(&b, "That fences %s with credit. In the last minute %d of all %s were heard.\n",
				countOf(int64(credited), "holder"), heard, countOf(int64(len(o.holders)), "holder"))
			if heard > 0 {
				b.WriteString("They work with this store now: if it was not restored, do not declare that it was.\n")
			}
		}
		return b.String()
	}
}

// attesting tells what an attestation does.
func attesting(generation uint32) func(restoreOutlook) string {
	return func(o restoreOutlook) string {
		var b strings.Builder
		fmt.Fprintf(&b, "Cluster %s, generation %d: you attest that nothing of before its restore runs or can ever resume.\n", cell(o.clusterID), generation)
		b.WriteString("All of every budget is unknown, and counts as spent at that moment: it comes back through refill, a fixed quota never.\n")
		switch credited, heard := o.count(); {
		case o.offline:
			b.WriteString("No broker was asked, so it is not known which holders have started again.\n")
		case o.unknown != nil:
			fmt.Fprintf(&b, "Which holders have started again is not known: %v\n", o.unknown)
		default:
			grants, tokens, fenced := int64(0), int64(0), int64(0)
			for _, h := range o.holders {
				grants += h.GetLiveGrants() + h.GetOrphanedGrants()
				tokens += h.GetLiveTokens() + h.GetOrphanedTokens()
				if h.GetFenced() {
					fenced++
				}
			}
			fmt.Fprintf(&b, "That has %s in %s of %s, which the copy knows of, and whatever it does not know of.\n",
				countOf(tokens, "token"), countOf(grants, "grant"), countOf(int64(credited), "holder"))
			fmt.Fprintf(&b, "Of all %s, %d have not started again since, and %d were heard in the last minute.\n", countOf(int64(len(o.holders)), "holder"), fenced, heard)
		}
		return b.String()
	}
}

// count is how many holders have credit, and how many of all were heard lately.
func (o restoreOutlook) count() (credited, heard int) {
	for _, h := range o.holders {
		if h.GetLiveGrants()+h.GetOrphanedGrants() > 0 {
			credited++
		}
		if last := h.GetLastHeardUnixMs(); last > 0 && o.unixMs-last < heardLately.Milliseconds() {
			heard++
		}
	}
	return credited, heard
}
