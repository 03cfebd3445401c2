package cmd

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets/cifar"
	"github.com/privgrad/privgrad/internal/cli"
)

// The classes of the ten images of cifar100Files are multiples of 11, so that no group's number, which is less than 20, stands for most.
const cifar100Step = 11

// cifar100Files writes noise in CIFAR-100's layout, the same ten images for training and for testing, and the images as an array.
func cifar100Files(t *testing.T) (dir, array string) {
	t.Helper()
	dir = t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	var file, pixels []byte
	for i := range 10 {
		file = append(file, byte(255-i), byte(cifar100Step*i))
		for range 3 * 32 * 32 {
			file = append(file, byte(random.IntN(256)))
		}
		pixels = append(pixels, file[len(file)-3*32*32:]...)
	}
	for _, name := range []string{"train.bin", "test.bin"} {
		check(t, os.WriteFile(filepath.Join(dir, name), file, 0o644))
	}
	array = filepath.Join(dir, "images.npy")
	put(t, array, npy("|u1", pixels, 10, 3, 32, 32))
	return dir, array
}

// cifar100Model trains a model for two steps on all records of such files, and returns its directory. The loss falls at the second step:
// gradients reach the outputs of the classes of the images, which are tested, too.
func cifar100Model(t *testing.T, dir, model string, parameters float64, more ...string) (run string) {
	t.Helper()
	run = filepath.Join(t.TempDir(), "run")
	// The sum of the gradients of ten records is divided by 50,000, and clipped they are at most 1 long: a step is at most 0.1 long.
	args := []string{"train", "--data", "cifar100", "--data-dir", dir, "--published-set", "--model", model, "--noise-multiplier", "0", "--sampling-rate", "1",
		"--steps", "2", "--eval-every", "1", "--lr", "500", "--threads", "1", "--out", run, "--json"}
	r := object(t, ok(t, append(args, more...)...))
	if r["dataset"] != "cifar100" || r["model"] != model || r["parameters"] != parameters || r["public_n"] != 50000.0 || r["delta"] != nil && r["delta"] != 1e-5 {
		t.Errorf("%s: data set %v, %v parameters, N = %v, δ = %v", model, r["dataset"], r["parameters"], r["public_n"], r["delta"])
	}
	lines := strings.Split(strings.TrimSpace(readFile(t, run, "metrics.jsonl")), "\n")
	first, last := object(t, lines[0])["test_loss"].(float64), object(t, lines[len(lines)-1])["test_loss"].(float64)
	if len(lines) != 2 || !(last < first) || last != r["test_loss"] {
		t.Errorf("%s: the loss goes from %g to %g in %d lines, and the result has %v", model, first, last, len(lines), r["test_loss"])
	}
	return run
}

// Networks for such images take 100 classes: their last layers have 90 more outputs than for CIFAR-10, each with an intercept.
func TestCIFAR100(t *testing.T) {
	dir, array := cifar100Files(t)
	cifar100Model(t, dir, "cifar-small", 550570+90*(128+1))
	cifar100Model(t, dir, "resnet-small", 378730+90*(128+1))

	// A linear model knows again ten images of 3,072 values of noise, and names them.
	run := cifar100Model(t, dir, "logistic", 100*(3072+1))
	for i, p := range predictionsOf(t, run, array) {
		if want := cifar.Layout100.ClassNames[cifar100Step*i]; *p.Class != want {
			t.Errorf("image %d is predicted as %s, want %s", i, *p.Class, want)
		}
	}
	r := object(t, ok(t, "eval", run, "--json"))
	if r["test_accuracy"] != 1.0 || len(r["confusion"].([]any)) != 100 || len(r["classes"].([]any)) != 100 {
		t.Errorf("accuracy %v of %d classes", r["test_accuracy"], len(r["classes"].([]any)))
	}
	ok(t, "export", run, "--onnx", filepath.Join(t.TempDir(), "m.onnx"))
}

// The other models for such images, and features.
func TestLongCIFAR100(t *testing.T) {
	dir, _ := cifar100Files(t)
	cifar100Model(t, dir, "cifar-paper", 5851338+90*(512+1))
	cifar100Model(t, dir, "wrn-16-4", 2753818+90*(256+1))
	cifar100Model(t, dir, "wrn-40-4", 8961306+90*(256+1))
	whitened := filepath.Join(t.TempDir(), "best")
	r := object(t, ok(t, "train", "--data", "cifar100", "--data-dir", dir, "--published-set", "--recipe", "best", "--epsilon", "3", "--steps", "1", "--threads", "1", "--out", whitened, "--json"))
	if from := r["defaults_chosen_on"].(string); !strings.Contains(from, "cifar10,") || !strings.Contains(r["recipe"].(string), "none was chosen on cifar100") {
		t.Errorf("settings chosen on %q, recipe %q", from, r["recipe"])
	}
}

// What is wrong with the files is said before anything is trained, with what to do; what is known of the set needs no files.
func TestCIFAR100Files(t *testing.T) {
	dir, _ := cifar100Files(t)
	args := []string{"train", "--data", "cifar100", "--data-dir", dir, "--model", "logistic", "--noise-multiplier", "1", "--batch", "500", "--steps", "1", "--threads", "1"}
	fails(t, cli.ExitUsage, args, "cifar100", "--public-n", "--published-set")

	r := object(t, ok(t, append(slices.Clone(args), "--data-dir", "nowhere", "--published-set", "--dry-run", "--json")...))
	if r["public_n"] != 50000.0 || r["delta"] != 1e-5 || r["sampling_rate"] != 0.01 || r["parameters"] != 307300.0 {
		t.Errorf("a dry run has %v", r)
	}
	if text := ok(t, "data", "list"); !strings.Contains(text, "in 100 classes") || !strings.Contains(text, "apple, aquarium_fish, baby, bear, beaver, … worm") {
		t.Errorf("the list shows\n%s", text)
	}
	if text := ok(t, "info"); !strings.Contains(text, "privgrad data fetch cifar100") {
		t.Errorf("info shows\n%s", text)
	}

	// Records of no class count as zero: a step is that of the others alone, of which the same number divides the sum. Sums in float32 may be
	// in another order: of ten terms, that is less than 1e-5 of a loss near ln 100.
	path := filepath.Join(dir, "train.bin")
	whole := []byte(readFile(t, path))
	const record, bad = 2 + 3*32*32, 4
	for i := range bad {
		whole[i*record+1] = 100
	}
	loss := func(file []byte) float64 {
		t.Helper()
		check(t, os.WriteFile(path, file, 0o644))
		return object(t, ok(t, "train", "--data", "cifar100", "--data-dir", dir, "--published-set", "--model", "logistic", "--noise-multiplier", "0", "--sampling-rate", "1",
			"--steps", "1", "--lr", "500", "--threads", "1", "--json", "--out", filepath.Join(t.TempDir(), "run")))["test_loss"].(float64)
	}
	if others, all := loss(whole[bad*record:]), loss(whole); math.Abs(all-others) > 1e-5 || math.Abs(all-math.Log(100)) < 1e-2 {
		t.Errorf("with records of no class the loss is %g, without them %g", all, others)
	}
	if text := ok(t, "data", "verify", "cifar100", "--data-dir", dir); !strings.Contains(strings.Join(strings.Fields(text), " "), "labels that are no class 4 0") {
		t.Errorf("verify shows\n%s", text)
	}

	check(t, os.WriteFile(path, whole[:len(whole)-1], 0o644))
	fails(t, cli.ExitUsage, append(args, "--published-set"), path, "no whole number of 3074-byte records", "cut off")
	v := privgrad("data", "verify", "cifar100", "--data-dir", dir)
	if v.code != cli.ExitFailed || !strings.Contains(v.stdout, "3074-byte") {
		t.Errorf("verify of a file that is cut off: exit %d\n%s", v.code, v.stdout)
	}
}
