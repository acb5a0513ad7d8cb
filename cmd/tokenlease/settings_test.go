package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// clearSettings keeps the variables of whoever runs the tests away from them.
func clearSettings(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, environmentPrefix) {
			t.Setenv(name, "") // counts as not set
		}
	}
}

// newProgram is a program whose output is kept.
func newProgram() (p *program, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &program{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr}, stdout, stderr
}

// settingsTree is the command tree, in which every command only reports the flag.
func settingsTree(p *program, flag string, report func(value string)) *cobra.Command {
	root := p.root()
	visit(root, func(cmd *cobra.Command) {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			report(cmd.Flags().Lookup(flag).Value.String())
			return nil
		}
	})
	return root
}

// visit calls f for a command and all below it.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, child := range cmd.Commands() {
		visit(child, f)
	}
}

// setting is one setting of one command.
type setting struct{ command, flag, value string }

// allSettings lists them with a value each that is not the default.
func allSettings(t *testing.T) []setting {
	t.Helper()
	p, _, _ := newProgram()
	var all []setting
	visit(settingsTree(p, "", nil), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[settingMark]; !ok {
				return
			}
			path := strings.TrimPrefix(cmd.CommandPath(), "tokenlease ")
			all = append(all, setting{path, f.Name, anotherValue(t, f)})
		})
	})
	if len(all) < 50 {
		t.Fatalf("found %d settings, want those of all commands", len(all))
	}
	return all
}

// anotherValue is a value of a flag that is not its default.
func anotherValue(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	switch f.Value.Type() {
	case "string":
		return "http://other.example:1"
	case "bool":
		return "true"
	case "duration":
		return "17s"
	case "int", "int64", "uint32":
		return "17"
	case "float64":
		return "0.25"
	case "stringSlice":
		return "http://a.example:1,http://b.example:2"
	case "format":
		return "yaml"
	case "word":
		words := f.Value.(*choice).words
		return words[len(words)-1]
	}
	t.Fatalf("the flag %s has the unknown type %s", f.Name, f.Value.Type())
	return ""
}

// TestEverySettingByEnvironmentAlone is case 50.
func TestCase50EverySettingByEnvironmentAlone(t *testing.T) {
	clearSettings(t)
	for _, s := range allSettings(t) {
		t.Run(s.command+" "+s.flag, func(t *testing.T) {
			t.Setenv(environmentName(s.flag), s.value)
			requireEffective(t, s, nil)
		})
	}
}

// TestEverySettingByFileAlone is the same for the file.
func TestEverySettingByFileAlone(t *testing.T) {
	clearSettings(t)
	for _, s := range allSettings(t) {
		t.Run(s.command+" "+s.flag, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "settings.yaml")
			value := s.value
			if strings.Contains(value, ",") {
				value = "[" + value + "]"
			}
			if err := os.WriteFile(file, []byte(s.flag+": "+value+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			requireEffective(t, s, []string{"--config", file})
		})
	}
}

// requireEffective runs a command and looks at what its flag is set to.
func requireEffective(t *testing.T, s setting, flags []string) {
	t.Helper()
	p, _, stderr := newProgram()
	got := ""
	root := settingsTree(p, s.flag, func(value string) { got = value })
	if code := p.execute(t.Context(), root, append(strings.Fields(s.command), flags...)); code != exitYes {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if strings.Trim(got, "[]") != s.value {
		t.Errorf("the setting is %s, want %s", got, s.value)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr has %s", stderr)
	}
}

// TestFlagsGoFirst: what the environment or a file has never reaches a flag that
// was given.
func TestFlagsGoFirst(t *testing.T) {
	clearSettings(t)
	for _, s := range allSettings(t) {
		t.Run(s.command+" "+s.flag, func(t *testing.T) {
			t.Setenv(environmentName(s.flag), "nonsense that no flag takes \x01")
			requireEffective(t, s, []string{fmt.Sprintf("--%s=%s", s.flag, s.value)})
		})
	}
}

// TestDeprecatedFlagKeepsStdoutClean is case 51.
func TestCase51DeprecatedFlagKeepsStdoutClean(t *testing.T) {
	clearSettings(t)
	server := serveFake()
	t.Cleanup(server.Close)
	p, stdout, stderr := newProgram()
	root := p.root()
	check, _, err := root.Find([]string{"check"})
	if err != nil {
		t.Fatal(err)
	}
	check.Flags().Bool("fast", false, "")
	if err := check.Flags().MarkDeprecated("fast", "it always is"); err != nil {
		t.Fatal(err)
	}
	code := p.execute(t.Context(), root, []string{"check", "acme", "report.create", "--fast", "--limiter", server.URL, "-o", "json"})
	if code != exitYes {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	var answer map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		t.Errorf("stdout does not parse: %v\n%s", err, stdout)
	}
	if want := "Flag --fast has been deprecated, it always is\n"; stderr.String() != want {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
}
