package cmd

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/privgrad/privgrad/internal/audit/audittest"
	"github.com/privgrad/privgrad/train"
)

// imagesOf writes so many images in MNIST's layout, the first of a longer list.
func imagesOf(t *testing.T, rows int) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	labels, pixels := make([]byte, rows), make([]byte, rows*784)
	for i := range labels {
		labels[i] = byte(3 + 2*(i%2))
		for j := range 784 {
			pixels[i*784+j] = byte(random.Uint32())
		}
	}
	for _, prefix := range []string{"train", "t10k"} {
		idx(t, filepath.Join(dir, prefix+"-images-idx3-ubyte"), pixels, rows, 28, 28)
		idx(t, filepath.Join(dir, prefix+"-labels-idx1-ubyte"), labels, rows)
	}
	return dir
}

// What the command writes after one step of ε = 0.16 does not tell by its last digits whether a record was there. An
// answer is right with probability (1 + 0.02)/2 at most, so that all 32 are with one below 5e-10 (docs/explain/auditing.md).
func TestDigitsOfARun(t *testing.T) { answerRuns(t, 32, 32, "secure", "exact") }

// TestLongDigitsOfARun: of 400 answers 264 are right with a probability below 1e-9 (docs/explain/auditing.md).
func TestLongDigitsOfARun(t *testing.T) { answerRuns(t, 400, 264, "secure") }

// answerRuns plays so many games, of which so many right answers are too many.
func answerRuns(t *testing.T, games, enough int, noises ...string) {
	dirs := [2]string{imagesOf(t, 40), imagesOf(t, 41)}
	for _, noise := range noises {
		args := []string{"train", "--data", "mnist", "--public-n", "2000", "--count-records=false", "--delta", "1e-5", "--classes", "3,5", "--model", "logistic", "--device", "cpu", "--threads", "1", "--progress", "off", "--json",
			"--noise", noise, "--noise-multiplier", "20", "--sampling-rate", "1", "--steps", "1", "--lr", "0.5", "--momentum", "0.9"}
		var adversary *audittest.Adversary
		tensors := []string{audittest.Model, audittest.Parameters, audittest.FirstMoment}
		right := make([]int, len(tensors))
		for i := range games {
			out := filepath.Join(t.TempDir(), strconv.Itoa(i))
			r := object(t, ok(t, append(args, "--data-dir", dirs[i%2], "--out", out)...))
			if r["guarantee"] != true || r["epsilon"].(float64) > 0.1601 {
				t.Fatalf("guarantee %v, epsilon %v", r["guarantee"], r["epsilon"])
			}
			if adversary == nil { // the settings are public
				var worlds [2]audittest.World
				for w := range worlds {
					c := &worlds[w].Config
					check(t, train.ReadConfig(filepath.Join(out, "config.yaml"), c))
					c.DataDir = dirs[w]
					worlds[w].Options.Sources = train.Sources()
				}
				adversary = audittest.New(t, worlds)
			}
			for k, tensor := range tensors {
				if (adversary.LogRatio(t, out, tensor) > 0) == (i%2 == 1) {
					right[k]++
				}
			}
		}
		t.Logf("%s: %v of %d answers are right, from %v", noise, right, games, tensors)
		if slices.Max(right) >= enough {
			t.Errorf("%s: %v of %d answers are right, the claim allows fewer than %d", noise, right, games, enough)
		}
	}
}
