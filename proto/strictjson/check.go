package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Check holds a body to one JSON value in UTF-8: decoders replace bytes that are no
// UTF-8, and escapes of half a character, and some stop at the end of the first
// value. The error repeats nothing of the body.
func Check(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errors.New("the body is empty: want a JSON object")
	}
	if !utf8.Valid(body) {
		return errors.New("the body is not UTF-8")
	}
	var value json.RawMessage
	if err := json.Unmarshal(body, &value); err != nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return fmt.Errorf("the body is not JSON, at byte %d: %w", syntax.Offset, err)
		}
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return checkSurrogates(body)
}

// checkSurrogates refuses escapes of half a character, which decoders replace. The
// body is valid JSON.
func checkSurrogates(body []byte) error {
	high := false // the escape before was the first half of a pair
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			if high {
				return halfCharacter(i)
			}
			continue
		}
		i++
		first, second := false, false
		if body[i] == 'u' {
			code, _ := strconv.ParseUint(string(body[i+1:i+5]), 16, 16) // valid JSON has four digits
			first, second = code >= 0xd800 && code < 0xdc00, code >= 0xdc00 && code < 0xe000
			i += 4
		}
		if high != second {
			return halfCharacter(i)
		}
		high = first
	}
	return nil
}

func halfCharacter(at int) error {
	return fmt.Errorf("the body is not UTF-8: half a character is escaped before byte %d", at+1)
}
