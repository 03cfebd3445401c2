package reproduce

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsSurviveTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	want := Records{
		{Panel: "A, \"b\"", Series: "ε\nx", X: 0.025, Seed: 3, Step: 7, Final: true, Epsilon: new(1.0 / 3), TestAccuracy: new(0.0), Batch: 300, NoGuarantee: "a; b", Settings: "00ff"},
		{},
	}
	if err := WriteRecords(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecords(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(path, []byte("a,b\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecords(path); err == nil {
		t.Error("another program's file was taken")
	}
}

// A file from before a column was added is read.
func TestOlderFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte("panel,seed,settings\np,3,ff\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRecords(path); err != nil || len(got) != 1 || got[0].Panel != "p" || got[0].Seed != 3 || got[0].Settings != "ff" {
		t.Errorf("read %+v: %v", got, err)
	}
}

func TestEstimates(t *testing.T) {
	// By hand: mean 2, standard deviation 1, t quantiles with 2 degrees of freedom
	// 4.302653 and 2.919986.
	d := Difference(map[int]float64{1: 5, 2: 7, 3: 9, 4: 100}, map[int]float64{1: 4, 2: 5, 3: 6})
	low, high := d.Bounds()
	for _, c := range []struct{ got, want float64 }{
		{d.Mean, 2}, {d.Half(), 4.302653 / math.Sqrt(3)}, {low, 2 - 2.919986/math.Sqrt(3)}, {high, 2 + 2.919986/math.Sqrt(3)},
	} {
		if math.Abs(c.got-c.want) > 1e-5 {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if one := Mean(map[int]float64{1: 2}); one.Mean != 2 || !math.IsInf(one.Half(), 1) {
		t.Errorf("of one ruN: %+v", one)
	}
	var count Tally
	count.Add(Estimate{Mean: 1, Err: 0.01, N: 9})
	count.Add(Estimate{Mean: -1, Err: 0.01, N: 9})
	count.Add(Estimate{Mean: 1, Err: math.Inf(1), N: 1})
	if !cmp.Equal(count, Tally{Above: 1, Below: 1, Total: 3}) || count.Claim("").Verdict != Undecided {
		t.Errorf("the tally is %+v", count)
	}
}

func TestMedianOf(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(i+1))
	}
	// Of 100 fair coins fewer than 40 show heads with 0.0176, fewer than 41 with 0.0284.
	if m := medianOf(values); m.Median != 50.5 || m.Low != 40 || m.High != 61 {
		t.Errorf("of 1 to 100: %+v", m)
	}
	// Of six all show tails with 1/64, of five with 1/32.
	if m := medianOf(values[:6]); m.Median != 3.5 || m.Low != 1 || m.High != 6 {
		t.Errorf("of six: %+v", m)
	}
	if m := medianOf(values[:5]); m.Median != 3 || !math.IsInf(m.Low, -1) || !math.IsInf(m.High, 1) {
		t.Errorf("of five: %+v", m)
	}
}

// What is undecided is not called as good.
func TestNotWorse(t *testing.T) {
	for _, test := range []struct {
		above, below, total int
		want                string
	}{{0, 0, 1, Undecided}, {0, 0, 0, Unmeasured}, {1, 0, 4, Agrees}, {3, 1, 4, Undecided}, {0, 2, 4, Undecided}, {1, 3, 4, Contradicts}} {
		if got := (Tally{Above: test.above, Below: test.below, Total: test.total}).NotWorse("").Verdict; got != test.want {
			t.Errorf("better at %d, worse at %d of %d: %s, want %s", test.above, test.below, test.total, got, test.want)
		}
	}
}
