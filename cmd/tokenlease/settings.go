package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/tokenlease/tokenlease/proto/nearest"
)

const (
	// environmentPrefix begins the name of every variable.
	environmentPrefix = "TOKENLEASE_"
	// configFlag names the file of settings.
	configFlag = "config"
	// settingMark marks a flag that is a setting. The other flags say what one
	// command is to do, and are flags only.
	settingMark = "tokenlease_setting"
)

// environmentName is the variable of a setting.
func environmentName(setting string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// addSettings gives a command flags that can be set by environment and file too.
func addSettings(cmd *cobra.Command, register func(*pflag.FlagSet)) {
	set := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	register(set)
	set.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{settingMark: nil}
		f.Usage += " [$" + environmentName(f.Name) + "]"
	})
	cmd.Flags().AddFlagSet(set)
}

// loadSettings completes the flags of a command from environment and file. A
// flag on the command line goes first, then the environment, then the file.
func loadSettings(cmd *cobra.Command, warnings io.Writer) error {
	known := slices.Sorted(slices.Values(settingsBelow(cmd.Root())))
	warnOfUnknownVariables(known, warnings)

	v := viper.New()
	if err := v.BindEnv(configFlag, environmentName(configFlag)); err != nil {
		return err
	}
	if err := v.BindPFlag(configFlag, cmd.Flags().Lookup(configFlag)); err != nil {
		return err
	}
	if file := v.GetString(configFlag); file != "" {
		if err := readFile(v, file, known); err != nil {
			return err
		}
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[settingMark]; ok && !f.Changed && failed == nil {
			failed = setFlag(v, f)
		}
	})
	return failed
}

// readFile reads the file of settings, all of whose keys must be known.
func readFile(v *viper.Viper, file string, known []string) error {
	alone := viper.New()
	for _, reader := range []*viper.Viper{alone, v} {
		reader.SetConfigFile(file)
		reader.SetConfigType("yaml")
		if err := reader.ReadInConfig(); err != nil {
			return fmt.Errorf("cannot read the settings: %w", err)
		}
	}
	for _, key := range slices.Sorted(slices.Values(alone.AllKeys())) {
		switch {
		case !slices.Contains(known, key) || key == configFlag:
			return fmt.Errorf("%s: unknown setting %q: %s", file, key, suggestion(key, known))
		case alone.Get(key) == nil:
			return fmt.Errorf("%s: the setting %q is empty: give it a value or leave it out", file, key)
		}
	}
	return nil
}

// setFlag sets a flag to what the environment or the file has for it.
func setFlag(v *viper.Viper, f *pflag.Flag) error {
	// Viper does not look for variables that were never bound.
	if err := v.BindEnv(f.Name, environmentName(f.Name)); err != nil {
		return err
	}
	if !v.IsSet(f.Name) {
		return nil
	}
	value := v.GetString(f.Name)
	if list, ok := v.Get(f.Name).([]any); ok {
		value = strings.Join(v.GetStringSlice(f.Name), ",")
		if _, ok := f.Value.(pflag.SliceValue); !ok {
			return fmt.Errorf("the setting %q has a list of %d: want one value", f.Name, len(list))
		}
	}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("the setting %q, from %s, is wrong: %w", f.Name, source(f.Name, v), err)
	}
	f.Changed = true
	return nil
}

// source says where a setting was found.
func source(name string, v *viper.Viper) string {
	if os.Getenv(environmentName(name)) != "" {
		return environmentName(name)
	}
	return v.ConfigFileUsed()
}

// settingsBelow lists the settings of a command and of all below it.
func settingsBelow(cmd *cobra.Command) []string {
	names := []string{configFlag}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[settingMark]; ok {
			names = append(names, f.Name)
		}
	})
	for _, child := range cmd.Commands() {
		names = append(names, settingsBelow(child)...)
	}
	return names
}

// warnOfUnknownVariables names each variable that looks like a setting and is
// none: a mistyped one would silently do nothing.
func warnOfUnknownVariables(known []string, warnings io.Writer) {
	var endings []string // the names without the prefix, which says nothing
	for _, setting := range known {
		endings = append(endings, strings.TrimPrefix(environmentName(setting), environmentPrefix))
	}
	for _, entry := range slices.Sorted(slices.Values(os.Environ())) {
		name, _, _ := strings.Cut(entry, "=")
		ending, ours := strings.CutPrefix(name, environmentPrefix)
		if !ours || slices.Contains(endings, ending) {
			continue
		}
		hint := "see --help for the known ones"
		if near := nearest.Word(ending, endings); near != "" {
			hint = "did you mean " + environmentPrefix + near + "?"
		}
		fmt.Fprintf(warnings, "tokenlease: warning: the variable %s is unknown and does nothing: %s\n", name, hint)
	}
}

// suggestion says which known name was probably meant.
func suggestion(name string, known []string) string {
	if near := nearest.Word(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "see --help for the known ones"
}
