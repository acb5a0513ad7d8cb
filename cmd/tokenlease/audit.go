package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// auditCommand shows what operators did.
func (p *program) auditCommand() *cobra.Command {
	return groupCommand("audit", "See what operators did, when and why",
		p.auditListCommand(), p.auditExportCommand())
}

// auditFlags choose entries.
type auditFlags struct {
	since, until instant
	action, by   string
	forced       bool
	limit        number
}

// register adds them to a command.
func (f *auditFlags) register(p *program, settings *clientSettings, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.since, "since", "only from then on: `TIME` as 2026-01-31T06:00:00Z, or how long ago, such as 24h or 7d")
	flags.Var(&f.until, "until", "only before then: `TIME` likewise")
	flags.StringVar(&f.action, "action", "", "only of this kind, such as holders.retire")
	flags.StringVar(&f.by, "by", "", "only by this operator")
	flags.BoolVar(&f.forced, "forced", false, "only what overrode a safeguard; all entries are read for it")
	numberVar(flags, &f.limit, "limit", "the first so many (default: all)", 0, 1<<53)
	p.completeFlags(cmd, settings, map[string]completer{"action": p.auditActions, "by": p.auditNames})
}

// read is the request that the flags ask for.
func (f *auditFlags) read(now time.Time) (*tokenleasev1.ListAuditRequest, error) {
	request := &tokenleasev1.ListAuditRequest{
		SinceUnixMs: f.since.unixMs(now), UntilUnixMs: f.until.unixMs(now), Action: f.action, By: f.by, PageSize: tokenleasev1.MaxPageSize,
	}
	if request.GetUntilUnixMs() != 0 && request.GetSinceUnixMs() >= request.GetUntilUnixMs() {
		return nil, usageErrorf("--since %s is not before --until %s", f.since.text, f.until.text)
	}
	return request, validRequest(request)
}

func (p *program) auditListCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what operators did, newest first",
		Long: `List what operators did, newest first, with who and why. Entries are kept for a
bounded time.

VERIFIED says that the name is from a certificate, and not the caller's word.
FORCED says that a safeguard was overridden. What was before and after stands in
-o json and -o yaml, and in ` + "`tokenlease audit export`" + `.`,
		Example: `  tokenlease audit list --since 24h
  tokenlease audit list --action holders.retire --by ann
  tokenlease audit list --forced --since 30d
  tokenlease audit list --since 2026-01-31T06:00:00Z --until 2026-02-01T00:00:00Z -o json`,
	}
	flags.register(p, settings, cmd)
	return p.showCommand(cmd, settings, 0, func(ctx context.Context, p *program, _ []string) error {
		request, err := flags.read(p.now())
		if err != nil {
			return err
		}
		out := p.newListStream(settings.output, "entries", []string{"TIME", "ACTION", "SUBJECT", "BY", "VERIFIED", "FORCED", "BECAUSE"})
		rest := &tokenleasev1.ListAuditResponse{}
		rest.Revision, err = auditEntries(ctx, settings, request, int64(flags.limit.value), flags.forced, func(e *tokenleasev1.AuditEntry) error {
			return out.add(e, moment(e.GetUnixMs()), e.GetAction(), e.GetSubject(), e.GetBy(), yesNo(e.GetVerified()), yesNo(e.GetForced()), e.GetBecause())
		})
		if err != nil {
			return err
		}
		return out.finish(rest)
	})
}

// auditEntries reads entries, or only forced ones, until there are so many, 0 for all,
// or no more. The revision is that of the first page.
func auditEntries(ctx context.Context, settings *clientSettings, request *tokenleasev1.ListAuditRequest, limit int64, forced bool, each func(*tokenleasev1.AuditEntry) error) (revision int64, err error) {
	request = proto.CloneOf(request)
	count, failed := int64(0), error(nil)
	err = askPages(ctx, settings, settings.admin().ListAudit, request, func(page *tokenleasev1.ListAuditResponse) bool {
		if revision == 0 {
			revision = page.GetRevision()
		}
		for _, e := range page.GetEntries() {
			if limit > 0 && count == limit {
				return false
			}
			if forced && !e.GetForced() {
				continue
			}
			count++
			if failed = each(e); failed != nil {
				return false
			}
		}
		request.PageToken = page.GetNextPageToken()
		return request.GetPageToken() != "" && (limit == 0 || count < limit)
	})
	if failed != nil {
		err = failed
	}
	return revision, err
}

func (p *program) auditExportCommand() *cobra.Command {
	settings := &clientSettings{server: brokerServer}
	flags := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print every entry as a line of JSON, oldest first",
		Long: `Print every entry as a line of JSON, oldest first, for an archive. The fields are
those of the API; "before" and "after" are JSON in it, and null where there was
nothing. --output is of no effect.

An export that fails midway ends with an error. What it has printed is complete to
the last line: go on with --since and the time of that.`,
		Example: `  tokenlease audit export > audit.jsonl
  tokenlease audit export --since 24h --forced | jq .because`,
	}
	flags.register(p, settings, cmd)
	return clientCommand(cmd, settings, 0, func(ctx context.Context, _ []string) error {
		request, err := flags.read(p.now())
		if err != nil {
			return err
		}
		request.OldestFirst = true
		progress, count := p.counting("entries"), int64(0)
		defer progress.done()
		_, err = auditEntries(ctx, settings, request, int64(flags.limit.value), flags.forced, func(e *tokenleasev1.AuditEntry) error {
			line, err := auditLine(e)
			if err != nil {
				return err
			}
			count++
			progress.set(count)
			_, err = p.stdout.Write(line)
			return err
		})
		return err
	})
}

// auditRecord is an entry in an export. Names and forms are those of the API, and
// before and after are JSON and no text.
type auditRecord struct {
	ID       string          `json:"id"`
	Time     string          `json:"time"`
	UnixMs   int64           `json:"unix_ms,string"`
	Action   string          `json:"action"`
	By       string          `json:"by"`
	Verified bool            `json:"verified"`
	Because  string          `json:"because"`
	Subject  string          `json:"subject"`
	Before   json.RawMessage `json:"before"`
	After    json.RawMessage `json:"after"`
	Forced   bool            `json:"forced"`
}

// auditLine is an entry as one line.
func auditLine(e *tokenleasev1.AuditEntry) ([]byte, error) {
	record := auditRecord{
		ID: e.GetId(), Time: moment(e.GetUnixMs()), UnixMs: e.GetUnixMs(), Action: e.GetAction(), By: e.GetBy(), Verified: e.GetVerified(),
		Because: e.GetBecause(), Subject: e.GetSubject(), Before: asJSON(e.GetBeforeJson()), After: asJSON(e.GetAfterJson()), Forced: e.GetForced(),
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(record); err != nil {
		return nil, fmt.Errorf("the entry %s: %w", cell(e.GetId()), err)
	}
	return b.Bytes(), nil
}

// asJSON is a text that is JSON; one that is none becomes a string, so that a line
// always parses.
func asJSON(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string always can be
	return quoted
}

// auditActions are kinds of entries that there are.
func (p *program) auditActions(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListAudit, &tokenleasev1.ListAuditRequest{PageSize: tokenleasev1.MaxPageSize})
	return names(answer.GetEntries(), (*tokenleasev1.AuditEntry).GetAction), err
}

// auditNames are operators of the newest entries.
func (p *program) auditNames(ctx context.Context, settings *clientSettings, _ string) ([]string, error) {
	answer, err := ask(ctx, settings, settings.admin().ListAudit, &tokenleasev1.ListAuditRequest{PageSize: tokenleasev1.MaxPageSize})
	return names(answer.GetEntries(), (*tokenleasev1.AuditEntry).GetBy), err
}

// yesNo is a mark in a table.
func yesNo(set bool) string {
	if set {
		return "yes"
	}
	return "no"
}
