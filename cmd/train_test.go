package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/train"
)

// resultKeys are those that scripts may rely on, then what was added.
var resultKeys = []string{
	"run", "dataset", "model", "parameters", "optimizer", "device", "threads", "steps", "committed_schedule",
	"sampling", "sampling_rate", "expected_batch", "public_n", "clip", "noise_multiplier", "epsilon", "epsilon_so_far", "delta",
	"accountant", "neighbouring", "privacy_unit", "guarantee", "not_a_guarantee_because", "assumptions",
	"tuning_charged", "released", "train_loss", "test_loss", "test_accuracy", "average_test_accuracy", "seconds",
	"examples_per_second", "peak_rss_bytes",

	"test_auc", "test_balanced_accuracy", "recipe", "defaults_chosen_on", "private_diagnostics", "clipping", "precision", "risk", "events", "digests", "classes",
}

func TestTrainJSON(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	args := small(data, "--epsilon", "3", "--json", "--out", out)
	text := ok(t, args...)
	r := object(t, text)
	wantKeys(t, r, slices.Clone(resultKeys)...)
	stored := object(t, readFile(t, out, "result.json"))
	if !reflect.DeepEqual(r, stored) {
		t.Errorf("printed %v, stored %v", r, stored)
	}
	if r["guarantee"] != true || r["train_loss"] != nil || r["delta"] != 1e-5 || r["public_n"] != 5421.0+6131 ||
		r["privacy_unit"] != "one record" || r["steps"] != 4.0 || r["run"] != out {
		t.Errorf("result %s", text)
	}
	if e := r["epsilon"].(float64); e > 3 || e < 2.99 {
		t.Errorf("ε is %v, the budget 3", e)
	}
	// Resuming a finished run prints the stored result and leaves all as it is.
	before := readFile(t, out, "result.json")
	if again := ok(t, append(args, "--resume")...); again != text || readFile(t, out, "result.json") != before {
		t.Error("resuming a finished run changed it")
	}

	r = object(t, ok(t, small(data, "--noise-multiplier", "0", "--json", "--out", filepath.Join(t.TempDir(), "run"))...))
	if r["epsilon"] != nil || r["guarantee"] != false || len(r["not_a_guarantee_because"].([]any)) == 0 {
		t.Errorf("without noise: %v", r)
	}
	r = object(t, ok(t, small(data, "--optimizer", "adam", "--json", "--out", filepath.Join(t.TempDir(), "run"))...))
	if r["epsilon"] != nil || r["delta"] != nil || r["guarantee"] != false {
		t.Errorf("without privacy: %v", r)
	}
	r = object(t, ok(t, small(data, "--noise-multiplier", "1", "--train-loss-noise", "2", "--json", "--out", filepath.Join(t.TempDir(), "run"))...))
	wantKeys(t, r, append(slices.Clone(resultKeys), "train_loss_is")...)
	if r["train_loss"] == nil || !strings.HasPrefix(r["train_loss_is"].(string), "noisy, charged") {
		t.Errorf("noisy training loss: %v", r)
	}
}

// Batches of a fixed size, and a protector's file, are told of in words; and nothing is
// proposed that would be refused.
func TestSummaryOfProtection(t *testing.T) {
	var b strings.Builder
	summarise(&b, &train.Result{Sampling: "fixed-size", ExpectedBatch: 12, PublicN: 195, Claim: train.Claim{Guarantee: true, Assumptions: []string{"protector_file_is_public"}}})
	summarise(&b, &train.Result{Sampling: "passes", ExpectedBatch: 1 - 0x1p-53, PublicN: 195})
	summarise(&b, &train.Result{Sampling: "permutation", ExpectedBatch: 5, PublicN: 195})
	for _, want := range []string{"12 of 195 records per step (subsets of a fixed size)", "1 of 195 records per step (each in turn)", "5 of 195 records per step (in one random order)", "its card cannot be checked"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "privgrad eval") {
		t.Errorf("the test records are not public, and the summary sends to eval, which refuses them:\n%s", b.String())
	}
}

// Of a run with two reasons against a guarantee, each has its own label.
func TestSummaryLabels(t *testing.T) {
	epsilon, delta := 3.0, 1e-5
	var b strings.Builder
	summarise(&b, &train.Result{Sampling: "poisson", Claim: train.Claim{Epsilon: &epsilon, Delta: &delta, NoGuarantee: []string{plan.SeededLabel, accountant.WhyNotPaper}}})
	for _, want := range []string{plan.SeededLabel + "\nNO GUARANTEE: " + accountant.WhyNotPaper + "\n", "  none\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
}

func TestTrainSummary(t *testing.T) {
	data := mnistFiles(t)
	for name, c := range map[string]struct {
		more       []string
		want, lack []string
	}{
		"private": {[]string{"--epsilon", "3"},
			[]string{"Test accuracy  ", "ε = 3, δ = 1e-05 for any one training record (add-remove, pld)", "is right at most ", "wrongly suspects 1%", "This is a guarantee if", "Noise  ", "Saved to  ", "privgrad eval ", "config.yaml' --epsilon 1.5\n    the same run with another ε: on the same private data, the ε of both add up\n", "' --onnx model.onnx"},
			[]string{"NO GUARANTEE", "NOT PRIVATE", "raining loss", "train loss"}},
		"adaptive":  {[]string{"--epsilon", "3", "--clipping", "adaptive"}, []string{" × adaptive clip norm, ", " at the end", "This is a guarantee if"}, nil},
		"per-layer": {[]string{"--epsilon", "3", "--clipping", "per-layer"}, []string{" × clip norm 1 (per-layer clipping)"}, nil},
		"no noise":  {[]string{"--noise-multiplier", "0"}, []string{"NOT PRIVATE: no noise was added", "ε is infinite"}, []string{"ε =", "This is a guarantee"}},
		"seeded":    {[]string{"--epsilon", "3", "--noise", "seeded"}, []string{"NOT PRIVATE: seeded noise", "none (with --noise secure: ε = 3, δ = 1e-05)"}, []string{"This is a guarantee"}},
		"sgd":       {[]string{"--optimizer", "sgd"}, []string{"NOT PRIVATE: optimizer sgd"}, []string{"ε", "δ", "--epsilon"}},
		"paper":     {[]string{"--epsilon", "3", "--accountant", "paper"}, []string{"NO GUARANTEE: paper", "no guarantee (stated: ε = 3, δ = 1e-05)"}, []string{"This is a guarantee"}},
		"public":    {[]string{"--epsilon", "3", "--data-is-public"}, []string{"NO GUARANTEE: un-noised", "Training loss"}, nil},
		"protected": {[]string{"--epsilon", "3", "--optimizer", "l2p", "--protector", "../train/testdata/both.safetensors"},
			[]string{"This is a guarantee if", "its card cannot be checked", "(Poisson sampling)"}, []string{"Noise "}},
		"noisyloss": {[]string{"--epsilon", "3", "--train-loss-noise", "5"}, []string{"Training loss", "noisy, charged"}, []string{"NO GUARANTEE"}},
	} {
		out := filepath.Join(t.TempDir(), "a run")
		text := ok(t, small(data, append(c.more, "--out", out)...)...)
		for _, w := range append(c.want, "'"+out+"'") {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the summary lacks %q:\n%s", name, w, text)
			}
		}
		for _, l := range c.lack {
			if strings.Contains(text, l) {
				t.Errorf("%s: the summary says %q:\n%s", name, l, text)
			}
		}
		if regexp.MustCompile(`\b311\b`).MatchString(text) {
			t.Errorf("%s: the summary says how many records there are:\n%s", name, text)
		}
	}
}

func TestRerunFromStoredConfiguration(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	ok(t, small(data, "--epsilon", "3", "--noise", "seeded", "--seed", "7", "--momentum", "0.5", "--l2", "0.01", "--out", first)...)
	ok(t, "train", "-c", filepath.Join(first, "config.yaml"), "--out", second)
	adapted := filepath.Join(dir, "adapted")
	ok(t, "train", "-c", filepath.Join(first, "config.yaml"), "--clipping", "adaptive", "--out", adapted)
	ok(t, "train", "-c", filepath.Join(adapted, "config.yaml"), "--clipping", "flat", "--out", filepath.Join(dir, "flat again"))
	for _, name := range []string{"model.safetensors", "metrics.jsonl", "config.yaml"} {
		if readFile(t, first, name) != readFile(t, second, name) {
			t.Errorf("the rerun's %s differs", name)
		}
	}
	// A flag wins over the file.
	third := filepath.Join(dir, "third")
	r := object(t, ok(t, "train", "-c", filepath.Join(first, "config.yaml"), "--noise-multiplier", "2", "--batch", "3000", "--epochs", "8", "--out", third, "--json"))
	if r["noise_multiplier"] != 2.0 || r["expected_batch"] != 3000.0 || r["committed_schedule"] != 30.0 {
		t.Errorf("flags did not win: %v", r)
	}
}

func settingsOf(t *testing.T, file string, args ...string) train.Config {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := newSettings(flags, everySetting)
	check(t, flags.Parse(args))
	c, err := s.config(file)
	check(t, err)
	return c
}

// Every setting has a flag that takes its values, and says what it is for, unless it is for files alone.
func TestEverySettingHasAFlag(t *testing.T) {
	cmd := &cobra.Command{}
	s := newSettings(cmd.Flags(), everySetting)
	for _, setting := range config.Rows() {
		f := cmd.Flags().Lookup(setting.Flag())
		if setting.InFile {
			if f != nil {
				t.Errorf("--%s is a flag", f.Name)
			}
			continue
		}
		text := map[string]string{"string": "x", "number": "0.25", "int": "7", "bool": "true", "ints": "3,5", "names": "a,b"}[f.Value.Type()]
		if err := f.Value.Set(text); err != nil || !s.given[setting.Key] || f.Usage == "" {
			t.Errorf("--%s %s: %v", f.Name, text, err)
		}
		set := reflect.Indirect(reflect.ValueOf(setting.Field(&s.values)).Elem())
		if got := strings.NewReplacer("[", "", "]", "", " ", ",").Replace(fmt.Sprint(set)); got != text {
			t.Errorf("--%s %s made it %v", f.Name, text, got)
		}
	}
}

// sameSettings compares all settings, and not which of them were given.
func sameSettings(a, b train.Config) bool {
	for _, s := range config.Rows() {
		if !reflect.DeepEqual(s.Field(&a), s.Field(&b)) {
			return false
		}
	}
	return true
}

func TestSettings(t *testing.T) {
	if got, want := settingsOf(t, ""), train.Default(); !sameSettings(got, want) {
		t.Errorf("without a flag: %+v, want %+v", got, want)
	}
	file := filepath.Join(t.TempDir(), "run.yaml")
	check(t, os.WriteFile(file, []byte("epsilon: 2\nsampling_rate: 0.1\nepochs: 3\ndata_is_public: true\nclasses: [1, 2]\nseed: 9\n"), 0o644))
	ptr := func(x float64) *float64 { return &x }
	want := train.Default()
	want.Recipe = "" // a file says all that it wants
	want.Epsilon, want.SamplingRate, want.Epochs, want.DataIsPublic, want.Classes, want.Seed = ptr(2), ptr(0.1), ptr(3), true, []int{1, 2}, 9
	if got := settingsOf(t, file); !sameSettings(got, want) {
		t.Errorf("from the file: %+v, want %+v", got, want)
	}
	steps := 5
	want.Epsilon, want.NoiseMultiplier, want.SamplingRate, want.Batch, want.Epochs, want.Steps = nil, ptr(1), nil, ptr(64), nil, &steps
	want.DataIsPublic, want.Classes, want.Seed = false, []int{3, 5}, 0
	if got := settingsOf(t, file, "--noise-multiplier=1", "--batch", "64", "--steps", "5", "--data-is-public=false", "--classes", "3, 5", "--seed", "0"); !sameSettings(got, want) {
		t.Errorf("flags over the file: %+v, want %+v", got, want)
	}

	// A flag for another clipping takes along what the file says of an adaptive one.
	check(t, os.WriteFile(file, []byte("clipping: adaptive\nclip_floor: 0.25\nclip_ceiling: 8\nclip_quantile: 0.75\n"), 0o644))
	want = train.Default()
	want.Recipe, want.Clipping = "", "per-layer"
	if got := settingsOf(t, file, "--clipping", "per-layer"); !sameSettings(got, want) {
		t.Errorf("another clipping than the file's: %+v, want %+v", got, want)
	}
	want.Clipping, want.ClipFloor, want.ClipCeiling, want.ClipQuantile = "adaptive", ptr(0.25), ptr(8), ptr(0.75)
	if got := settingsOf(t, file, "--clipping", "adaptive"); !sameSettings(got, want) {
		t.Errorf("the file's clipping again: %+v, want %+v", got, want)
	}

	cmd := newTrain()
	for _, name := range []string{"config", "out", "resume", "progress", "json"} {
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("train has no --%s", name)
		}
	}
}

func TestBadSettings(t *testing.T) {
	data := mnistFiles(t)
	yaml := func(text string) string {
		file := filepath.Join(t.TempDir(), "run.yaml")
		check(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	for _, c := range []struct {
		more []string
		want []string
	}{
		{[]string{"--epsilon", "1e999"}, []string{"--epsilon", "1e999", "out of range"}},
		{[]string{"--classes", "3;5", "--epsilon", "1"}, []string{"--classes", `"3;5"`, "3,5"}},
		{[]string{"--epsilon", "1", "--progress", "loud"}, []string{"loud", "choose one of auto, on, off"}},
		{[]string{"-c", yaml("epsilonn: 1\n")}, []string{"epsilonn", "run.yaml"}},
		{[]string{"-c", yaml("epsilon: [1, 2\n")}, []string{"run.yaml"}},
		{[]string{"-c", yaml("epsilon: 1\nnoise_multiplier: 1\n")}, []string{"both"}},
		{[]string{"-c", "nowhere.yaml"}, []string{"nowhere.yaml"}},
	} {
		out := filepath.Join(t.TempDir(), "run")
		args := small(data, append(c.more, "--out", out)...)
		fails(t, cli.ExitUsage, args, c.want...)
		fails(t, cli.ExitUsage, append(args, "--json"), c.want...)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("privgrad %s left %s", strings.Join(args, " "), out)
		}
	}
	fails(t, cli.ExitUsage, []string{"train", "--data", "mnist", "--epsilon", "1"}, "--data-dir", config.DataDirVariable, "privgrad data fetch")
	out := filepath.Join(t.TempDir(), "run")
	fails(t, cli.ExitFailed, small(data, "--epsilon", "1", "--device", "cuda", "--out", out), "cuda", "--device cpu")
	ok(t, small(data, "--epsilon", "1", "--device", "cpu", "--out", out)...) // nothing was left in the way
}

// Files in a published layout are somebody's own until they are said to be the
// published ones; Fashion-MNIST is built in and takes no files.
func TestOwnFilesAreDeclared(t *testing.T) {
	data := mnistFiles(t)
	own := func(more ...string) []string {
		args := []string{"train", "--data", "mnist", "--data-dir", data, "--model", "logistic", "--batch", "50", "--steps", "2", "--noise-multiplier", "0.7", "--device", "cpu", "--json"}
		return append(append(args, "--out", filepath.Join(t.TempDir(), "run")), more...)
	}
	fails(t, cli.ExitUsage, own(), "--public-n", "--delta", "--published-set")
	fails(t, cli.ExitUsage, own("--public-n", "300"), "--public-n", "--delta", "--published-set")
	r := object(t, ok(t, own("--public-n", "300", "--delta", "1e-4")...))
	if r["test_accuracy"] != nil || r["test_loss"] != nil || r["public_n"] != 300.0 {
		t.Errorf("own files show %v", r)
	}
	for flag, key := range map[string]string{"--published-set": "files_are_the_published_ones", "--test-is-public": "test_split_is_public"} {
		out := filepath.Join(t.TempDir(), "run")
		human := ok(t, slices.DeleteFunc(own("--public-n", map[bool]string{true: "60000", false: "300"}[flag == "--published-set"], "--delta", "1e-6", flag, "--out", out), func(s string) bool { return s == "--json" })...)
		if r := readFile(t, out, "result.json"); !strings.Contains(r, key) || strings.Contains(r, `"test_accuracy": null`) || !strings.Contains(human, train.Assumption(key)) || strings.Contains(human, key) {
			t.Errorf("%s: %s\n%s", flag, r, human)
		}
		if config := readFile(t, out, "config.yaml"); !strings.Contains(config, strings.ReplaceAll(flag[2:], "-", "_")+": true") {
			t.Errorf("config.yaml is\n%s", config)
		}
	}
	fails(t, cli.ExitUsage, []string{"train", "--data-dir", data, "--epsilon", "1"}, "fmnist", "built in")
}

func TestWeakDeltaWarns(t *testing.T) {
	args := slices.DeleteFunc(small(mnistFiles(t), "--epsilon", "1", "--delta", "0.003", "--public-n", "400", "--json", "--out", filepath.Join(t.TempDir(), "run")), func(s string) bool { return s == "--published-set" })
	r := privgrad(args...)
	if r.code != cli.ExitDone || !strings.HasPrefix(r.stderr, "privgrad: warning: delta 0.003 ") {
		t.Fatalf("exit %d, %q", r.code, r.stderr)
	}
	object(t, r.stdout)
}

func TestRunDirectoryThatIsTaken(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	args := small(data, "--noise-multiplier", "1", "--out", out)
	if err := os.MkdirAll(out, 0o755); err != nil { // an empty directory starts
		t.Fatal(err)
	}
	ok(t, args...)
	before := tree(t, out)
	fails(t, cli.ExitUsage, args, out, "not empty", "privgrad resume "+out)
	fails(t, cli.ExitUsage, append(args, "--resume", "--lr", "3"), "lr is 3, was 0.5")
	if after := tree(t, out); !reflect.DeepEqual(after, before) {
		t.Error("a refused run changed the directory")
	}

	nowhere := filepath.Join(t.TempDir(), "run")
	fails(t, cli.ExitUsage, append(args, "--out", nowhere, "--resume"), nowhere, "no run to resume", "--resume=auto")
	fails(t, cli.ExitUsage, append(args, "--out", nowhere, "--resume=always"), "auto, true or false")
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a refused run made its directory")
	}
	began := ok(t, append(args, "--out", nowhere, "--resume=auto", "--json")...)
	for _, again := range []string{"--resume=auto", "--resume", "--resume=true"} {
		if ok(t, append(args, "--out", nowhere, again, "--json")...) != began {
			t.Errorf("%s did not find the run that %s began", again, "--resume=auto")
		}
	}

	other := t.TempDir()
	check(t, os.WriteFile(filepath.Join(other, "thesis.txt"), []byte("mine"), 0o644))
	fails(t, cli.ExitUsage, append(args, "--out", other), "not empty")
	fails(t, cli.ExitUsage, append(args, "--out", other, "--resume"), "no run to resume")
	if after := tree(t, other); len(after) != 1 || after["thesis.txt"] != "mine" {
		t.Errorf("a refused run left %v", after)
	}

	// A run that is going on elsewhere: its ledger is locked.
	check(t, os.Remove(filepath.Join(out, "result.json")))
	path := filepath.Join(out, "ledger.db")
	_, header, err := ledger.Read(path)
	check(t, err)
	held, err := ledger.Open(path, header)
	check(t, err)
	fails(t, cli.ExitUsage, append(args, "--resume"), path, "in use")
	check(t, held.Close())
	ok(t, append(args, "--resume")...)
}

// tree reads a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = readFile(t, path)
		return nil
	})
	check(t, err)
	return all
}

func TestProgress(t *testing.T) {
	data := mnistFiles(t)
	args := func(mode string) []string {
		return small(data, "--epsilon", "3", "--eval-every", "1", "--delta", "0.01", "--json", "--progress", mode, "--out", filepath.Join(t.TempDir(), "run"))
	}
	r := privgrad(args("on")...)
	object(t, r.stdout)
	if !regexp.MustCompile(`step [1-4]/4, last evaluation: ε [0-9.]+ and test [0-9.]+% `).MatchString(r.stderr) {
		t.Errorf("the bar does not show how the run goes: %q", r.stderr)
	}
	if strings.Contains(r.stderr, "loss") || !strings.HasSuffix(r.stderr, "\r") {
		t.Errorf("the bar shows a loss or stays: %q", r.stderr)
	}
	if !strings.Contains(r.stderr, "100% |") {
		t.Errorf("the bar does not end at 100%%: %q", r.stderr)
	}
	if r := privgrad(args("off")...); strings.Contains(r.stderr, "step") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("without progress: %q", r.stderr)
	}
	// A buffer is no terminal: a line an evaluation, and none of them has a time within ten seconds.
	r = privgrad(args("auto")...)
	if lines := evaluationLine.FindAllString(r.stderr, -1); len(lines) != 4 || !regexp.MustCompile(`^privgrad: epoch 0.5, ε [0-9.]+ so far, test accuracy [0-9.]+%\n$`).MatchString(lines[0]) {
		t.Errorf("progress auto: %q", r.stderr)
	}
	object(t, r.stdout)
	r = privgrad(append(args("auto"), "--log-format", "json")...)
	object(t, r.stdout)
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if len(lines) != 5 {
		t.Fatalf("as JSON: %q", r.stderr)
	}
	wantKeys(t, object(t, lines[0]), "level", "msg")
	wantKeys(t, object(t, lines[4]), "level", "msg", "step", "epoch", "epsilon_so_far", "test_accuracy", "test_loss", "test_auc", "test_balanced_accuracy")
}

func TestEval(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	trained := object(t, ok(t, "train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "mlp-fmnist", "--noise-multiplier", "0.1",
		"--batch", "12000", "--steps", "6", "--lr", "0.5", "--average", "0.9", "--out", out, "--json"))
	text := ok(t, "eval", out, "--json")
	r := object(t, text)
	wantKeys(t, r, "run", "dataset", "model", "examples", "average", "test_loss", "test_accuracy", "test_auc", "test_balanced_accuracy", "classes", "confusion")
	if r["test_accuracy"] != trained["test_accuracy"] || r["test_loss"] != trained["test_loss"] || r["examples"] != 97.0 {
		t.Errorf("trained to %v, evaluated to %s", trained, text)
	}
	if mean := object(t, ok(t, "eval", out, "--json", "--average")); mean["average"] != true || mean["test_loss"] == r["test_loss"] ||
		mean["test_accuracy"] != trained["average_test_accuracy"] {
		t.Errorf("trained to %v, the average is evaluated to %v", trained, mean)
	}
	total := 0.0
	for _, row := range r["confusion"].([]any) {
		for _, n := range row.([]any) {
			total += n.(float64)
		}
	}
	if total != 97 {
		t.Errorf("the confusion matrix counts %v examples", total)
	}
	if again := object(t, ok(t, "eval", out, "--json", "--device", "reference", "--data-dir", data)); again["test_accuracy"] != r["test_accuracy"] {
		t.Errorf("the reference device disagrees: %v", again)
	}
	human := ok(t, "eval", out)
	for _, want := range []string{"test accuracy", "test loss", "rows", "right", "97 test records"} {
		if !strings.Contains(human, want) {
			t.Errorf("eval does not show %q:\n%s", want, human)
		}
	}
	fails(t, cli.ExitUsage, []string{"eval", t.TempDir()}, "no run directory")
	fails(t, cli.ExitUsage, []string{"eval", out, "--data-dir", t.TempDir()}, "images-idx3-ubyte")
	fails(t, cli.ExitFailed, []string{"eval", out, "--device", "cuda"}, "cuda")
	fails(t, cli.ExitUsage, []string{"eval", out, "--threads", "-2"}, "-2")
	check(t, os.Truncate(filepath.Join(out, "model.safetensors"), 1000))
	fails(t, cli.ExitUsage, []string{"eval", out}, "model.safetensors")
}

func TestEvalNamesClasses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	t.Setenv(config.DataDirVariable, t.TempDir()) // not for what is built in
	ok(t, "train", "--noise-multiplier", "1", "--model", "logistic", "--classes", "0,9", "--steps", "2", "--batch", "100", "--out", out)
	human := ok(t, "eval", out)
	for _, want := range []string{`T-shirt/top  Ankle boot +right\n`, `T-shirt/top  +\d`, `Ankle boot  +\d`, `2000 test records of fmnist`} {
		if !regexp.MustCompile(want).MatchString(human) { // a column is as wide as its figures
			t.Errorf("eval does not show %q:\n%s", want, human)
		}
	}
	fails(t, cli.ExitUsage, []string{"eval", out, "--data-dir", t.TempDir()}, "fmnist") // a directory that was named is used
}

func TestDataDirectoryFromTheEnvironment(t *testing.T) {
	t.Setenv(config.DataDirVariable, mnistFiles(t))
	ok(t, "train", "--data", "mnist", "--published-set", "--noise-multiplier", "1", "--model", "logistic", "--classes", "0,1", "--steps", "1", "--out", filepath.Join(t.TempDir(), "run"))
}

func TestBrokenDataFiles(t *testing.T) {
	private := regexp.MustCompile(`\b(311|97|4294967295)\b`)
	for name, c := range map[string]struct {
		file   string
		damage func([]byte) []byte
		want   string
	}{
		"truncated":      {"train-images-idx3-ubyte", func(b []byte) []byte { return b[:len(b)-1] }, "ends before the last record"},
		"header cut off": {"train-labels-idx1-ubyte", func(b []byte) []byte { return b[:5] }, "header is cut off"},
		"4 GiB claimed":  {"train-labels-idx1-ubyte", func(b []byte) []byte { copy(b[4:], "\xff\xff\xff\xff"); return b }, "ends before the last record"},
		"wrong magic":    {"train-images-idx3-ubyte", func(b []byte) []byte { return append([]byte("<htm"), b[4:]...) }, "magic number"},
		"other shape":    {"t10k-images-idx3-ubyte", func(b []byte) []byte { b[11] = 29; return b }, "is 29, want 28"},
		"rows missing":   {"train-labels-idx1-ubyte", func(b []byte) []byte { b[7]--; return b[:len(b)-1] }, "different numbers of records"},
	} {
		dir := mnistFiles(t)
		path := filepath.Join(dir, c.file)
		check(t, os.WriteFile(path, c.damage([]byte(readFile(t, path))), 0o644))
		args := small(dir, "--epsilon", "1", "--out", filepath.Join(t.TempDir(), "run"))
		fails(t, cli.ExitUsage, args, c.want, path)
		if said := privgrad(args...).stderr; private.MatchString(said) {
			t.Errorf("%s: the error says how many records there are: %q", name, said)
		}
		r := privgrad("data", "verify", "mnist", "--data-dir", dir)
		if r.code != cli.ExitFailed || !strings.Contains(r.stdout, c.want) || strings.Contains(r.stdout, "PRIVATE") || !strings.HasPrefix(r.stderr, "privgrad: ") {
			t.Errorf("%s: data verify: exit %d, %q, %q", name, r.code, r.stdout, r.stderr)
		}
		r = privgrad("data", "verify", "mnist", "--data-dir", dir, "--json")
		if o := object(t, r.stdout); r.code != cli.ExitFailed || o["ok"] != false {
			t.Errorf("%s: data verify --json: exit %d, %v", name, r.code, o)
		}
	}
}

func TestPrivateDiagnosticsStayOutside(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	r := object(t, ok(t, small(data, "--epsilon", "1", "--private-diagnostics", "--json", "--out", out)...))
	if r["private_diagnostics"] != true || r["train_loss"] != nil {
		t.Errorf("result %v", r)
	}
	lines := strings.Split(strings.TrimSpace(readFile(t, out+".private", "diagnostics.jsonl")), "\n")
	for _, line := range lines {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil || o["private"] != true {
			t.Errorf("diagnostics line %q", line)
		}
	}
	if strings.Contains(readFile(t, out, "metrics.jsonl"), "realised") {
		t.Error("diagnostics in the run directory")
	}
}

// Whatever a seeded run prints or stores for people or programs to read says
// that it is not private; other runs never say so.
func TestSeededIsLabelledEverywhere(t *testing.T) {
	const label = "NOT PRIVATE"
	data := mnistFiles(t)
	for _, noise := range []string{"seeded", "secure", "exact"} {
		want := noise == "seeded"
		says := func(what, text string) {
			t.Helper()
			if strings.Contains(text, label) != want {
				t.Errorf("%s noise: %s says %q: %v\n%.500q", noise, what, label, !want, text)
			}
		}
		out := filepath.Join(t.TempDir(), "run")
		args := small(data, "--epsilon", "3", "--eval-every", "1", "--noise", noise, "--progress", "on", "--out", out)
		r := privgrad(args...)
		if r.code != cli.ExitDone {
			t.Fatal(r.stderr)
		}
		says("the summary", r.stdout)
		warning, _, _ := strings.Cut(r.stderr, "\n")
		says("the first line of standard error", warning)
		for _, bar := range regexp.MustCompile(`[^\r\n]*ε[^\r\n]*`).FindAllString(strings.TrimPrefix(r.stderr, warning), -1) {
			says("the progress bar", bar)
		}
		again := privgrad(append(args, "--resume", "--json")...)
		says("--json", again.stdout)
		says("standard error of a finished run", again.stderr)

		says("eval", ok(t, "eval", out))
		says("eval --json", ok(t, "eval", out, "--json"))

		result := readFile(t, out, "result.json")
		says("result.json", result)
		if object(t, result)["guarantee"] != !want {
			t.Errorf("%s noise: %s", noise, result)
		}
		lines := strings.Split(strings.TrimSpace(readFile(t, out, "metrics.jsonl")), "\n")
		if len(lines) < 4 {
			t.Fatalf("metrics: %q", lines)
		}
		for _, line := range lines {
			says("a line of metrics.jsonl", line)
		}
		says("config.yaml", readFile(t, out, "config.yaml"))
		for _, file := range []string{"model.safetensors", "checkpoint/state.safetensors"} {
			says(file, readFile(t, out, file))
		}

		// The same of a run that is resumed before it has finished.
		check(t, os.Remove(filepath.Join(out, "result.json")))
		again = privgrad(append(args, "--resume")...)
		says("the summary of a resumed run", again.stdout)
		says("standard error of a resumed run", again.stderr)
		// No file of the directory is left that shows ε and was not looked at.
		entries, err := os.ReadDir(out)
		check(t, err)
		for _, e := range entries {
			if !slices.Contains([]string{"result.json", "metrics.jsonl", "config.yaml", "model.safetensors", "checkpoint", "ledger.db", "accuracy.png", "report.html", "model-card.md", "processes.jsonl"}, e.Name()) {
				t.Errorf("%s is not looked at here", e.Name())
			}
		}
	}
}

// Where all steps were lost, nobody takes the model for a trained one.
func TestUntrained(t *testing.T) {
	committed, epsilon, delta := 5, 3.0, 1e-5
	var b strings.Builder
	summarise(&b, &train.Result{Committed: &committed, Claim: train.Claim{Epsilon: &epsilon, Delta: &delta}})
	if !strings.Contains(b.String(), "none of 5: ") || !strings.Contains(b.String(), "untrained model") {
		t.Errorf("nothing says so in:\n%s", b.String())
	}
}
