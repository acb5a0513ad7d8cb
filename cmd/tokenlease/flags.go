package main

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// choiceVar adds such a flag; the first word is the default.
func choiceVar(flags *pflag.FlagSet, c *choice, name, usage string, words ...string) {
	*c = choice{value: words[0], words: words}
	flags.Var(c, name, usage+": "+strings.Join(words, ", "))
}

// String is the flag's value.
func (c *choice) String() string { return c.value }

// Type is what help calls the value.
func (c *choice) Type() string { return "word" }

// Set reads the flag.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.words, value) {
		return fmt.Errorf("want one of %s, not %q", strings.Join(c.words, ", "), value)
	}
	c.value = value
	return nil
}

// tokens is a flag that takes a whole number of tokens. Go's own would read 010 as
// 8, and 0x10 as 16.
type tokens int64

// String is the flag's value.
func (n *tokens) String() string { return strconv.FormatInt(int64(*n), 10) }

// Type is what help calls the value.
func (n *tokens) Type() string { return "tokens" }

// Set reads the flag.
func (n *tokens) Set(text string) error {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(value, 10) != text {
		return fmt.Errorf("want a whole number such as 5, not %.40q", text)
	}
	*n = tokens(value)
	return nil
}

// number is a flag that takes a whole number from 1 on, in plain decimal. 0 stands
// for one that was not given.
type number struct{ value, most uint64 }

// numberVar adds such a flag.
func numberVar(flags *pflag.FlagSet, n *number, name, usage string, value, most uint64) {
	*n = number{value: value, most: most}
	flags.Var(n, name, usage)
}

// String is the flag's value.
func (n *number) String() string { return strconv.FormatUint(n.value, 10) }

// Type is what help calls the value.
func (n *number) Type() string { return "number" }

// Set reads the flag.
func (n *number) Set(text string) error {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(value, 10) != text || value < 1 || value > n.most {
		return fmt.Errorf("want a whole number from 1 to %d, not %.40q", n.most, text)
	}
	n.value = value
	return nil
}

// logSettings are how a server logs.
type logSettings struct {
	level  choice
	format choice
}

// register adds the settings to flags.
func (s *logSettings) register(flags *pflag.FlagSet) {
	choiceVar(flags, &s.level, "log-level", "least level that is logged", "info", "debug", "warn", "error")
	choiceVar(flags, &s.format, "log-format", "form of the log on stderr", "text", "json")
}

// checkAddress wants host:port.
func checkAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usageErrorf("--%s %q is not an address such as 127.0.0.1:7600", flag, address)
	}
	return nil
}

// checkURL wants http or https and a host.
func checkURL(flag, text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return usageErrorf("--%s %q is not a URL such as http://127.0.0.1:7600", flag, shownURL(text))
	}
	return nil
}

// userInURL is what goes before the host of a URL that cannot be read.
var userInURL = regexp.MustCompile(`^([^/]*//)?.*@`)

// shownURL is a URL as it is printed: without the password that it may have.
func shownURL(text string) string {
	if parsed, err := url.Parse(text); err == nil && parsed.Host != "" {
		return parsed.Redacted()
	}
	return userInURL.ReplaceAllString(text, "${1}xxxxx@")
}
