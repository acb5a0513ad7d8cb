package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// concealer replaces account names by words that nobody can tell them from: they are
// made with a key that is not kept.
type concealer struct {
	off   bool
	key   []byte
	known map[string]string // name to word
	texts *regexp.Regexp    // finds known names in text; nil: to be made
}

// newConcealer draws a key. Off, it replaces nothing.
func newConcealer(off bool) *concealer {
	c := &concealer{off: off, key: make([]byte, sha256.Size), known: map[string]string{}}
	_, _ = rand.Read(c.key) // never fails
	return c
}

// name is the word for an account, the same each time.
func (c *concealer) name(account string) string {
	if c.off || account == "" {
		return account
	}
	word, ok := c.known[account]
	if !ok {
		mac := hmac.New(sha256.New, c.key)
		mac.Write([]byte(account))
		word = "account-" + hex.EncodeToString(mac.Sum(nil)[:6])
		for _, form := range []string{account, url.PathEscape(account)} { // in keys of the store it is escaped
			c.known[form] = word
		}
		c.texts = nil
	}
	return word
}

// accountField is what a field of a message is called that names an account.
const accountField = "account"

// tokenField is what the field is called that leads to the next page.
const tokenField = "next_page_token"

// freeText are fields in which people, or the broker, may have written of accounts.
var freeText = []protoreflect.Name{"because", "disabled_because", "attested_because", "detail", "problem", "before_text", "after_text", "advice", "warnings", "subject", "unusable"}

// learn finds the account names in a message, so that they are known in texts as
// well.
func (c *concealer) learn(m proto.Message) {
	walk(m.ProtoReflect(), func(field protoreflect.FieldDescriptor, text string) string {
		if field.Name() == accountField {
			c.name(text)
		}
		if field.Name() == "subject" {
			c.text(text) // learns
		}
		return text
	})
}

// message is a copy of a message, with its account names replaced.
func (c *concealer) message(m proto.Message) proto.Message {
	if c.off || !m.ProtoReflect().IsValid() {
		return m
	}
	m = proto.Clone(m)
	walk(m.ProtoReflect(), func(field protoreflect.FieldDescriptor, text string) string {
		switch {
		case field.Name() == accountField:
			return c.name(text)
		case slices.Contains(freeText, field.Name()):
			return c.text(text)
		case field.Name() == tokenField && text != "": // it has in it where the page ended
			return removed
		}
		return text
	})
	return m
}

// walk replaces every text in a message, and in those within it.
func walk(m protoreflect.Message, replace func(protoreflect.FieldDescriptor, string) string) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		isText, isMessage := field.Kind() == protoreflect.StringKind, field.Kind() == protoreflect.MessageKind
		switch {
		case field.IsMap(): // no message has one with texts
		case field.IsList() && isText:
			for i := range value.List().Len() {
				value.List().Set(i, protoreflect.ValueOfString(replace(field, value.List().Get(i).String())))
			}
		case field.IsList() && isMessage:
			for i := range value.List().Len() {
				walk(value.List().Get(i).Message(), replace)
			}
		case isText:
			m.Set(field, protoreflect.ValueOfString(replace(field, value.String())))
		case isMessage:
			walk(value.Message(), replace)
		}
		return true
	})
}

// namedAccount is how the subject of a change says which account it was about.
var namedAccount = regexp.MustCompile(`(^|, )account ([^,]+)`)

// keyOfAccount finds the account in a key of the store, as errors name them.
var keyOfAccount = regexp.MustCompile(`(/(?:budgets|accounts)/)([^/\s"',:;]+)`)

// text is a text with the account names replaced that are known, or that it calls an
// account.
func (c *concealer) text(text string) string {
	if c.off || text == "" {
		return text
	}
	text = namedAccount.ReplaceAllStringFunc(text, func(found string) string {
		before, name, _ := strings.Cut(found, "account ")
		return before + "account " + c.name(name)
	})
	text = keyOfAccount.ReplaceAllStringFunc(text, func(found string) string {
		parts := keyOfAccount.FindStringSubmatch(found)
		name, err := url.PathUnescape(parts[2])
		if err != nil {
			name = parts[2]
		}
		return parts[1] + c.name(name)
	})
	if c.texts == nil {
		c.texts = wordsOf(c.known)
	}
	if c.texts == nil {
		return text
	}
	var b strings.Builder
	at := 0
	for _, found := range c.texts.FindAllStringIndex(text, -1) {
		from, to := found[0], found[1]
		if !standsAlone(text, from, to) {
			continue
		}
		b.WriteString(text[at:from] + c.known[text[from:to]])
		at = to
	}
	return b.String() + text[at:]
}

// standsAlone says whether a part of a text is no part of a longer word.
func standsAlone(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return (from == 0 || !isWordRune(before)) && (to == len(text) || !isWordRune(after))
}

// wordsOf is a pattern that finds any of some names where they stand alone, the
// longest first; nil: there are none.
func wordsOf(known map[string]string) *regexp.Regexp {
	var all []string
	for name := range known {
		all = append(all, regexp.QuoteMeta(name))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`(?:` + strings.Join(all, "|") + `)`)
}

// isWordRune says whether a character is a part of words.
func isWordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80
}

// learnAudit finds the account names in an entry.
func (c *concealer) learnAudit(e *tokenleasev1.AuditEntry) {
	c.text(e.GetSubject())
	for _, text := range []string{e.GetBeforeJson(), e.GetAfterJson()} {
		c.json(text)
	}
}

// audit is a copy of an entry, with its account names replaced. Its ID has its
// subject in it, so that is replaced as well.
func (c *concealer) audit(e *tokenleasev1.AuditEntry) *tokenleasev1.AuditEntry {
	if c.off {
		return e
	}
	e = proto.CloneOf(e)
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte(e.GetId()))
	e.Id = "entry-" + hex.EncodeToString(mac.Sum(nil)[:6])
	e.Subject, e.Because = c.text(e.GetSubject()), c.text(e.GetBecause())
	e.BeforeJson, e.AfterJson = c.json(e.GetBeforeJson()), c.json(e.GetAfterJson())
	return e
}

// json is a text of JSON with the account names replaced.
func (c *concealer) json(text string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if text == "" || decoder.Decode(&value) != nil {
		return c.text(text)
	}
	data, err := json.Marshal(c.value("", value))
	if err != nil {
		return ""
	}
	return string(data)
}

// value replaces in a value of JSON that stands under a key.
func (c *concealer) value(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = c.value(k, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = c.value(key, inner)
		}
	case string:
		if strings.EqualFold(key, accountField) {
			return c.name(v)
		}
		return c.text(v)
	}
	return value
}

// Forms that secrets have wherever they turn up: keys and certificates as PEM, and
// passwords in URLs or after a name that says so.
var (
	pemBlock    = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|$)`)
	urlPassword = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s"]+@`)
	namedSecret = regexp.MustCompile(`(?i)\b(password|passwd|secret|api[-_]?key)(["']?\s*[:=]\s*["']?)([^\s"',;]{4,})`)
	sentHeader  = regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?|bearer\s+)[^\r\n"']+`)
)

// removed stands for what was a secret.
const removed = "[removed]"

// withoutSecrets takes out what looks like a secret, and the values of variables
// whose names say that they are secret.
func withoutSecrets(data []byte) []byte {
	text := pemBlock.ReplaceAllString(string(data), removed)
	text = urlPassword.ReplaceAllString(text, "${1}"+removed+"@")
	text = namedSecret.ReplaceAllString(text, "${1}${2}"+removed)
	text = sentHeader.ReplaceAllString(text, "${1}"+removed)
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if len(value) >= 6 && secretName.MatchString(name) {
			text = strings.ReplaceAll(text, value, removed)
		}
	}
	return []byte(text)
}

// secretName finds variables whose values are nobody's business.
var secretName = regexp.MustCompile(`(?i)(pass|secret|credential|(^|_)(key|token|auth)($|_))`)
