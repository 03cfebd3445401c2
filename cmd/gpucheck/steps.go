package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/internal/safetensors"
)

// groups are the steps, in order, with their shares of the budget in percent. What a group leaves
// is the next one's. What says most about a GPU that nobody has measured comes first. Shares are by what the
// groups took on an H200, but for peers and sanitizer, which take as long as they get.
var groups = []struct {
	name  string
	share int
	run   func(*check, context.Context)
}{
	{"info", 5, (*check).info},
	{"kernels", 9, (*check).kernels},
	{"driver", 1, (*check).driver},
	{"train", 1, (*check).train},
	{"real", 10, (*check).real},
	{"bench", 23, (*check).bench},
	{"peers", 30, (*check).peers},
	{"conformance", 14, (*check).conformance},
	{"sanitizer", 5, (*check).sanitizer},
	{"gemm", 2, (*check).gemm},
}

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// ends are the times, from the start, at which the shares of groups end. Groups that are not chosen
// have none.
func ends(budget time.Duration, chosen func(name string) bool) map[string]time.Duration {
	all, until := 0, 0
	for _, g := range groups {
		if chosen(g.name) {
			all += g.share
		}
	}
	at := map[string]time.Duration{}
	for _, g := range groups {
		if chosen(g.name) {
			until += g.share
			at[g.name] = budget * time.Duration(until) / time.Duration(all)
		}
	}
	return at
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
	began := c.system.Now()
	c.report.Date, c.report.Budget, c.report.began = began.UTC().Format(time.RFC3339), c.budget.Seconds(), began
	chosen := func(name string) bool { return c.only == nil || slices.Contains(c.only, name) }
	until := ends(c.budget, chosen)
	for _, g := range groups {
		if !chosen(g.name) {
			continue
		}
		if c.budget > 0 {
			c.end = began.Add(until[g.name])
		}
		g.run(c, ctx)
	}
	c.report.Done = ctx.Err() == nil
	if err := c.write(); err != nil {
		return false, err
	}
	fmt.Printf("\n%d steps, %d failed: %s\n", len(c.report.Steps), c.failures(), filepath.Join(c.out, "gpu-check.md"))
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
				Devices []struct{ Name string }
				Reason  string
			}
		}
		if err := json.Unmarshal(stdout, &info); err != nil {
			return err
		}
		if len(info.GPUs.Devices) == 0 {
			return fmt.Errorf("no GPU here: %s", info.GPUs.Reason)
		}
		c.report.GPU = info.GPUs.Devices[0].Name
		return nil
	})
	const name = "nvidia-smi"
	if _, err := c.system.Find(name); err != nil {
		c.skip(name, "it is not installed")
		return
	}
	facts := "name,driver_version,compute_cap,memory.total,memory.used,utilization.gpu,clocks.max.sm,clocks.max.memory,power.limit,ecc.mode.current,mig.mode.current"
	c.run(ctx, job{name: name, limit: time.Minute, command: []string{name, "--query-gpu=" + facts, "--format=csv"}}, func(s *step, stdout []byte) error {
		s.Result = strings.Split(strings.TrimSpace(string(stdout)), "\n")
		return nil
	})
}

// test runs one test of a binary on the GPU.
func (c *check) test(ctx context.Context, name, binary, pattern string, limit time.Duration) (*step, []byte) {
	return c.run(ctx, c.testing(name, binary, pattern, limit), ran)
}

// testing is one test of a binary in a process of its own: what a failing kernel does to a context
// stays there.
func (c *check) testing(name, binary, pattern string, limit time.Duration) job {
	return job{
		name: name, limit: limit, needs: 5 * time.Second, env: []string{"PRIVGRAD_GPU=1"},
		// A test that hangs says where, before the limit does.
		command: []string{
			filepath.Join(c.bundle, binary), "-test.v", "-test.run=" + pattern, "-test.timeout=" + (min(limit, c.limit) * 9 / 10).String(),
		},
	}
}

var (
	skips           = regexp.MustCompile(`(?m)^--- SKIP: `)
	passedOrSkipped = regexp.MustCompile(`(?m)^--- (PASS|SKIP): `)
)

// ran tells a test that passed from one that was skipped, or is not there.
func ran(_ *step, stdout []byte) error {
	if skips.Match(stdout) {
		return notRun(complaint(stdout, "it skipped itself"))
	}
	if !bytes.Contains(stdout, []byte("--- PASS: ")) {
		return errors.New("no such test")
	}
	return nil
}

func (c *check) driver(ctx context.Context) {
	c.test(ctx, "driver", "cudrv.test", "^TestGPU$", time.Minute)
}

func (c *check) kernelTests(ctx context.Context) ([]string, error) {
	const binary = "kernels.test"
	out, err := c.ask(ctx, filepath.Join(c.bundle, binary), "-test.list=.")
	tests := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return strings.HasSuffix(name, "RealShapes") }) // on the simulated GPU alone
	if err != nil || len(tests) == 0 {
		return nil, fmt.Errorf("%s lists no tests: %v", binary, err)
	}
	return tests, nil
}

func (c *check) kernels(ctx context.Context) {
	tests, err := c.kernelTests(ctx)
	if err != nil {
		c.add(&step{Name: "kernels", Status: failed, Reason: err.Error()}, nil)
	}
	var jobs []job
	for _, form := range []string{"ptx", "cubin"} { // what ptxas makes and what a driver makes may differ
		for _, t := range tests {
			j := c.testing("kernels/"+t, "kernels.test", "^"+t+"$", time.Minute)
			if form != "ptx" {
				j.name += " " + form
			}
			j.env = append(j.env, "PRIVGRAD_IMAGES="+form)
			jobs = append(jobs, j)
		}
	}
	c.together(ctx, jobs, ran)
}

var failedSubtest = regexp.MustCompile(`(?m)^    --- FAIL: TestConformance/(\S+)`)

// conformance runs the suite of all devices, and what fails once more alone, since
// a failed kernel can take with it what follows.
func (c *check) conformance(ctx context.Context) {
	s, out := c.test(ctx, "conformance", "cuda.test", "^TestConformance$", 15*time.Minute)
	defer c.test(ctx, "conformance/precisions", "cuda.test", "^TestLongPrecisions$", 15*time.Minute)
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

// imagesFor writes images of random bytes as files of MNIST: the bundle has no data.
func imagesFor(dir string) error {
	const records, pixels, classes = 4096, 28 * 28, 10
	random := rand.New(rand.NewPCG(5, 6))
	images := binary.BigEndian.AppendUint32(nil, 0x803)
	labels := binary.BigEndian.AppendUint32(nil, 0x801)
	for _, n := range []uint32{records, 28, 28} {
		images = binary.BigEndian.AppendUint32(images, n)
	}
	labels = binary.BigEndian.AppendUint32(labels, records)
	for range records {
		labels = append(labels, byte(random.IntN(classes)))
		for range pixels {
			images = append(images, byte(random.Uint32()))
		}
	}
	err := os.Mkdir(dir, 0o755)
	for name, b := range map[string][]byte{"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": labels} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
	}
	return err
}

func (c *check) train(ctx context.Context) {
	data := filepath.Join(c.scratch, "images")
	if err := imagesFor(data); err != nil {
		c.add(&step{Name: "train", Status: failed, Reason: err.Error()}, nil)
		return
	}
	models := map[string]string{}
	for _, r := range []struct{ name, device string }{{"cuda", "cuda"}, {"cuda again", "cuda"}, {"cpu", "cpu"}} {
		dir := filepath.Join(c.scratch, strings.ReplaceAll(r.name, " ", "-"))
		s, _ := c.run(ctx, job{
			name: "train/" + r.name, limit: 2 * time.Minute, needs: 5 * time.Second,
			command: c.privgrad("train", "--device", r.device, "--data", "mnist", "--data-dir", data, "--public-n", "4096", "--delta", "1e-5",
				"--model", "cnn-mnist", "--steps", "60", "--batch", "256",
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
	for _, t := range []string{"TestLongTrainsLikeTheCPU", "TestRunsDoNotWait"} {
		c.test(ctx, "train/"+t, "cuda.test", "^"+t+"$", 2*time.Minute)
	}
}

// real compares sums of named networks at their size with the CPU's. The largest comes last: the CPU takes longest for it.
func (c *check) real(ctx context.Context) {
	for _, model := range []string{"cifar-small", "resnet-small", "cifar-paper", "wrn-16-4"} {
		j := c.testing("real/"+model, "cuda.test", "^TestRealSums$/^"+regexp.QuoteMeta(model)+"$", 5*time.Minute)
		c.run(ctx, j, func(s *step, stdout []byte) error {
			var figures []string
			for _, m := range realFigure.FindAllSubmatch(stdout, -1) {
				figures = append(figures, string(m[1]))
			}
			if figures != nil {
				s.Result = figures
			}
			return ran(s, stdout)
		})
	}
}

// realFigure is how TestRealSums says how far a sum is from the CPU's.
var realFigure = regexp.MustCompile(`(?m)^ *real_test\.go:\d+: (\S+ in \S+: \S+ of the sum of .*)$`)

// compare is a step on two models of equal layout.
func (c *check) compare(name, a, b string, judge func(a, b []safetensors.Tensor, s *step) error) {
	if a == "" || b == "" {
		c.skip(name, "a run that it compares has no result")
		return
	}
	s, began := &step{Name: name, Status: passed}, c.system.Now()
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
	s.Seconds = c.system.Now().Sub(began).Seconds()
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

// sanitizer watches every kernel: its tests, under each tool of compute-sanitizer.
func (c *check) sanitizer(ctx context.Context) {
	const name = "compute-sanitizer"
	program, err := c.system.Find(name)
	if err != nil {
		found, _ := filepath.Glob("/usr/local/cuda*/bin/" + name)
		if len(found) == 0 {
			c.skip("sanitizer", name+" is not installed")
			return
		}
		program = found[0]
	}
	tests, err := c.kernelTests(ctx)
	if err != nil {
		c.skip("sanitizer", err.Error())
		return
	}
	var jobs []job
	for _, tool := range []string{"memcheck", "racecheck", "initcheck", "synccheck"} {
		for _, t := range tests {
			jobs = append(jobs, job{
				name: "sanitizer/" + tool + " " + t, limit: 5 * time.Minute, needs: 10 * time.Second, env: []string{"PRIVGRAD_GPU=bare"},
				idle: "Target application terminated before first instrumented API call", // some tests need no GPU
				command: []string{
					program, "--tool", tool, "--error-exitcode", "9",
					filepath.Join(c.bundle, "kernels.test"), "-test.v", "-test.run=^" + t + "$",
				},
			})
		}
	}
	c.together(ctx, jobs, ran)
}

// timing is a command that measures a workload on the GPU.
func (c *check) timing(what string, of workload, seconds float64, more ...string) []string {
	args := append([]string{"bench", what, "--device", "cuda", "--model", of.model, "--batch", strconv.Itoa(of.batch)}, more...)
	return c.privgrad(append(args, "--seconds", strconv.FormatFloat(seconds, 'g', -1, 64), "--json")...)
}

// gemm compares the project's products with cuBLAS, where that is installed.
func (c *check) gemm(ctx context.Context) {
	for _, m := range measured {
		command := c.timing("gemm", m, min(c.seconds, 1))
		c.run(ctx, job{name: "gemm/" + m.model, limit: 5*time.Minute + 30*c.duration(), needs: 10 * time.Second, command: command}, compared)
	}
	c.test(ctx, "gemm/conformance", "cuda.test", "^TestLongCuBLASConformance$", 15*time.Minute)
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
