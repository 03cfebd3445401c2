package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/train"
)

// fakeVariable names a folder; with it the test binary stands in for the program, and notes there what it measured.
const (
	fakeVariable  = "PRIVGRAD_TEST_FAKE"
	brokenFake    = "PRIVGRAD_TEST_BROKEN"    // a model that fails
	differentFake = "PRIVGRAD_TEST_DIFFERENT" // a model of which another point is measured
	missingFake   = "PRIVGRAD_TEST_MISSING"   // "memory": that is not known
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeVariable); dir != "" {
		os.Exit(fake(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, what string, got float64, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// fake stands in for `bench scale --point`: a record takes 1 µs, and 4% more for each size beyond the first; the second
// round is three times as slow, the third twice.
func fake(dir string, args []string) int {
	var p Point
	if err := json.Unmarshal([]byte(args[slices.Index(args, "--point")+1]), &p); err != nil {
		return 7
	}
	if p.Model == os.Getenv(brokenFake) {
		fmt.Fprintln(os.Stderr, "out of memory")
		return 3
	}
	log := filepath.Join(dir, "calls")
	before, _ := os.ReadFile(log)
	call := fmt.Sprintf("%s %d %d\n", p.Model, p.Records, p.Batch)
	if err := os.WriteFile(log, append(before, call...), 0o600); err != nil {
		return 9
	}
	if p.Shards != "" {
		if _, err := os.Stat(filepath.Join(p.Shards, "index.json")); err != nil {
			return 6
		}
	}
	slower := []float64{1, 3, 2}[strings.Count(string(before), call)]
	seconds := 1e-6 * slower
	if p.Model == mlpModel && p.Records > 100 || p.Model != mlpModel && p.Batch > 10 {
		seconds *= 1.04
	}
	m := Measured{
		Point: p, Parameters: 5, RecordBytes: 6, Together: 7, Steps: 8, RecordSeconds: seconds, StepSeconds: seconds * float64(p.Batch), SamplerSeconds: 1e-3 * slower,
		TableBytes: 6 * int64(p.Records), PeakRSS: int64(slower * 1000), Beyond: new(int64(100 * slower)), Most: new(int64(1000 * slower)),
	}
	if os.Getenv(missingFake) != "" {
		m.Beyond, m.Most = nil, nil
	}
	if p.Model == os.Getenv(differentFake) {
		m.Point.Batch++
	}
	_ = json.NewEncoder(os.Stdout).Encode(m)
	return 0
}

func options(t *testing.T) Options {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	return Options{
		Model: "mlp-fmnist", Batches: []int{10, 40}, Records: []int{100, 1000}, Batch: 5, Threads: 1, Seconds: 0.1, Rounds: 3,
		Program: []string{self}, Progress: func(int, int, string) {},
	}
}

func TestTakesTurns(t *testing.T) {
	dir, tables := t.TempDir(), t.TempDir()
	t.Setenv(fakeVariable, dir)
	o := options(t)
	t.Setenv("TMPDIR", tables)
	o.Sweeps = []string{growBatch, growDisk}
	next := 0
	o.Progress = func(done, total int, what string) {
		if total != 12 || done != next && !strings.HasPrefix(what, "writing ") {
			t.Errorf("progress says %d of %d (%s) after %d measurements", done, total, what, next)
		}
		if !strings.HasPrefix(what, "writing ") {
			next++
		}
	}
	r, err := Run(context.Background(), o)
	check(t, err)
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	want := strings.Repeat("mlp-fmnist 40 10\nmlp-fmnist 40 40\n", 3) + strings.Repeat("mlp-100 100 5\nmlp-100 1000 5\n", 3)
	if string(calls) != want {
		t.Errorf("called\n%swant\n%s", calls, want)
	}
	if left, _ := os.ReadDir(tables); len(left) != 0 {
		t.Errorf("%v is left of the tables", left)
	}
	if len(r.Sweeps) != 2 || r.Sweeps[0].Table != inMemory || r.Sweeps[1].Table != onDisk {
		t.Fatalf("sweeps are %+v", r.Sweeps)
	}
	for _, s := range r.Sweeps {
		if s.Parameters != 5 || s.RecordBytes != 6 || len(s.Entries) != 2 {
			t.Errorf("%+v", s)
		}
		near(t, s.Sweep+": spread of the cost", 1+s.CostSpread, 1.04)
		near(t, s.Sweep+": spread of memory", 1+*s.MemorySpread, 1)
		for i, e := range s.Entries {
			what := fmt.Sprintf("%s, entry %d", s.Sweep, i)
			near(t, what+": over the first", e.OverFirst, []float64{1, 1.04}[i])
			near(t, what+": seconds per record", e.RecordSeconds, []float64{2e-6, 2.08e-6}[i])
			near(t, what+": seconds per step", e.StepSeconds, e.RecordSeconds*float64(e.Batch))
			near(t, what+": rate", e.Rate, float64(e.Batch)/float64(e.Records))
			if len(e.Rounds) != 3 || e.PeakRSS != 3000 || *e.Beyond != 200 || *e.Most != 2000 || e.TableBytes != 6*int64(e.Records) || e.Together != 7 {
				t.Errorf("%s: %+v", what, e)
			}
		}
	}
}

// Where the system does not say what memory a process takes, nothing is said of it.
func TestWithoutMemory(t *testing.T) {
	t.Setenv(fakeVariable, t.TempDir())
	t.Setenv(missingFake, "memory")
	o := options(t)
	o.Sweeps, o.Rounds = []string{growBatch}, 2
	r, err := Run(context.Background(), o)
	check(t, err)
	if s := r.Sweeps[0]; s.MemorySpread != nil || s.Entries[0].Beyond != nil {
		t.Errorf("%+v", s)
	}
}

func TestFails(t *testing.T) {
	for variable, want := range map[string]string{brokenFake: "mlp-100, batch 5 of 100 records: exit status 3: out of memory", differentFake: "it measured something else"} {
		t.Run(want, func(t *testing.T) {
			t.Setenv(fakeVariable, t.TempDir())
			t.Setenv(variable, mlpModel)
			if _, err := Run(context.Background(), options(t)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"rounds 0":             func(o *Options) { o.Rounds = 0 },
		"seconds 0":            func(o *Options) { o.Seconds = 0 },
		`unknown sweep "rows"`: func(o *Options) { o.Sweeps = []string{"rows"} },
		"named twice":          func(o *Options) { o.Sweeps = []string{growBatch, growBatch} },
		"no size to measure":   func(o *Options) { o.Records = nil },
		"batch 0":              func(o *Options) { o.Batches = []int{8, 0} },
		"batch 500":            func(o *Options) { o.Batch = 500 },
		"records 0":            func(o *Options) { o.Records = []int{0} },
		`"vgg"`:                func(o *Options) { o.Model = "vgg" },
		"threads 99999":        func(o *Options) { o.Threads = 99999 },
	} {
		o := options(t)
		change(&o)
		_, err := Run(context.Background(), o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A point makes steps on batches of about the size that is expected, from memory and from files, and counts the memory of both.
func TestMeasure(t *testing.T) {
	p := Point{Model: mlpModel, Records: 2000, Batch: 50, Threads: 1, Seconds: 0.02}
	stored := p
	stored.Shards = filepath.Join(t.TempDir(), "rows")
	check(t, stored.write(context.Background()))
	image := Point{Model: "mlp-fmnist", Records: 64, Batch: 64, Threads: 1, Seconds: 0.02}
	for _, c := range []struct {
		point      Point
		width      int
		table      int64
		parameters int
	}{
		{p, 100, 2000 * 105, 101*256 + 257*256 + 257*10},
		{stored, 100, 2000 * 5, 101*256 + 257*256 + 257*10},
		{image, 784, 64 * 789, 269322},
	} {
		m, err := Measure(c.point)
		check(t, err)
		set, err := c.point.open()
		check(t, err)
		if c.point.Shards != "" && !set.Train.Mapped { // which not every system does
			c.table += int64(c.width * c.point.Records)
		}
		if m.Point != c.point || m.RecordBytes != c.width || m.TableBytes != c.table || m.Parameters != c.parameters || m.Steps < leastTimed {
			t.Errorf("%+v: %+v", c.point, m)
		}
		if each := m.StepSeconds / m.RecordSeconds; !(m.SamplerSeconds > 0) || !(each > float64(c.point.Batch)/2) || !(each < float64(c.point.Batch)*2) {
			t.Errorf("%+v: %v records take %v s each, and a step %v s; its sampler takes %v s", c.point, each, m.RecordSeconds, m.StepSeconds, m.SamplerSeconds)
		}
		if runtime.GOOS == "linux" && (m.Beyond == nil || *m.Beyond < 1<<20 || *m.Most < *m.Beyond || m.PeakRSS < *m.Beyond) {
			t.Errorf("%+v: memory is %v, %v and %d", c.point, m.Beyond, m.Most, m.PeakRSS)
		}
	}
}

// However records are cut into blocks, and wherever they lie, they are the same.
func TestSyntheticRecords(t *testing.T) {
	const n = syntheticBlock + 100
	shape := [3]int{1, 1, 4}
	all := syntheticRecords(shape, 0, n)
	rest := syntheticRecords(shape, syntheticBlock, n)
	if !bytes.Equal(all.Features[4*syntheticBlock:], rest.Features) || !bytes.Equal(all.Labels[syntheticBlock:], rest.Labels) {
		t.Error("the second block differs")
	}
	if bytes.Equal(all.Features[:400], rest.Features[:400]) {
		t.Error("both blocks have the same records")
	}
	var seen [syntheticClasses]int
	for _, l := range all.Labels {
		seen[l]++
	}
	if slices.Min(seen[:]) < n/20 {
		t.Errorf("of each class there are %v", seen)
	}
	p := Point{Model: mlpModel, Records: n}
	memory, err := p.open()
	check(t, err)
	p.Shards = filepath.Join(t.TempDir(), "rows")
	check(t, p.write(context.Background()))
	disk, err := p.open()
	check(t, err)
	same := func(a, b datasets.Split) bool {
		return bytes.Equal(a.Features, b.Features) && bytes.Equal(a.Labels, b.Labels) && a.Shape == b.Shape
	}
	if !same(memory.Train, disk.Train) || memory.PublicN != n || disk.PublicN != n {
		t.Errorf("%d records in memory and %d on disk differ", memory.Train.Len(), disk.Train.Len())
	}
}
