package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// flagOfField names the flag for fields of requests that are called otherwise on
// the command line. Of the rest the flag has the name of the field, with dashes.
var flagOfField = map[string]string{
	"attested_by":      "by",
	"applied_by":       "by",
	"declared_by":      "by",
	"disabled_by":      "by",
	"enabled_by":       "by",
	"moved_by":         "by",
	"above_generation": "above",
	"cost_tokens":      "cost",
	"grant_id_prefix":  "id",
	"max_wait_ms":      "max-wait",
	"min_age_ms":       "older-than",
	"page_size":        "limit",
	"since_unix_ms":    "since",
	"to_broker_id":     "to",
	"to_version":       "to",
	"until_unix_ms":    "until",
}

// argumentOfField names the argument, in the words of a command's usage.
var argumentOfField = map[string]string{
	"account":      "ACCOUNT",
	"generation":   "N",
	"grant_id":     "ID",
	"instance":     "INSTANCE",
	"operation":    "OPERATION",
	"region":       "REGION",
	"shard":        "SHARD",
	"holder":       "REGION/INSTANCE",
	"to_broker_id": "BROKER",
}

// fieldPath is the path of a field at the beginning of a message, as in
// "key.account: must have 1 to 256 bytes".
var fieldPath = regexp.MustCompile(`(^|[ :(])([a-z][a-z0-9_]*(?:\[[0-9]+\])?(?:\.[a-z][a-z0-9_]*(?:\[[0-9]+\])?)*): `)

// fieldWord is the name of a field among other words, as in "fence it with
// retire_epoch".
var fieldWord = regexp.MustCompile(`(^|[ ,;(])([a-z]+(?:_[a-z]+)+)\b`)

// messageFor is an error as the user of a command is told it: in the names of its
// flags and arguments. Requests are checked by the names of their fields, here and
// at the server, and those are not what was typed.
func messageFor(cmd *cobra.Command, err error) string {
	text := err.Error()
	var field *tokenleasev1.FieldError
	var server serverError
	if cmd == nil || !errors.As(err, &field) && !errors.As(err, &server) {
		return text
	}
	if field != nil || connect.CodeOf(server.err) == connect.CodeInvalidArgument {
		text = replaceNames(fieldPath, text, ": ", cmd)
	}
	return replaceNames(fieldWord, text, "", cmd)
}

// replaceNames puts the names of the command in place of what the pattern finds.
// What it has no name for stays.
func replaceNames(pattern *regexp.Regexp, text, after string, cmd *cobra.Command) string {
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		parts := pattern.FindStringSubmatch(found)
		if name := nameFor(cmd, parts[2]); name != "" {
			return parts[1] + name + after
		}
		return found
	})
}

// alsoPath is the path of a field of a budget that was named by --also.
var alsoPath = regexp.MustCompile(`^also\[([0-9]+)\]`)

// nameForAlso is what to call a field of the budget that --also has named in one word,
// ACCOUNT,OPERATION,COST: counted from 1, since there may be several.
func nameForAlso(index, field string) string {
	n, _ := strconv.Atoi(index) // digits alone
	name := fmt.Sprintf("--also no. %d", n+1)
	switch {
	case field == "cost_tokens":
		return name + ": COST"
	case argumentOfField[field] != "":
		return name + ": " + argumentOfField[field]
	}
	return name
}

// nameFor is what a command calls the field at a path; empty: nothing.
func nameFor(cmd *cobra.Command, path string) string {
	last := path[strings.LastIndexByte(path, '.')+1:]
	last, _, _ = strings.Cut(last, "[")
	if also := alsoPath.FindStringSubmatch(path); also != nil && cmd.Flags().Lookup("also") != nil {
		return nameForAlso(also[1], last)
	}
	flag, ok := flagOfField[last]
	if !ok {
		flag = strings.ReplaceAll(last, "_", "-")
	}
	if f := cmd.Flags().Lookup(flag); f != nil {
		if _, isSetting := f.Annotations[settingMark]; !isSetting { // no field is called as a setting
			return "--" + flag
		}
	}
	if word := argumentOfField[last]; word != "" && strings.Contains(cmd.Use, word) {
		return word
	}
	return ""
}
