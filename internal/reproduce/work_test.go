package reproduce

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/train"
)

// four is a table of four records.
func four() *datasets.Set {
	split := datasets.Split{Shape: [3]int{1, 1, 2}, Unit: true, Values: []float32{1, 0, 0, 1, 1, 1, 0, 0}, Labels: []uint8{0, 1, 0, 1}}
	return &datasets.Set{Name: "four", Classes: 2, PublicN: 4, PerClass: []int{2, 2}, Train: split, Test: split, TestIsPublic: true}
}

// comparison is a figure of two lines on two panels; what is open on "open" is settled by so many seeds.
func comparison(settled int) Figure {
	return Figure{
		Name: "f", Short: "f", Source: "f", Seeds: 2, Most: 5,
		Plan: func(e *Env) (jobs []Job, _ error) {
			for seed := 1; seed <= e.Seeds; seed++ {
				for _, panel := range []string{"open", "closed"} {
					for _, series := range []string{"a", "b", "other"} {
						c := train.Default()
						c.Data, c.Model, c.Optimizer, c.SamplingRate, c.Steps, c.LR = "four", "logistic", "sgd", new(1.0), new(1), new(0.5)
						c.Seed = uint64(seed)
						j := Job{Config: c}
						j.Panel, j.Series, j.Seed = panel, series, seed
						jobs = append(jobs, j)
					}
				}
			}
			return jobs, nil
		},
		Show: func(_ *Env, rs Records) Page {
			c := Claim{Claim: "c", Found: "f", Verdict: Agrees}
			if len(rs.Last("open", "a", 0, Objective)) < settled {
				c.Verdict, c.Open = Undecided, []Cell{{"open", "a", 0}, {"open", "b", 0}}
			}
			return Page{Claims: []Claim{c}}
		},
	}
}

func TestSeedsUntilSettled(t *testing.T) {
	sources := map[string]train.Source{"four": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return four(), nil }}}
	for _, c := range []struct {
		settled, seeds, a, runs int
		verdict, text           string
	}{
		{2, 0, 2, 12, Agrees, "seeds: 2."},
		{3, 0, 4, 16, Agrees, "seeds: 2 to 4."},
		{9, 0, 5, 18, Undecided, "seeds: 2 to 5."},
		{9, 1, 1, 6, Undecided, "seeds: 1."}, // a number that was asked for
	} {
		t.Run(fmt.Sprint(c.settled, c.seeds), func(t *testing.T) {
			f := comparison(c.settled)
			o := Options{Out: t.TempDir(), Seeds: c.seeds, Threads: 2, Sources: sources}
			for again := range 2 {
				s, err := f.Run(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				rs, err := ReadRecords(s.CSV)
				if err != nil {
					t.Fatal(err)
				}
				page, err := os.ReadFile(s.Markdown)
				if err != nil {
					t.Fatal(err)
				}
				open, first := len(rs.Last("open", "b", 0, Objective)), max(c.seeds, 2)
				if c.seeds > 0 {
					first = c.seeds
				}
				for _, cell := range []Cell{{"open", "other", 0}, {"closed", "a", 0}, {"closed", "other", 0}} {
					if n := len(rs.Last(cell.Panel, cell.Series, 0, Objective)); n != first {
						t.Errorf("%v has %d seeds, want %d", cell, n, first)
					}
				}
				if open != c.a || s.Runs != c.runs || s.MostSeeds != c.a || s.Claims[0].Verdict != c.verdict {
					t.Errorf("%d seeds, %d runs, at most %d seeds, %s; want %d, %d, %[5]d, %[7]s", open, s.Runs, s.MostSeeds, s.Claims[0].Verdict, c.a, c.runs, c.verdict)
				}
				if !strings.Contains(string(page), c.text) {
					t.Errorf("the page does not say %q", c.text)
				}
				if want := c.runs * (1 - again); s.RunsNow != want {
					t.Errorf("started %d times: %d runs now, want %d", again+1, s.RunsNow, want)
				}
			}
		})
	}
}

// A comparison is open until the half-width of its interval is at most half the effect.
func TestOpen(t *testing.T) {
	// By hand: mean 2, standard deviation 1, t quantile with 2 degrees of freedom 4.302653.
	d := Mean(map[int]float64{1: 1, 2: 2, 3: 3})
	half := 4.302653 / 1.7320508
	for _, c := range []struct {
		effect float64
		want   bool
	}{{2 * half * 1.001, false}, {2 * half * 0.999, true}, {-2 * half * 1.001, false}, {0, true}} {
		if got := d.Open(c.effect); got != c.want {
			t.Errorf("effect %v: open %t", c.effect, got)
		}
	}
	if Mean(nil).Open(0) || !Mean(map[int]float64{1: 5}).Open(0) || Mean(map[int]float64{1: 5, 2: 5.01}).Open(0) {
		t.Error("none, one, or two that agree")
	}
	var rs Records
	for seed := range 9 {
		for series, loss := range map[string]float64{"a": 1, "b": 1.0001} {
			rs = append(rs, Record{Panel: "p", Series: series, X: 0.1, Seed: seed, Final: true, TrainLoss: new(loss)})
		}
	}
	rs[0].TrainLoss = new(3.0) // one that is far off
	got := rs.Compare([]string{"p", "none"}, []float64{0.1}, "a", "b", Objective).Claim("").Open
	if d := cmp.Diff([]Cell{{"p", "a", 0.1}, {"p", "b", 0.1}}, got); d != "" {
		t.Error(d)
	}
}
