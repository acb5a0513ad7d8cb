package strictjson_test

import (
	"strings"
	"testing"

	"github.com/tokenlease/tokenlease/proto/strictjson"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"a":[1,true,null,"x"]}`, ""},
		{"\"\\ud83d\\ude00 \\\\ud800 \\u00e9\"", ""},
		{" 1\n", ""},
		{"", "the body is empty: want a JSON object"},
		{" \n\t", "the body is empty: want a JSON object"},
		{"\"\xff\"", "the body is not UTF-8"},
		{`{} {}`, "the body is not JSON, at byte 4: invalid character '{' after top-level value"},
		{`{"a":`, "the body is not JSON, at byte 5: unexpected end of JSON input"},
		{`{a:1}`, "the body is not JSON, at byte 2: invalid character 'a' looking for beginning of object key string"},
		{`[010]`, "the body is not JSON, at byte 3: invalid character '1' after array element"},
		{`"\ud800"`, "the body is not UTF-8: half a character is escaped before byte 8"},
		{`"\ud800\n"`, "the body is not UTF-8: half a character is escaped before byte 9"},
		{`"\ude00"`, "the body is not UTF-8: half a character is escaped before byte 7"},
		{`"\ud800\ud800"`, "the body is not UTF-8: half a character is escaped before byte 13"},
	} {
		got := ""
		if err := strictjson.Check([]byte(test.body)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.body, got, test.want)
		}
	}
	if err := strictjson.Check([]byte(strings.Repeat("[", 20_000))); err == nil || len(err.Error()) > 200 {
		t.Errorf("20,000 brackets: %v", err)
	}
}
