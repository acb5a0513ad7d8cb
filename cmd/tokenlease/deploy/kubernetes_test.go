package deploy_test

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tokenlease/tokenlease/cmd/tokenlease/deploy"
)

// manifest is one object of a file.
type manifest struct {
	file   string
	object metav1.Object
}

// kinds are the objects that the manifests may have, by kind and version.
var kinds = map[metav1.TypeMeta]func() metav1.Object{
	{APIVersion: "v1", Kind: "ServiceAccount"}:             func() metav1.Object { return &corev1.ServiceAccount{} },
	{APIVersion: "v1", Kind: "Service"}:                    func() metav1.Object { return &corev1.Service{} },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}: func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:           func() metav1.Object { return &appsv1.StatefulSet{} },
}

// decode reads a file strictly: a field that Kubernetes does not know fails.
func decode(t *testing.T, file string, data []byte) []manifest {
	t.Helper()
	var all []manifest
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		build := kinds[meta]
		if build == nil {
			t.Fatalf("%s: an object of the kind %+v", file, meta)
		}
		object := build()
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %s: %v", file, meta.Kind, err)
		}
		all = append(all, manifest{file, object})
	}
	return all
}

func manifests(t *testing.T) []manifest {
	t.Helper()
	var all []manifest
	names, err := fs.Glob(deploy.Files, "kubernetes/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d manifests, %v", len(names), err)
	}
	for _, name := range names {
		data, err := deploy.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decode(t, path.Base(name), data)...)
	}
	return all
}

// of are the objects of one type.
func of[T metav1.Object](all []manifest) map[string]T {
	found := map[string]T{}
	for _, m := range all {
		if object, ok := m.object.(T); ok {
			found[object.GetName()] = object
		}
	}
	return found
}

// Every object is selected by what selects it, and every name that is used exists.
func TestManifestsFitTogether(t *testing.T) {
	all := manifests(t)
	sets, services := of[*appsv1.StatefulSet](all), of[*corev1.Service](all)
	if len(sets) != 2 {
		t.Fatalf("%d stateful sets, want a broker's and a limiter's", len(sets))
	}
	for name, set := range sets {
		pod := set.Spec.Template
		if !covers(set.Spec.Selector.MatchLabels, pod.Labels) {
			t.Errorf("%s does not select its own pods", name)
		}
		if services[set.Spec.ServiceName] == nil || services[set.Spec.ServiceName].Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("%s: %q is no headless service", name, set.Spec.ServiceName)
		}
		if of[*corev1.ServiceAccount](all)[pod.Spec.ServiceAccountName] == nil {
			t.Errorf("%s: no service account %q", name, pod.Spec.ServiceAccountName)
		}
		checkMounts(t, name, set)
	}
	for name, service := range services {
		if !slices.ContainsFunc(pods(sets), func(p corev1.PodTemplateSpec) bool {
			return covers(service.Spec.Selector, p.Labels) && hasPorts(p, service)
		}) {
			t.Errorf("service %s selects no pods with its ports", name)
		}
	}
	for name, budget := range of[*policyv1.PodDisruptionBudget](all) {
		if !slices.ContainsFunc(pods(sets), func(p corev1.PodTemplateSpec) bool { return covers(budget.Spec.Selector.MatchLabels, p.Labels) }) {
			t.Errorf("disruption budget %s selects no pods", name)
		}
	}
}

func pods(sets map[string]*appsv1.StatefulSet) []corev1.PodTemplateSpec {
	var all []corev1.PodTemplateSpec
	for _, set := range sets {
		all = append(all, set.Spec.Template)
	}
	return all
}

// covers says that labels have all that the selector wants, which is something.
func covers(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

func hasPorts(pod corev1.PodTemplateSpec, service *corev1.Service) bool {
	for _, port := range service.Spec.Ports {
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.String() }) {
			return false
		}
	}
	return true
}

func checkMounts(t *testing.T, name string, set *appsv1.StatefulSet) {
	t.Helper()
	var volumes []string
	for _, v := range set.Spec.Template.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes = append(volumes, v.Name)
	}
	for _, mount := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		if !slices.Contains(volumes, mount.Name) {
			t.Errorf("%s mounts %q, which is no volume", name, mount.Name)
		}
	}
}

// Nothing runs as root, can become root, or writes outside its volumes.
func TestPodsHaveNoRights(t *testing.T) {
	for name, set := range of[*appsv1.StatefulSet](manifests(t)) {
		pod := set.Spec.Template.Spec
		if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: the pod may run as root, or with any system call", name)
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: the pod gets a token of the cluster", name)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
				s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: container %s has rights that it does not need", name, c.Name)
			}
			if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
				t.Errorf("%s: container %s is not probed for health and readiness", name, c.Name)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: container %s has no bounds", name, c.Name)
			}
		}
	}
}

// A journal proves what an epoch spent only if no other process has a copy of it, and
// if it is there at the next start (contract C4.2).
func TestJournalIsOnAVolumeOfOnePod(t *testing.T) {
	limiter := of[*appsv1.StatefulSet](manifests(t))["tokenlease-limiter"]
	if limiter == nil || len(limiter.Spec.VolumeClaimTemplates) != 1 {
		t.Fatal("the limiter has no volume of its own")
	}
	claim := limiter.Spec.VolumeClaimTemplates[0]
	if !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
		t.Errorf("the journal's volume is %v", claim.Spec.AccessModes)
	}
	if p := limiter.Spec.PersistentVolumeClaimRetentionPolicy; p == nil || p.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType || p.WhenScaled != p.WhenDeleted {
		t.Errorf("the journal does not outlive its pod: %+v", p)
	}
	container := limiter.Spec.Template.Spec.Containers[0]
	var mounted string
	for _, m := range container.VolumeMounts {
		if m.Name == claim.Name {
			mounted = m.MountPath
		}
	}
	if mounted == "" || !slices.Contains(container.Args, "--journal-dir="+mounted) {
		t.Errorf("the journal is not on the volume at %q: %v", mounted, container.Args)
	}
	if !slices.Contains(container.Args, "--instance=$(POD_NAME)") {
		t.Error("the holder's name is not that of the pod, whose volume it has")
	}
}

// The decoder refuses what Kubernetes would drop in silence.
func TestManifestsAreReadStrictly(t *testing.T) {
	data, err := deploy.Files.ReadFile("kubernetes/limiter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Replace(data, []byte("readOnlyRootFilesystem"), []byte("readonlyRootFilesytem"), 1)
	set := &appsv1.StatefulSet{}
	documents := bytes.Split(wrong, []byte("\n---\n"))
	err = yaml.UnmarshalStrict(documents[len(documents)-1], set)
	if err == nil || !strings.Contains(err.Error(), "readonlyRootFilesytem") {
		t.Errorf("a misspelt field passes: %v", err)
	}
}

// The image runs one static binary, without root, from pinned sources.
func TestDockerfile(t *testing.T) {
	file, err := deploy.Files.Open("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	var last []string // instructions of the image that is made
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "FROM ") {
			last = nil
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			last = append(last, trimmed)
		}
	}
	for _, want := range []string{"FROM scratch", "USER 65532:65532", `ENTRYPOINT ["/tokenlease"]`} {
		if !slices.Contains(last, want) {
			t.Errorf("the image lacks %q:\n%s", want, strings.Join(last, "\n"))
		}
	}
	if !strings.Contains(string(data), "ENV CGO_ENABLED=0") {
		t.Error("the binary is not static, and the image has no libraries")
	}
}
