package erm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
)

// writeTables makes small files in the form of two published ones.
func writeTables(t *testing.T, dir string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	write := func(name, header string, line func() string) {
		text := header + "\n"
		for range 400 {
			text += line() + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wine := func() string {
		alcohol := 8 + 7*r.Float64()
		return fmt.Sprintf("7.4,0.7,0,1.9,0.076,11,34,0.9978,3.51,%.2f,%.2f,%.0f", r.Float64(), alcohol, alcohol-4)
	}
	for _, name := range []string{"winequality-red.csv", "winequality-white.csv"} {
		write(name, "fixed acidity,volatile acidity,citric acid,residual sugar,chlorides,free sulfur dioxide,total sulfur dioxide,density,pH,sulphates,alcohol,quality", wine)
	}
	var header []string
	for k := range 30 {
		header = append(header, fmt.Sprint("f", k))
	}
	write("breast_cancer.csv", "400,30,malignant,benign", func() string {
		class := r.IntN(2)
		var fields []string
		for range header {
			fields = append(fields, fmt.Sprintf("%.3f", 0.05*r.Float64()+0.05*float64(class)))
		}
		return strings.Join(append(fields, fmt.Sprint(class)), ",")
	})
}

func tiny(t *testing.T) reproduce.Options {
	t.Helper()
	o := reproducetest.Tiny(t)
	o.DataDir = t.TempDir()
	writeTables(t, o.DataDir)
	return o
}

func TestTable3(t *testing.T) {
	o := tiny(t)
	o.Seeds = 3
	s := reproducetest.Run(t, table3, o)
	records := reproducetest.CheckOutputs(t, table3, s, reproduce.QuickLabel)
	// Two μ, each with the optimum, zero, and five lines at four ε.
	if want := 2 * (2 + 4*5*o.Seeds); s.Runs != want {
		t.Errorf("%d runs, want %d", s.Runs, want)
	}
	for _, panel := range []string{"WINE, μ = 0", "WINE, μ = 0.5"} {
		least := records.Mean(panel, atOptimum, 0, reproduce.Objective).Mean
		for _, r := range records.Of(panel, paperForm) {
			if r.TrainLoss == nil || *r.TrainLoss < least || r.Delta == nil || *r.Delta != delta {
				t.Errorf("%s at ε = %v: objective %v below the least, %v", panel, r.X, r.TrainLoss, least)
			}
		}
	}
	page := reproducetest.Read(t, s.Markdown)
	for _, text := range []string{"| WINE, μ = 0.5 | 0.1 | 1.0842 | 8.29 |", "| BANK, μ = 0 | 11.3 | 6.44 | 5.16 | 4.09 |", "BANK is left out: put bank-full.csv"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	if n := len(records.Panels()); n != 2 {
		t.Errorf("%d panels: a file that is not there is no panel", n)
	}
}

// Full tables have the widths that sensitivities and plans take.
func TestBenchmarks(t *testing.T) {
	dir := os.Getenv("PRIVGRAD_DATA")
	found := 0
	for _, b := range benchmarks {
		e := &reproduce.Env{Options: reproduce.Options{DataDir: dir}}
		o := b.open(e)
		if o == nil {
			continue
		}
		found++
		table, err := o.read()
		if err != nil {
			t.Fatal(err)
		}
		if table.width != b.here || table.len() > b.records || table.len() < b.records-1 {
			t.Errorf("%s has %d records of %d features, want %d of %d", b.name, table.len(), table.width, b.records, b.here)
		}
	}
	if found == 0 {
		t.Skip("PRIVGRAD_DATA has none of the tables")
	}
}

// By hand, a dense table without its own arithmetic.
func TestGradients(t *testing.T) {
	const n, width, runs = 40, 5, 3
	r := rand.New(rand.NewPCG(3, 4))
	split := datasets.Split{Shape: [3]int{1, 1, width}}
	for range n {
		for j := range width {
			split.Values = append(split.Values, float32(r.NormFloat64()*float64((j+1)%3)))
		}
		split.Targets = append(split.Targets, float32(2*r.NormFloat64()))
	}
	for name, l := range map[string]loss{"logistic": logistic, "huber": huber} {
		table, err := newTable([]datasets.Split{split}, norm, l, 3)
		if err != nil {
			t.Fatal(err)
		}
		b := table.batch(runs)
		for k := range b.w {
			b.w[k] = r.NormFloat64()
		}
		value := make([]float64, runs)
		table.gradient(b, nil, value)
		for run := range runs {
			one := table.batch(1)
			for j := range one.w {
				one.w[j] = b.w[j*runs+run]
			}
			alone := make([]float64, 1)
			if table.gradient(one, nil, alone); math.Abs(alone[0]-value[run]) > 1e-12*alone[0] {
				t.Errorf("%s: one run has loss %v, among others %v", name, alone[0], value[run])
			}
			for j := range one.w {
				const h = 1e-5
				moved := func(by float64) float64 {
					w := slices.Clone(one.w)
					w[j] += by
					return total(split, w, l)
				}
				slope := (moved(h) - moved(-h)) / (2 * h)
				if math.Abs(slope-one.sum[j]) > 1e-6*(1+math.Abs(slope)) || math.Abs(b.sum[j*runs+run]-one.sum[j]) > 1e-12*(1+math.Abs(slope)) {
					t.Errorf("%s: derivative %d is %v alone and %v among others, by difference quotients %v", name, j, one.sum[j], b.sum[j*runs+run], slope)
				}
			}
		}
	}
}

// total is the sum of the losses of records of norm 1 at most, with an intercept.
func total(split datasets.Split, w []float64, l loss) (sum float64) {
	width := split.Shape[2]
	for i, target := range split.Targets {
		row := split.Values[i*width:][:width]
		square, score := 0.0, 0.0
		for j, x := range row {
			square += float64(x) * float64(x)
			score += w[j] * float64(x)
		}
		value, _ := l(score/math.Max(1, math.Sqrt(square))+w[width], 3*float64(target))
		sum += value
	}
	return sum
}

// The ratios of variances, by the closed form of both noises: for δ = 0.001 the exact condition of
// the Gaussian is solved once more, by bisection.
func TestRatios(t *testing.T) {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for place, mu := range []float64{0, 0.1} {
		got, err := ratios(mu)
		if err != nil {
			t.Fatal(err)
		}
		tight, loose := 2.0, 3.0
		if beta := 0.25 + mu; mu > 0 {
			tight, loose = 2/mu, 5*(mu+beta)/(mu*beta)
		}
		for k, epsilon := range epsilons {
			low, high := 1e-3, 1e3
			for range 200 {
				s := math.Sqrt(low * high)
				if phi(1/(2*s)-epsilon*s)-math.Exp(epsilon)*phi(-1/(2*s)-epsilon*s) > delta {
					low = s
				} else {
					high = s
				}
			}
			want := math.Pow(loose/tight*math.Sqrt(2*math.Log(2/delta))/epsilon/high, 2)
			if math.Abs(got[k]/want-1) > 1e-6 || math.Abs(got[k]/expected[place][k]-1) > 0.02 {
				t.Errorf("μ = %v, ε = %v: the variance shrinks by %v, by hand %v", mu, epsilon, got[k], want)
			}
		}
	}
}

// What noise adds to a linear model's loss is bounded without the dimension: this is what plans
// rest on. Over 2,000 draws the mean exceeds the bound by five standard errors with probability
// 3·10⁻⁷ at most, where the bound is attained; the seed is fixed.
func TestNoiseOnLinearModels(t *testing.T) {
	const dim, draws, sigma = 200, 2000, 0.7
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float64, dim)
	square := 0.0
	for j := range x {
		x[j] = r.NormFloat64()
		square += x[j] * x[j]
	}
	for name, c := range map[string]struct {
		loss  loss
		curve float64
	}{"logistic": {logistic, 0.25}, "huber": {huber, 1}} {
		before, _ := c.loss(0.1, 1)
		sum, squares := 0.0, 0.0
		for range draws {
			score := 0.1
			for _, v := range x {
				score += v / math.Sqrt(square) * sigma * r.NormFloat64()
			}
			f, _ := c.loss(score, 1)
			sum += f - before
			squares += (f - before) * (f - before)
		}
		mean := sum / draws
		err := math.Sqrt((squares/draws - mean*mean) / draws)
		if bound := c.curve / 2 * sigma * sigma; mean > bound+5*err {
			t.Errorf("%s: noise adds %v ± %v, the bound is %v", name, mean, err, bound)
		}
	}
}

func TestGuide(t *testing.T) {
	kept := lines
	t.Cleanup(func() { lines = kept })
	lines = slices.DeleteFunc(slices.Clone(kept), func(l line) bool {
		return !slices.Contains([]string{noisyGD, "outpert-gd", "majority", "without privacy (lbfgs)"}, l.name)
	})
	s := reproducetest.Run(t, convex, tiny(t))
	for _, r := range reproducetest.CheckOutputs(t, convex, s, reproduce.QuickLabel) {
		if r.TestAccuracy == nil || r.X > 0 && (r.Epsilon == nil || *r.Epsilon > r.X) {
			t.Errorf("%s at ε = %v: accuracy %v, ε %v", r.Series, r.X, r.TestAccuracy, r.Epsilon)
		}
	}
	if s.Runs != len(lines) {
		t.Errorf("%d runs, want %d", s.Runs, len(lines))
	}
}

// The guide repeats the table of its figure.
func TestGuideRepeatsItsTable(t *testing.T) {
	rows := func(path string) []string {
		text := reproducetest.Read(t, filepath.Join("..", "..", "..", "docs", path))
		_, text, _ = strings.Cut(text, "| data | ε |")
		table, _, _ := strings.Cut(text, "\n\n")
		return strings.Split(table, "\n")
	}
	made := rows("figures/convex.md")
	if len(made) < 5 {
		t.Fatalf("the figure's page has a table of %d lines", len(made))
	}
	if d := cmp.Diff(made, rows("guides/convex.md")); d != "" {
		t.Errorf("docs/guides/convex.md has another table than docs/figures/convex.md:\n%s", d)
	}
}
