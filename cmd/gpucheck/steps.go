package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/internal/safetensors"
)

// groups are the steps, in order.
var groups = []struct {
	name string
	run  func(*check, context.Context)
}{
	{"info", (*check).info},
	{"driver", (*check).driver},
	{"kernels", (*check).kernels},
	{"conformance", (*check).conformance},
	{"train", (*check).train},
	{"sanitizer", (*check).sanitizer},
	{"gemm", (*check).gemm},
	{"bench", (*check).bench},
	{"peers", (*check).peers},
}

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// all runs the steps and says whether none failed.
func (c *check) all(ctx context.Context) (bool, error) {
	var err error
	if c.bundle, err = filepath.Abs(c.bundle); err != nil {
		return false, err
	}
	if c.out, err = filepath.Abs(c.out); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Join(c.out, "logs"), 0o755); err != nil {
		return false, err
	}
	if c.scratch, err = os.MkdirTemp("", "gpu-check-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(c.scratch)
	c.report.Date = time.Now().UTC().Format(time.RFC3339)
	for _, g := range groups {
		if c.only == nil || slices.Contains(c.only, g.name) {
			g.run(c, ctx)
		}
	}
	c.report.Done = ctx.Err() == nil
	if err := c.write(); err != nil {
		return false, err
	}
	fmt.Printf("\n%d steps, %d failed: %s\n", len(c.report.Steps), c.failures(), filepath.Join(c.out, "gpu-check.txt"))
	return c.report.Passed && c.report.Done, nil
}

func (c *check) privgrad(args ...string) []string {
	return append([]string{filepath.Join(c.bundle, "privgrad")}, args...)
}

// object keeps the JSON that a command prints.
func object(s *step, stdout []byte) error {
	if !json.Valid(stdout) {
		return errors.New("its output is no JSON")
	}
	s.Result = json.RawMessage(stdout)
	return nil
}

func (c *check) info(ctx context.Context) {
	c.run(ctx, job{name: "info", limit: time.Minute, command: c.privgrad("info", "--json")}, func(s *step, stdout []byte) error {
		if err := object(s, stdout); err != nil {
			return err
		}
		var info struct {
			GPUs struct {
				Devices []json.RawMessage
				Reason  string
			}
		}
		if err := json.Unmarshal(stdout, &info); err != nil {
			return err
		}
		if len(info.GPUs.Devices) == 0 {
			return fmt.Errorf("no GPU here: %s", info.GPUs.Reason)
		}
		return nil
	})
	const name = "nvidia-smi"
	if _, err := exec.LookPath(name); err != nil {
		c.skip(name, "it is not installed")
		return
	}
	facts := "name,driver_version,compute_cap,memory.total,memory.used,utilization.gpu,clocks.max.sm,clocks.max.memory,power.limit,ecc.mode.current,mig.mode.current"
	c.run(ctx, job{name: name, limit: time.Minute, command: []string{name, "--query-gpu=" + facts, "--format=csv"}}, func(s *step, stdout []byte) error {
		s.Result = strings.Split(strings.TrimSpace(string(stdout)), "\n")
		return nil
	})
}

// test runs one test of a binary in a process of its own on the GPU: what a failing kernel
// does to a context stays there.
func (c *check) test(ctx context.Context, name, binary, pattern string, limit time.Duration) (*step, []byte) {
	return c.run(ctx, job{
		name: name, limit: limit, env: []string{"PRIVGRAD_GPU=1"},
		// A test that hangs says where, before the limit does.
		command: []string{
			filepath.Join(c.bundle, binary), "-test.v", "-test.run=" + pattern, "-test.timeout=" + (min(limit, c.limit) * 9 / 10).String(),
		},
	}, ran)
}

var skips = regexp.MustCompile(`(?m)^--- SKIP: .*\n(.*)`)

// ran tells a test that passed from one that was skipped, or is not there.
func ran(_ *step, stdout []byte) error {
	if m := skips.FindSubmatch(stdout); m != nil {
		return notRun(strings.TrimSpace(string(m[1])))
	}
	if !bytes.Contains(stdout, []byte("--- PASS: ")) {
		return errors.New("no such test")
	}
	return nil
}

func (c *check) driver(ctx context.Context) {
	c.test(ctx, "driver", "cudrv.test", "^TestGPU$", 2*time.Minute)
}

func (c *check) kernels(ctx context.Context) {
	const binary = "kernels.test"
	out, err := exec.CommandContext(ctx, filepath.Join(c.bundle, binary), "-test.list=.").Output()
	tests := strings.Fields(string(out))
	if err != nil || len(tests) == 0 {
		c.add(&step{Name: "kernels", Status: failed, Reason: fmt.Sprintf("%s lists no tests: %v", binary, err)}, nil)
		return
	}
	for _, t := range tests {
		c.test(ctx, "kernels/"+t, binary, "^"+t+"$", 3*time.Minute)
	}
}

var failedSubtest = regexp.MustCompile(`(?m)^    --- FAIL: TestConformance/(\S+)`)

// conformance runs the suite of all devices, and what fails once more alone, since
// a failed kernel can take with it what follows.
func (c *check) conformance(ctx context.Context) {
	c.test(ctx, "conformance/precisions", "cuda.test", "^TestLongPrecisions$", 15*time.Minute)
	s, out := c.test(ctx, "conformance", "cuda.test", "^TestConformance$", 15*time.Minute)
	if s.Status != failed || strings.Contains(s.Reason, "no GPU") {
		return
	}
	for _, m := range failedSubtest.FindAllSubmatch(out, -1) {
		name := string(m[1])
		c.test(ctx, "conformance/"+name+" alone", "cuda.test", "^TestConformance$/^"+regexp.QuoteMeta(name)+"$", 5*time.Minute)
	}
}

// agreement bounds ‖a−b‖/‖b‖ of parameters trained on the GPU and on the CPU. The devices do not
// draw the same noise quite: its deviation covers each one's own Rounding, which here is 3e-3 of it on the CPU
// and less on the GPU. The CPU and the float64 reference, which has none, come out 2.2e-3 apart.
// TestLongTrainsLikeTheCPU compares the same deviation, to 1e-5.
const agreement = 1e-2

func (c *check) train(ctx context.Context) {
	for _, t := range []string{"TestLongTrainsLikeTheCPU", "TestRunsDoNotWait"} {
		c.test(ctx, "train/"+t, "cuda.test", "^"+t+"$", 2*time.Minute)
	}
	models := map[string]string{}
	for _, r := range []struct{ name, device string }{{"cuda", "cuda"}, {"cuda again", "cuda"}, {"cpu", "cpu"}} {
		dir := filepath.Join(c.scratch, strings.ReplaceAll(r.name, " ", "-"))
		s, _ := c.run(ctx, job{
			name: "train/" + r.name, limit: 10 * time.Minute,
			command: c.privgrad("train", "--device", r.device, "--model", "cnn-mnist", "--steps", "60", "--batch", "256",
				"--noise", "seeded", "--noise-multiplier", "1", "--seed", "1", "--json", "--progress", "off", "--out", dir),
		}, object)
		if s.Status == passed {
			models[r.name] = filepath.Join(dir, "model.safetensors")
		}
	}
	c.compare("train/same bits", models["cuda"], models["cuda again"], func(a, b []safetensors.Tensor, s *step) error {
		var sums []string
		for _, name := range []string{"cuda", "cuda again"} {
			file, err := os.ReadFile(models[name])
			if err != nil {
				return err
			}
			sum := sha256.Sum256(file)
			sums = append(sums, hex.EncodeToString(sum[:]))
		}
		s.Result = map[string]any{"model_sha256": sums}
		if sums[0] == sums[1] {
			return nil
		}
		for i := range a {
			for j, x := range a[i].Data {
				if math.Float32bits(x) != math.Float32bits(b[i].Data[j]) {
					return fmt.Errorf("two runs of one seed differ, first in value %d of %s: %v and %v", j, a[i].Name, x, b[i].Data[j])
				}
			}
		}
		return errors.New("two runs of one seed differ, though not in the parameters")
	})
	c.compare("train/like the CPU", models["cuda"], models["cpu"], near)
}

// compare is a step on two models of equal layout.
func (c *check) compare(name, a, b string, judge func(a, b []safetensors.Tensor, s *step) error) {
	if a == "" || b == "" {
		c.skip(name, "a run that it compares failed")
		return
	}
	s, began := &step{Name: name, Status: passed}, time.Now()
	err := func() error {
		x, err := model(a)
		if err != nil {
			return err
		}
		y, err := model(b)
		if err != nil {
			return err
		}
		same := func(p, q safetensors.Tensor) bool { return p.Name == q.Name && len(p.Data) == len(q.Data) }
		if !slices.EqualFunc(x, y, same) {
			return errors.New("the models have different tensors")
		}
		return judge(x, y, s)
	}()
	if err != nil {
		s.Status, s.Reason = failed, err.Error()
	}
	s.Seconds = time.Since(began).Seconds()
	c.add(s, nil)
}

func model(name string) ([]safetensors.Tensor, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tensors, _, err := safetensors.Read(f, 1<<30)
	return tensors, err
}

// near compares the parameters of a GPU's run with the CPU's.
func near(gpu, cpu []safetensors.Tensor, s *step) error {
	var difference, size, most float64
	var where string
	for i := range gpu {
		for j, x := range gpu[i].Data {
			y := cpu[i].Data[j]
			d := float64(x) - float64(y)
			difference += d * d
			size += float64(y) * float64(y)
			if !(math.Abs(d) <= most) { // NaN, too
				most, where = math.Abs(d), fmt.Sprintf("value %d of %s: %v on the GPU, %v on the CPU", j, gpu[i].Name, x, y)
			}
		}
	}
	relative := math.Sqrt(difference / size)
	if !(relative <= agreement) {
		return fmt.Errorf("parameters differ by %.3g of their norm, at most %v is allowed; most in %s", relative, agreement, where)
	}
	s.Result = map[string]any{"relative_difference": relative, "tolerance": agreement, "largest": where}
	return nil
}

// sanitizer watches some of the kernels with shared memory: a product, a convolution, a trunk, factors, noise, a learned rule.
func (c *check) sanitizer(ctx context.Context) {
	const name = "compute-sanitizer"
	program, err := exec.LookPath(name)
	if err != nil {
		found, _ := filepath.Glob("/usr/local/cuda*/bin/" + name)
		if len(found) == 0 {
			c.skip("sanitizer", name+" is not installed")
			return
		}
		program = found[0]
	}
	for _, tool := range []string{"memcheck", "racecheck"} {
		for _, t := range []string{"TestDenseForwardAndInputGrad", "TestConvSum", "TestTrunk", "TestFactors", "TestRelease", "TestOpenDraws", "TestProject"} {
			c.run(ctx, job{
				name: "sanitizer/" + tool + " " + t, limit: 5 * time.Minute, env: []string{"PRIVGRAD_GPU=bare"},
				command: []string{
					program, "--tool", tool, "--error-exitcode", "9",
					filepath.Join(c.bundle, "kernels.test"), "-test.v", "-test.run=^" + t + "$",
				},
			}, ran)
		}
	}
}

// workload is what a measurement is of.
type workload struct {
	model string
	batch int
}

// measured are those of all measurements.
var measured = []workload{{"mlp-mnist", 300}, {"cnn-mnist", 300}, {"mnist-tf", 300}, {"cifar-small", 250}, {"cifar-paper", 250}}

// timing is a command that measures a workload on the GPU.
func (c *check) timing(what string, of workload, seconds float64, more ...string) []string {
	args := append([]string{"bench", what, "--device", "cuda", "--model", of.model, "--batch", strconv.Itoa(of.batch)}, more...)
	return c.privgrad(append(args, "--seconds", strconv.FormatFloat(seconds, 'g', -1, 64), "--json")...)
}

// gemm compares the project's products with cuBLAS, where that is installed.
func (c *check) gemm(ctx context.Context) {
	c.test(ctx, "gemm/conformance", "cuda.test", "^TestLongCuBLASConformance$", 15*time.Minute)
	for _, m := range measured {
		command := c.timing("gemm", m, min(c.seconds, 1))
		c.run(ctx, job{name: "gemm/" + m.model, limit: 5*time.Minute + 30*c.duration(), command: command}, compared)
	}
}

// compared keeps a comparison, and says so where there is none to be made.
func compared(s *step, stdout []byte) error {
	if err := object(s, stdout); err != nil {
		return err
	}
	var r struct {
		Version  *string `json:"cublas_version"`
		Reason   string  `json:"cublas_reason"`
		Products []struct {
			Layer, Product string
			Difference     *float64 `json:"largest_difference"`
		}
	}
	if err := json.Unmarshal(stdout, &r); err != nil {
		return err
	}
	if r.Version == nil {
		return notRun(r.Reason)
	}
	for _, p := range r.Products {
		if p.Difference == nil || !(*p.Difference <= likeOwn) {
			return fmt.Errorf("the %s of %s by cuBLAS is not that of the project's kernels: see largest_difference", p.Product, p.Layer)
		}
	}
	return nil
}

// likeOwn bounds the difference of two float32 sums of normal numbers in units of the largest:
// of K terms it is about 2⁻²⁴ times the root of K, and K is at most 4096 here. TF32 would give 10⁻³.
const likeOwn = 1e-4

func (c *check) bench(ctx context.Context) {
	for _, m := range measured {
		for _, mode := range []string{"private", "plain"} {
			for _, precision := range []string{"float32", "tf32"} {
				name := "bench/" + m.model + " " + mode
				if precision != "float32" {
					name += " " + precision
				}
				command := c.timing("step", m, c.seconds, "--mode", mode, "--precision", precision)
				c.run(ctx, job{name: name, limit: 2*time.Minute + c.duration(), command: command}, object)
			}
		}
		command := c.timing("l2p", m, c.seconds)
		c.run(ctx, job{name: "bench/" + m.model + " l2p", limit: 2*time.Minute + 2*c.duration(), command: command}, object)
	}
}

func (c *check) duration() time.Duration { return time.Duration(c.seconds * float64(time.Second)) }

// hasPeers exits with 0 where Python has a peer that can use the GPU.
const hasPeers = `
def torch():
    import torch
    return torch.cuda.is_available() and f"torch {torch.__version__} for CUDA {torch.version.cuda}"
def jax():
    import jax
    return any(d.platform == "gpu" for d in jax.devices()) and f"jax {jax.__version__}"
found = []
for peer in torch, jax:
    try:
        found.append(peer())
    except Exception:
        pass
print(", ".join(f for f in found if f))
`

func (c *check) peers(ctx context.Context) {
	if ctx.Err() != nil {
		c.skip("peers", "interrupted before it")
		return
	}
	python, err := exec.LookPath(c.python)
	if err == nil {
		python, err = filepath.Abs(python) // commands run elsewhere
	}
	if err != nil {
		c.skip("peers", err.Error())
		return
	}
	probe, stop := context.WithTimeout(ctx, 3*time.Minute)
	defer stop()
	out, err := exec.CommandContext(probe, python, "-c", hasPeers).Output()
	if found := strings.TrimSpace(string(out)); err != nil || found == "" {
		c.skip("peers", fmt.Sprintf("%s has neither PyTorch nor JAX that sees a GPU (%v)", python, err))
		return
	}
	for _, m := range measured {
		// A peer takes up to a minute to start and compile.
		each := time.Minute + 2*c.duration()
		c.run(ctx, job{
			name: "peers/" + m.model, limit: time.Duration(16*c.rounds) * each,
			command: c.privgrad("bench", "compare", "--device", "cuda", "--models", m.model, "--rounds", strconv.Itoa(c.rounds),
				"--seconds", strconv.FormatFloat(c.seconds, 'g', -1, 64), "--python", python, "--progress", "off", "--json"),
		}, object)
	}
}
