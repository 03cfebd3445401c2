package privgrad_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// No job starts a run by itself, on whatever disk it finds.
func TestDeployNeverBeginsAnew(t *testing.T) {
	files := 0
	err := filepath.WalkDir("deploy", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content := text(t, name)
		if strings.Contains(content, "--resume=auto") || strings.Contains(content, "resume: auto") {
			t.Errorf("%s begins a run anew where there is none, on a disk that may be another", name)
		}
		if filepath.Base(name) != "run-or-resume.sh" && regexp.MustCompile(`(?m)^[^#\n]*\bprivgrad(-mpi)? train\b`).MatchString(content) {
			t.Errorf("%s trains without run-or-resume.sh", name)
		}
		return nil
	})
	if err != nil || files < 6 {
		t.Errorf("%d files in deploy, %v", files, err)
	}
}

// entry runs run-or-resume.sh with a launcher that notes its words, and makes the run's ledger where it trains.
func entry(t *testing.T, dir string, args ...string) (launched string, code int, said string) {
	t.Helper()
	script, err := filepath.Abs("deploy/run-or-resume.sh")
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(dir, "launcher")
	const fake = "#!/bin/sh\necho \"$@\" >launched\nif [ \"$2\" = train ]; then mkdir -p runs/a && echo >runs/a/ledger.db; fi\n"
	if err := os.WriteFile(launcher, []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "launched"))
	c := exec.Command("sh", append([]string{script, "runs/a/", launcher + " -n4"}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	words, err := os.ReadFile(filepath.Join(dir, "launched"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(words)), c.ProcessState.ExitCode(), string(out)
}

// A job begins a run where a person has said so, once, and goes on with it ever after. Where the run is gone, as on the disk of
// another machine, it is refused.
func TestRunOrResume(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	dir := t.TempDir()
	start := filepath.Join(dir, "runs", "a.start")
	expect := func(when, want string, code int, args ...string) {
		t.Helper()
		launched, got, said := entry(t, dir, args...)
		if launched != want || got != code || code != 0 && !strings.Contains(said, "run-or-resume.sh: ") {
			t.Errorf("%s: it launches %q and ends with %d, want %q and %d; it says %s", when, launched, got, want, code, said)
		}
		if _, err := os.Stat(start); want != "" && err == nil {
			t.Errorf("%s: the run may begin a second time", when)
		}
	}
	mark := func() {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(start), 0o700), os.WriteFile(start, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const resumes = "-n4 resume runs/a --progress off"
	expect("nothing is there", "", 2, "--epsilon", "3")
	mark()
	expect("settings that are not for the job", "", 2, "--resume=auto")
	expect("settings that are not for the job", "", 2, "--epsilon", "3", "--out", "runs/b")
	expect("it may begin", "-n4 train --epsilon 3 --out runs/a --progress off", 0, "--epsilon", "3")
	expect("it has begun", resumes, 0, "--epsilon", "3")
	mark()
	expect("it has begun, and may begin", resumes, 0, "--epsilon", "3")
	if err := os.RemoveAll(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	expect("another disk", "", 2, "--epsilon", "3")
}

// What the Dockerfile copies is there, its stages are, and its program runs without root's rights.
func TestDockerfile(t *testing.T) {
	lines := regexp.MustCompile(`\\\n`).ReplaceAllString(text(t, "deploy/Dockerfile"), " ")
	known := []string{"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT"}
	stages, user, count := []string{}, "", 0
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if count++; !slices.Contains(known, words[0]) || count == 1 && words[0] != "FROM" || len(words) < 2 {
			t.Errorf("%q is not what a Dockerfile says", line)
			continue
		}
		switch words[0] {
		case "FROM":
			if _, tag, ok := strings.Cut(words[1], ":"); !ok || tag == "latest" {
				t.Errorf("%q has no version", words[1])
			}
			name := ""
			if len(words) == 4 && words[2] == "AS" {
				name = words[3]
			}
			stages, user = append(stages, name), ""
		case "USER":
			user = words[1]
		case "COPY":
			from, sources := "", words[1:len(words)-1]
			if s, ok := strings.CutPrefix(sources[0], "--from="); ok {
				from, sources = s, sources[1:]
			}
			if from != "" && !slices.Contains(stages[:len(stages)-1], from) || len(sources) == 0 {
				t.Errorf("%q copies from no stage, or nothing", line)
			}
			for _, s := range sources {
				if _, err := os.Stat(s); from == "" && err != nil {
					t.Errorf("%q: %v", line, err)
				}
			}
		case "ENTRYPOINT":
			if !strings.Contains(line, `"/usr/local/bin/run-or-resume"`) {
				t.Errorf("%q begins something else than run-or-resume.sh", line)
			}
		}
	}
	if n, err := strconv.Atoi(user); err != nil || n == 0 || len(stages) != 2 {
		t.Errorf("the program runs as user %q, behind %d stages", user, len(stages))
	}
	debian := regexp.MustCompile(`bookworm`).FindAllString(lines, -1)
	if len(debian) != 2 {
		t.Errorf("the program is built on another Debian than it runs on: %v", debian)
	}
	_, version, _ := strings.Cut(text(t, "go.mod"), "\ngo ")
	if major := strings.Join(strings.Split(strings.Fields(version)[0], ".")[:2], "."); !strings.Contains(lines, "FROM golang:"+major+"-") {
		t.Errorf("the Dockerfile has another Go than %s of go.mod", major)
	}
}

// The parts of a Kubernetes object that deploy uses, by the names of its API: any other key is an error.
type (
	Object struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
	}
	metadata struct {
		Name string `yaml:"name"`
	}
	resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	}
	claim struct {
		Object `yaml:",inline"`
		Spec   struct {
			AccessModes []string  `yaml:"accessModes"`
			Resources   resources `yaml:"resources"`
		} `yaml:"spec"`
	}
	job struct {
		Object `yaml:",inline"`
		Spec   struct {
			BackoffLimit int      `yaml:"backoffLimit"`
			Template     template `yaml:"template"`
		} `yaml:"spec"`
	}
	mpiJob struct {
		Object `yaml:",inline"`
		Spec   struct {
			SlotsPerWorker    int    `yaml:"slotsPerWorker"`
			SSHAuthMountPath  string `yaml:"sshAuthMountPath"`
			MPIImplementation string `yaml:"mpiImplementation"`
			RunPolicy         struct {
				CleanPodPolicy string `yaml:"cleanPodPolicy"`
				BackoffLimit   int    `yaml:"backoffLimit"`
			} `yaml:"runPolicy"`
			Replicas struct {
				Launcher replicas `yaml:"Launcher"`
				Worker   replicas `yaml:"Worker"`
			} `yaml:"mpiReplicaSpecs"`
		} `yaml:"spec"`
	}
	replicas struct {
		Replicas      int      `yaml:"replicas"`
		RestartPolicy string   `yaml:"restartPolicy"`
		Template      template `yaml:"template"`
	}
	template struct {
		Spec struct {
			RestartPolicy   string `yaml:"restartPolicy"`
			SecurityContext struct {
				RunAsNonRoot bool `yaml:"runAsNonRoot"`
				RunAsUser    int  `yaml:"runAsUser"`
				FSGroup      int  `yaml:"fsGroup"`
			} `yaml:"securityContext"`
			Containers []container `yaml:"containers"`
			Volumes    []struct {
				Name  string `yaml:"name"`
				Claim struct {
					Name string `yaml:"claimName"`
				} `yaml:"persistentVolumeClaim"`
			} `yaml:"volumes"`
		} `yaml:"spec"`
	}
	container struct {
		Name       string    `yaml:"name"`
		Image      string    `yaml:"image"`
		WorkingDir string    `yaml:"workingDir"`
		Command    []string  `yaml:"command"`
		Args       []string  `yaml:"args"`
		Resources  resources `yaml:"resources"`
		Mounts     []struct {
			Name string `yaml:"name"`
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
)

func decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := yaml.NewDecoder(bytes.NewBufferString(document), yaml.Strict()).Decode(into); err != nil {
		t.Fatalf("%T: %v", into, err)
	}
}

// The manifests have the form of the API, everything that runs has the volume where its run is, and the numbers fit together.
func TestManifests(t *testing.T) {
	documents := strings.Split(text(t, "deploy/kubernetes.yaml"), "\n---\n")
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	var volume claim
	var main mpiJob
	var start job
	decode(t, documents[0], &volume)
	decode(t, documents[1], &main)
	decode(t, text(t, "deploy/kubernetes-start.yaml"), &start)
	for want, o := range map[string]Object{
		"v1 PersistentVolumeClaim": volume.Object, "kubeflow.org/v2beta1 MPIJob": main.Object, "batch/v1 Job": start.Object,
	} {
		if o.APIVersion+" "+o.Kind != want || o.Metadata.Name == "" {
			t.Errorf("%+v is not a %s with a name", o, want)
		}
	}
	if !slices.Equal(volume.Spec.AccessModes, []string{"ReadWriteMany"}) || volume.Spec.Resources.Requests["storage"] == "" {
		t.Errorf("several machines cannot have the volume %+v", volume.Spec)
	}
	launcher, worker := main.Spec.Replicas.Launcher, main.Spec.Replicas.Worker
	pods := []template{launcher.Template, worker.Template, start.Spec.Template}
	for _, p := range pods {
		s := p.Spec
		if !s.SecurityContext.RunAsNonRoot || s.SecurityContext.RunAsUser != 1000 || len(s.Containers) != 1 || len(s.Volumes) != 1 {
			t.Errorf("%+v runs as another user than the container file's, or not as one container with one volume", s)
			continue
		}
		c := s.Containers[0]
		if s.Volumes[0].Claim.Name != volume.Metadata.Name || len(c.Mounts) != 1 || c.Mounts[0].Name != s.Volumes[0].Name || c.Mounts[0].Path != c.WorkingDir {
			t.Errorf("%s does not run on the volume", c.Name)
		}
		if c.Image != pods[0].Spec.Containers[0].Image || strings.HasSuffix(c.Image, ":latest") {
			t.Errorf("%s has the image %s", c.Name, c.Image)
		}
	}
	c := launcher.Template.Spec.Containers[0]
	n := "-n " + strconv.Itoa(worker.Replicas*main.Spec.SlotsPerWorker) + " "
	if launcher.RestartPolicy != "OnFailure" || launcher.Replicas != 1 || main.Spec.RunPolicy.BackoffLimit < 1 ||
		!slices.Equal(c.Command, []string{"/usr/local/bin/run-or-resume"}) || len(c.Args) < 3 || !strings.Contains(c.Args[1], n) {
		t.Errorf("the launcher does not go on with a run of %sprocesses: %+v", n, launcher)
	}
	threads := "--threads=" + worker.Template.Spec.Containers[0].Resources.Requests["cpu"]
	if !slices.Contains(c.Args, threads) {
		t.Errorf("a rank has other %s than its machine has processors", threads)
	}
	run := c.Args[0]
	begin := start.Spec.Template.Spec.Containers[0].Args[0]
	if !strings.Contains(begin, "test ! -e "+run+" && touch "+run+".start") || start.Spec.BackoffLimit != 0 || start.Spec.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("the start of %s is allowed by %q", run, begin)
	}
	for key, value := range map[string]string{
		"HostKey": main.Spec.SSHAuthMountPath + "/id_rsa", "AuthorizedKeysFile": main.Spec.SSHAuthMountPath + "/authorized_keys", "Port": "2222",
	} {
		if !strings.Contains(text(t, "deploy/sshd_config"), key+" "+value+"\n") {
			t.Errorf("sshd_config does not have %s %s", key, value)
		}
	}
	if a := worker.Template.Spec.Containers[0].Args; !slices.Contains(a, "/etc/ssh/privgrad_sshd_config") {
		t.Errorf("workers begin by %q", a)
	}
}

// The manifests' check refuses a key that the API does not have.
func TestManifestsAreStrict(t *testing.T) {
	slip := strings.Replace(text(t, "deploy/kubernetes-start.yaml"), "backoffLimit", "backOffLimit", 1)
	if err := yaml.NewDecoder(strings.NewReader(slip), yaml.Strict()).Decode(&job{}); err == nil {
		t.Error("a slip is taken")
	}
}
