package main

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/tokenlease/tokenlease/cmd/tokenlease/deploy"
)

// settingsOf are the settings of the server that the command names.
func settingsOf(t *testing.T, command string) validated {
	t.Helper()
	switch command {
	case "broker":
		return &brokerSettings{}
	case "limiter":
		return &limiterSettings{}
	}
	t.Fatalf("%q is no server", command)
	return nil
}

// deployFile is one of the files of package deploy.
func deployFile(t *testing.T, name string) string {
	t.Helper()
	data, err := fs.ReadFile(deploy.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The arguments in the manifests are those of the program, and fit together.
func TestManifestsStartTheServers(t *testing.T) {
	for _, name := range []string{"kubernetes/broker.yaml", "kubernetes/limiter.yaml"} {
		documents := strings.Split(deployFile(t, name), "\n---\n")
		var set appsv1.StatefulSet
		if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), &set); err != nil {
			t.Fatal(err)
		}
		args := set.Spec.Template.Spec.Containers[0].Args
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "$(POD_NAME)", set.Name+"-0")
		}
		settings := settingsOf(t, args[0])
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		settings.register(flags)
		if err := flags.Parse(args[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := settings.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The units start the servers with settings that exist, and fit together.
func TestUnitsStartTheServers(t *testing.T) {
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/tokenlease (\w+) --config /etc/tokenlease/(\w+\.yaml)$`)
	for _, unit := range []string{"tokenlease-broker.service", "tokenlease-limiter.service"} {
		found := start.FindStringSubmatch(deployFile(t, "systemd/"+unit))
		if found == nil {
			t.Fatalf("%s does not start tokenlease with a file of settings", unit)
		}
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(deployFile(t, "systemd/"+found[2])), &values); err != nil {
			t.Fatal(err)
		}
		settings := settingsOf(t, found[1])
		flags := pflag.NewFlagSet(unit, pflag.ContinueOnError)
		settings.register(flags)
		for name, value := range values {
			for _, one := range asList(value) {
				if err := flags.Set(name, one); err != nil {
					t.Errorf("%s: %v", found[2], err)
				}
			}
		}
		if err := settings.validate(); err != nil {
			t.Errorf("%s: %v", found[2], err)
		}
	}
}

func asList(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var texts []string
	for _, one := range list {
		text, _ := one.(string)
		texts = append(texts, text)
	}
	return texts
}

// systemd has nothing to say against the units, besides that the program is not
// installed.
func TestUnitsAreUnderstoodBySystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing: install systemd to check the units")
	}
	for _, unit := range []string{"tokenlease-broker.service", "tokenlease-limiter.service"} {
		out, _ := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join("deploy", "systemd", unit)).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "/usr/local/bin/tokenlease is not executable") && strings.Contains(line, unit) {
				t.Errorf("%s", line)
			}
		}
	}
}
