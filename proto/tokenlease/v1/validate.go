package tokenleasev1

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The checks of this package are written by hand. A rule language in the proto
// files would need imports that a build without a network cannot fetch, and its
// evaluation costs more than the decision that it guards: a check at the edge
// may cost some nanoseconds, and must not allocate while the request is valid.
//
// The rules are the ones that the proto files state in their comments; a test
// holds that every request message has a Validate method.

// Limits of the fields, in the units that their names say.
const (
	// MaxAccountBytes bounds BudgetKey.account.
	MaxAccountBytes = 256
	// MaxOperationBytes bounds BudgetKey.operation and Policy.operation.
	MaxOperationBytes = 128
	// MaxHolderNameBytes bounds Holder.region and Holder.instance.
	MaxHolderNameBytes = 64
	// MaxGrantIDBytes bounds a grant ID.
	MaxGrantIDBytes = 128
	// MinNonceBytes and MaxNonceBytes bound RegisterRequest.start_nonce.
	MinNonceBytes = 16
	// MaxNonceBytes is the upper end of that.
	MaxNonceBytes = 64
	// MaxPersonBytes bounds the name of an operator.
	MaxPersonBytes = 128
	// MaxBecauseBytes bounds a reason that an operator gives.
	MaxBecauseBytes = 1024
	// MaxPageTokenBytes bounds a page token.
	MaxPageTokenBytes = 2048
)

// FieldError tells which field of a request breaks which rule.
//
// Its text never repeats the value of a text field, which may be long, secret or
// unprintable; it names the position of what is wrong instead.
type FieldError struct {
	// Field is the path of the field by its proto names, such as
	// "budgets[3].key.account".
	Field string
	// Problem says what is wrong and what would be right, such as
	// "must have 1 to 256 bytes, has 0".
	Problem string
}

// Error is the field's path and its problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// within puts a parent in front of the field's path. It keeps nil.
func (e *FieldError) within(parent string) *FieldError {
	if e == nil {
		return nil
	}
	return &FieldError{Field: parent + "." + e.Field, Problem: e.Problem}
}

// withinItem puts an element of a list in front of the field's path. It keeps
// nil.
func (e *FieldError) withinItem(list string, index int) *FieldError {
	if e == nil {
		return nil
	}
	return e.within(item(list, index))
}

// item is the path of one element of a list.
func item(list string, index int) string {
	return list + "[" + strconv.Itoa(index) + "]"
}

// asError keeps a nil pointer from becoming an error that is not nil.
func asError(e *FieldError) error {
	if e == nil {
		return nil
	}
	return e
}

// faultf is a FieldError with a formatted problem.
func faultf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// checkLength holds a text to a range of bytes.
func checkLength(field, value string, least, most int) *FieldError {
	switch {
	case len(value) >= least && len(value) <= most:
		return nil
	case least == most:
		return faultf(field, "must have %d bytes, has %d", least, len(value))
	}
	return faultf(field, "must have %d to %d bytes, has %d", least, most, len(value))
}

// checkText holds a text to a range of bytes of UTF-8 without control
// characters.
func checkText(field, value string, least, most int) *FieldError {
	if e := checkLength(field, value, least, most); e != nil {
		return e
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' || c >= 0x7f {
			return checkRunes(field, value, i)
		}
	}
	return nil
}

// checkSaid holds a text that somebody has to answer for to at least one character
// that is not a blank.
func checkSaid(field, value string, most int) *FieldError {
	if value != "" && strings.TrimSpace(value) == "" {
		return faultf(field, "must say something, has only blanks")
	}
	return checkText(field, value, 1, most)
}

// checkRunes is the slow path of checkText, from the first byte that is not
// printable ASCII.
func checkRunes(field, value string, from int) *FieldError {
	for i := from; i < len(value); {
		r, size := utf8.DecodeRuneInString(value[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return faultf(field, "must be UTF-8, is not at byte %d", i)
		case unicode.IsControl(r):
			return faultf(field, "must have no control characters, has %U at byte %d", r, i)
		}
		i += size
	}
	return nil
}

// checkName holds a name to 1 to most bytes of letters, digits, '.', '_' and
// '-'. The names "." and ".." are refused: they mean something else in paths.
func checkName(field, value string, most int) *FieldError { //nolint:unparam // holders and plans happen to have the same limit
	if e := checkLength(field, value, 1, most); e != nil {
		return e
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return faultf(field, "must be of letters, digits, '.', '_' and '-', has %q at byte %d", c, i)
		}
	}
	if value == "." || value == ".." {
		return faultf(field, "must not be %q", value)
	}
	return nil
}

// checkGrantID holds a grant ID to 1 to MaxGrantIDBytes printable ASCII
// characters without spaces. Whether such a grant exists is the ledger's word.
func checkGrantID(value string) *FieldError {
	return checkPrintable("grant_id", value, MaxGrantIDBytes)
}

// checkPrintable holds a text to 1 to most printable ASCII characters without
// spaces.
func checkPrintable(field, value string, most int) *FieldError {
	if e := checkLength(field, value, 1, most); e != nil {
		return e
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c <= ' ' || c >= 0x7f {
			return faultf(field, "must be printable ASCII without spaces, has %q at byte %d", c, i)
		}
	}
	return nil
}

// checkNotNegative holds a number to 0 and above.
func checkNotNegative(field string, value int64) *FieldError {
	if value < 0 {
		return faultf(field, "must be 0 or more, is %d", value)
	}
	return nil
}

// checkCount holds a list to at most so many elements.
func checkCount(field string, count, most int) *FieldError {
	if count > most {
		return faultf(field, "must have 0 to %d elements, has %d", most, count)
	}
	return nil
}

// isAlphanumeric says whether c is an ASCII letter or digit.
func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
