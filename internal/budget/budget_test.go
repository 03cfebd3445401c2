package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

const record = "one record"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create writes a budget.
func create(t *testing.T, epsilon, delta, order float64) string {
	t.Helper()
	f, err := New("fmnist", "add-remove", record, epsilon, delta, order)
	must(t, err)
	path := filepath.Join(t.TempDir(), "b.json")
	must(t, Create(path, f))
	return path
}

func read(t *testing.T, path string) *File {
	t.Helper()
	f, err := Read(path)
	must(t, err)
	return f
}

// gaussian is the bill of one Gaussian release of all records, whose divergence at order α is α/(2z²).
func gaussian(z float64) *Bill {
	return &Bill{Data: "fmnist", Neighbouring: "add-remove", Unit: record, Epsilon: 100, Delta: 1e-5, Settings: "s",
		Events: []accountant.Event{{Mechanisms: []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: z}}, Count: 1}}}
}

// plain is the bill of a run of which only ε and δ are known.
func plain(epsilon, delta float64) *Bill {
	return &Bill{Data: "fmnist", Neighbouring: "add-remove", Unit: record, Epsilon: epsilon, Delta: delta, Settings: "s"}
}

func charge(path string, b *Bill, run string) error {
	return change(path, func(f *File) error {
		_, err := f.pay(path, b, func(e *Entry) { e.Run = run })
		return err
	})
}

// What 100 random budgets have spent is what an integration in 30 digits gives or a little more: up to 1e-9 of it. It is never
// more than dp-accounting says.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	must(t, err)
	var cases []struct {
		Delta, Order, Divergence, Epsilon, Library float64
		Runs                                       []struct {
			Rate, Noise, Epsilon, Delta float64
			Steps                       int
		}
	}
	must(t, json.Unmarshal(text, &cases))
	if len(cases) != 100 {
		t.Fatalf("%d cases", len(cases))
	}
	worst := 0.0
	for i, c := range cases {
		f, err := New("fmnist", "add-remove", record, 1e9, c.Delta, c.Order)
		must(t, err)
		for _, r := range c.Runs {
			b := plain(r.Epsilon, r.Delta)
			if r.Steps > 0 {
				b = gaussian(r.Noise)
				b.Events[0].Count = r.Steps
				if r.Rate < 1 {
					b.Events[0].Sampling, b.Events[0].Rate = accountant.Poisson, r.Rate
				}
			}
			_, err := f.pay("b", b, func(*Entry) {})
			must(t, err)
		}
		got := f.Spent()
		gap := (got.Epsilon - c.Epsilon) / (c.Epsilon + c.Divergence)
		if worst = max(worst, gap); got.Epsilon < c.Epsilon || gap > 1e-9 || got.Divergence < c.Divergence || got.Divergence > c.Library*(1+1e-9) {
			t.Errorf("case %d: spent %v and %v, want %v and %v or a little more", i, got.Epsilon, got.Divergence, c.Epsilon, c.Divergence)
		}
	}
	t.Logf("the largest gap is %.2g", worst)
}

// Sums are of the decimals that people write, and reach the limit.
func TestSums(t *testing.T) {
	path := create(t, 0.3, 6e-6, 0)
	for range 3 {
		must(t, charge(path, plain(0.1, 1e-6), "r"))
	}
	if got := read(t, path).Spent(); got.Epsilon != 0.3 || got.Delta != 3e-6 {
		t.Errorf("three runs have spent %v", got)
	}
	before, err := os.ReadFile(path)
	must(t, err)
	for _, b := range []*Bill{plain(1e-9, 0), plain(0, 1e-12), gaussian(1000)} {
		if err := charge(path, b, "r"); !errors.Is(err, accountant.ErrBudget) {
			t.Errorf("a fourth run: %v", err)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("a refused run changed the file")
	}
}

// The conversion is paid for with the first divergence; without one, only the runs' own ε count.
func TestKinds(t *testing.T) {
	path := create(t, 3, 1e-5, 8)
	must(t, charge(path, plain(0.5, 0), "a"))
	if got := read(t, path).Spent().Epsilon; got != 0.5 {
		t.Errorf("spent %v", got)
	}
	must(t, charge(path, gaussian(5), "b"))
	want := 0.5 + 8/50. + math.Log(7./8) - math.Log(8*5e-6)/7 // Balle et al. 2020, theorem 21
	if got := read(t, path).Spent().Epsilon; got < want || got > want*(1+1e-9) {
		t.Errorf("spent %v, want %v", got, want)
	}
	f := read(t, path)
	cost, err := f.pay(path, &Bill{Data: "fmnist", Neighbouring: "add-remove", Unit: record, Epsilon: 0.25, Delta: 4e-6, Events: gaussian(0.1).Events}, func(*Entry) {})
	if err != nil || cost.Divergence != nil || *cost.Epsilon != 0.25 {
		t.Errorf("a run whose divergence does not fit pays %v, %v", cost, err)
	}
	for what, b := range map[string]*Bill{
		"data set":      {Data: "mnist", Neighbouring: "add-remove", Unit: record},
		"neighbouring":  {Data: "fmnist", Neighbouring: "replace-one", Unit: record},
		"privacy unit":  {Data: "fmnist", Neighbouring: "add-remove", Unit: "one user"},
		"its own ε = 9": nil,
	} {
		if b == nil {
			continue
		}
		if err, of := charge(path, b, "c"), new(usage.Error); !errors.As(err, &of) || !strings.Contains(err.Error(), what) {
			t.Errorf("another %s: %v", what, err)
		}
	}
}

// A flipped bit and a cut are found, wherever they are.
func TestDamaged(t *testing.T) {
	path := create(t, 3, 1e-5, 0)
	for i := range 3 {
		must(t, charge(path, gaussian(10), fmt.Sprint("run ", i)))
	}
	text, err := os.ReadFile(path)
	must(t, err)
	damaged := func(what string, b []byte) {
		t.Helper()
		if _, err := parse(path, b); err == nil || !strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "has form") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for at := range text {
		for bit := range 8 {
			b := append([]byte{}, text...)
			b[at] ^= 1 << bit
			damaged(fmt.Sprintf("bit %d of byte %d", bit, at), b)
		}
		damaged(fmt.Sprintf("cut at %d", at), text[:at])
	}
	damaged("twice", append(append([]byte{}, text...), text...))

	for _, b := range [][]byte{text[:len(text)-1], {}} {
		must(t, os.WriteFile(path, b, 0o644))
		if err, of := charge(path, gaussian(10), "x"), new(usage.Error); !errors.As(err, &of) {
			t.Errorf("paying from a damaged file: %v", err)
		}
		if got, _ := os.ReadFile(path); string(got) != string(b) {
			t.Error("a damaged file was changed")
		}
	}
	must(t, os.WriteFile(path, text, 0o644))
	must(t, charge(path, gaussian(10), "x"))
}

// An older copy lacks the entry of a receipt, and goes on with others in its place.
func TestLostEntry(t *testing.T) {
	path, dir := create(t, 3, 1e-5, 0), rundir.Dir(t.TempDir())
	must(t, charge(path, gaussian(10), "one"))
	old, err := os.ReadFile(path)
	must(t, err)
	must(t, charge(path, gaussian(10), "two"))
	f := read(t, path)
	r := &Receipt{Budget: f.ID, Entry: 2, Digest: f.Digest, Run: "two", cost: &Cost{}}
	must(t, r.Keep(dir))
	if err := f.CheckRun(path, dir); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"an older copy", "one that went on"} {
		must(t, os.WriteFile(path, old, 0o644))
		if step == "one that went on" {
			must(t, charge(path, gaussian(10), "two"))
			must(t, charge(path, gaussian(10), "three"))
			// "two" paid again in the same second is the same entry, as good as the lost one
			f := read(t, path)
			f.Entries[1].Name = "other"
			f.Entries, f.Digest = f.Entries[:1], f.Entries[1].Before
			must(t, f.add(Entry{Run: "other", Divergence: new(0.1)}))
			must(t, write(path, f))
		}
		if err := read(t, path).CheckRun(path, dir); err == nil || !strings.Contains(err.Error(), "has lost entry 2") {
			t.Errorf("%s: %v", step, err)
		}
	}
	other := create(t, 3, 1e-5, 0)
	if err := read(t, other).CheckRun(other, dir); err == nil || !strings.Contains(err.Error(), "another budget") {
		t.Errorf("another file: %v", err)
	}
}

// Goroutines of one process keep each other out, too, and none is lost.
func TestTogether(t *testing.T) {
	path := create(t, 1000, 1e-5, 8)
	var all sync.WaitGroup
	const routines, each = 8, 12
	for i := range routines {
		all.Go(func() {
			for j := range each {
				if err := charge(path, gaussian(10), fmt.Sprint(i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := len(read(t, path).Entries); got != routines*each {
		t.Errorf("%d entries, want %d", got, routines*each)
	}
}

func TestLock(t *testing.T) {
	path := create(t, 3, 1e-5, 0)
	must(t, locked(path, time.Second, func() error {
		err := locked(path, 20*time.Millisecond, func() error { return nil })
		if err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a second lock: %v", err)
		}
		// One that is removed keeps nobody out of the next.
		must(t, os.Remove(path+lockSuffix))
		return locked(path, time.Second, func() error { return nil })
	}))
}

func TestCreate(t *testing.T) {
	path := create(t, 3, 1e-5, 0)
	f, err := New("fmnist", "add-remove", record, 3, 1e-5, 0)
	must(t, err)
	if err := Create(path, f); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over another: %v", err)
	}
	for _, c := range []struct {
		relation              string
		epsilon, delta, order float64
	}{{"add-remove", 0, 1e-5, 0}, {"add-remove", 3, 0, 0}, {"add-remove", 3, 1, 0}, {"none", 3, 1e-5, 0}, {"add-remove", 3, 1e-5, 1}, {"add-remove", 0.1, 1e-5, 2}, {"add-remove", math.NaN(), 1e-5, 0}} {
		if _, err := New("fmnist", c.relation, record, c.epsilon, c.delta, c.order); err == nil {
			t.Errorf("%+v is a budget", c)
		}
	}
	// The chosen order leaves most for Gaussian releases: no other of the list does better.
	order := accountant.GaussianOrder(3, 5e-6)
	paid := func(a float64) float64 { return (3 - accountant.Converted(0, a, 5e-6)) / a }
	for a := 1.1; a < 60; a += 0.1 {
		if paid(a) > paid(order)*(1+1e-3) {
			t.Errorf("order %v pays for %v, %v for %v", order, paid(order), a, paid(a))
		}
	}
}
