package main

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

func TestErrorsNameFlags(t *testing.T) {
	p, _, _ := newProgram()
	root := p.root()
	settings := &clientSettings{server: brokerServer, url: "http://b:1"}
	field := func(path string) error {
		return usageError{&tokenleasev1.FieldError{Field: path, Problem: "must be better"}}
	}
	server := func(text string) error {
		return settings.failed(connect.NewWireError(connect.CodeInvalidArgument, errors.New(text)))
	}
	const refusal = "the broker at http://b:1 refused (invalid_argument): "
	for _, test := range []struct {
		command string
		err     error
		want    string
	}{
		{"grants resolve", field("attested_by"), "--by: must be better"},
		{"grants resolve", field("grant_id"), "ID: must be better"},
		{"grants resolve", server("fence it with retire_epoch, or do not"), refusal + "fence it with --retire-epoch, or do not"},
		{"grants list", field("min_age_ms"), "--older-than: must be better"},
		{"grants list", field("grant_id_prefix"), "--id: must be better"},
		{"grants list", server("page_token: not one that was returned"), refusal + "page_token: not one that was returned"},
		{"holders retire", field("holder.instance"), "INSTANCE: must be better"},
		{"budgets show", field("key.account"), "ACCOUNT: must be better"},
		{"budgets list", server("account: must be UTF-8, is not at byte 3"), refusal + "--account: must be UTF-8, is not at byte 3"},
		{"check", field("also[1].key.account"), "--also no. 2: ACCOUNT: must be better"},
		{"check", field("max_wait_ms"), "--max-wait: must be better"},
		{"check", field("decision_id"), "--decision-id: must be better"},
		{"check", field("cost_tokens"), "--cost: must be better"},
		{"shards move", server("to_broker_id: no live broker"), refusal + "--to: no live broker"},
		{"shards move", settings.failed(connect.NewWireError(connect.CodeFailedPrecondition, errors.New("broker: nobody is live, to_broker_id names none"))),
			"the broker at http://b:1 refused (failed_precondition): broker: nobody is live, --to names none"},
		{"shards move", server("broker: nobody is live"), refusal + "broker: nobody is live"},
		{"shards move", field("shard"), "SHARD: must be better"},
		{"restore declare", field("declared_by"), "--by: must be better"},
		{"audit list", field("since_unix_ms"), "--since: must be better"},
		{"limiter", usageErrorf("--%w", &tokenleasev1.FieldError{Field: "region", Problem: "must be better"}), "--region: must be better"},
		{"grants list", errors.New("account: what a file says stays as it is, and so does retire_epoch"), "account: what a file says stays as it is, and so does retire_epoch"},
	} {
		cmd, _, err := root.Find(strings.Fields(test.command))
		if err != nil {
			t.Fatal(err)
		}
		if got := messageFor(cmd, test.err); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.command, got, test.want)
		}
	}
	if got := messageFor(nil, field("region")); got != "region: must be better" {
		t.Errorf("without a command: %s", got)
	}
}
