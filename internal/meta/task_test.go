package meta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func families() map[string]Family {
	g := Gaussians{Width: 5, Train: 12, Judged: 300}
	return map[string]Family{
		"quadratics":         Quadratics{Records: 7},
		"quadratics, random": Quadratics{Records: 7, Random: true},
		"logistic":           Classifiers{Source: g, Model: Logistic, Penalty: 0.1},
		"svm":                Classifiers{Source: g, Model: SVM, Penalty: 0.1},
		"mlp":                Classifiers{Source: g, Model: MLP, Hidden: 3, Penalty: 0.1},
		"mlp, tanh":          Classifiers{Source: g, Model: MLP, Hidden: 3, Tanh: true},
	}
}

// The gradient of the loss against central differences.
func TestLoss(t *testing.T) {
	for name, f := range families() {
		task := f.Draw(rand.New(rand.NewPCG(1, 2)))
		params, grad := make([]float64, task.Params()), normals(rand.New(rand.NewPCG(9, 9)), task.Params(), 1)
		task.Start(rand.New(rand.NewPCG(3, 4)), params)
		for i := range params {
			params[i] += 0.1
		}
		if got, want := task.Loss(params, grad), task.Loss(params, nil); got != want {
			t.Errorf("%s: loss %v with its gradient, %v without", name, got, want)
		}
		for i := range params {
			near(t, fmt.Sprintf("%s %d", name, i), grad[i], difference(&params[i], 1e-6, func() float64 { return task.Loss(params, nil) }), 1e-7)
		}
	}
}

// A clipped sum against its definition: the gradients of single records, of which the
// unclipped ones add up to that of the loss of the training records.
func TestClippedSum(t *testing.T) {
	for name, f := range families() {
		task := f.Draw(rand.New(rand.NewPCG(1, 2)))
		n := task.Params()
		params := normals(rand.New(rand.NewPCG(3, 4)), n, 0.7)
		rows := []int{0, 1, 3, 6}
		for _, clip := range []float64{0.3, 1.2, 1e9} {
			want, got, single := make([]float64, n), make([]float64, n), make([]float64, n)
			shortened := 0
			for _, i := range rows {
				task.ClippedSum(params, []int{i}, math.MaxFloat64, single)
				norm := math.Sqrt(dot(single, single))
				axpy(min(1, clip/norm), single, want)
				if clip < norm {
					shortened++
				}
			}
			if clip == 0.3 && shortened == 0 || clip == 1e9 && shortened > 0 {
				t.Fatalf("%s: %d of 4 gradients are clipped to %v: the case tests nothing", name, shortened, clip)
			}
			task.ClippedSum(params, rows, clip, got)
			for i := range got {
				near(t, fmt.Sprintf("%s, clip %v, %d", name, clip, i), got[i], want[i], 1e-12)
			}
		}
		all, sum, grad := make([]int, task.Records()), make([]float64, n), make([]float64, n)
		for i := range all {
			all[i] = i
		}
		if c, ok := task.(*classifier); ok {
			c.judged = c.train
		}
		task.ClippedSum(params, all, math.MaxFloat64, sum)
		task.Loss(params, grad)
		for i := range sum {
			near(t, fmt.Sprintf("%s, all, %d", name, i), sum[i]/float64(len(all))+task.L2()*params[i], grad[i], 1e-12)
		}
	}
}

func TestImages(t *testing.T) {
	pixels, labels := []float64{
		0, 1, 2, 3, // class 7
		4, 4, 4, 8, // class 2
		9, 9, 9, 9, // class 5, which is not asked for
		1, 1, 1, 1, // class 7
		6, 6, 6, 6, // class 2
	}, []int{7, 2, 5, 7, 2}
	m, err := NewImages(pixels, labels, 2, 2, []int{2, 7}, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	ones := map[float64]bool{}
	for seed := range uint64(20) {
		train, judged := m.Draw(rand.New(rand.NewPCG(seed, 0)))
		if len(train.Labels) != 3 || len(judged.Labels) != 1 || train.Width != 1 {
			t.Fatalf("%d and %d records of width %d", len(train.Labels), len(judged.Labels), train.Width)
		}
		class, seen := map[int]map[bool]bool{0: {}, 1: {}}, map[float64]bool{}
		for i, v := range append(train.Features, judged.Features...) {
			l := append(train.Labels, judged.Labels...)[i]
			if v == 9 || seen[v] {
				t.Fatalf("image of mean %v is drawn twice, or is of a class that was not named", v)
			}
			seen[v] = true
			class[l][v > 3] = true
			if l == 1 {
				ones[v] = true
			}
		}
		if len(class[0]) != 1 || len(class[1]) != 1 {
			t.Fatalf("a label stands for two classes: %v", class)
		}
	}
	if len(ones) != 4 {
		t.Errorf("images of means %v are of label 1 in 20 tasks: both classes should be at times", ones)
	}
	for what, bad := range map[string]func() (*Images, error){
		"pixels":  func() (*Images, error) { return NewImages(pixels[1:], labels, 2, 2, []int{2, 7}, 3, 1) },
		"pool":    func() (*Images, error) { return NewImages(pixels, labels, 2, 3, []int{2, 7}, 3, 1) },
		"classes": func() (*Images, error) { return NewImages(pixels, labels, 2, 2, []int{2}, 3, 1) },
		"images":  func() (*Images, error) { return NewImages(pixels, labels, 2, 2, []int{2, 5}, 3, 1) },
		"sizes":   func() (*Images, error) { return NewImages(pixels, labels, 2, 2, []int{2, 7}, 0, 1) },
	} {
		if _, err := bad(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// A task has records of one table alone, none of them twice, with their own labels.
func TestTables(t *testing.T) {
	made := func(first float64) *Records {
		m := &Records{Width: 1}
		for i := range 8 {
			m.Features, m.Labels = append(m.Features, first+float64(i)), append(m.Labels, i%2)
		}
		return m
	}
	source, err := NewTables([]*Records{made(0), made(100)}, 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, drawn := rand.New(rand.NewPCG(1, 2)), map[bool]bool{}
	for range 20 {
		train, judged := source.Draw(r)
		if len(train.Labels) != 5 || len(judged.Labels) != 3 {
			t.Fatalf("%d records to train on and %d to judge by", len(train.Labels), len(judged.Labels))
		}
		second, seen := train.Features[0] >= 100, map[float64]bool{}
		drawn[second] = true
		for i, v := range append(train.Features, judged.Features...) {
			if label := append(train.Labels, judged.Labels...)[i]; seen[v] || (v >= 100) != second || int(v)%2 != label {
				t.Fatalf("record %v of label %d is drawn twice, or is of another table", v, label)
			}
			seen[v] = true
		}
	}
	if len(drawn) != 2 { // missed with a chance of 2⁻¹⁹, of a fixed seed
		t.Errorf("20 tasks are of %d of two tables", len(drawn))
	}
	for what, bad := range map[string]func() (*Tables, error){
		"none": func() (*Tables, error) { return NewTables(nil, 5, 3) },
		"records": func() (*Tables, error) {
			return NewTables([]*Records{{Width: 1, Features: []float64{1}, Labels: []int{1}}}, 5, 3)
		},
		"sizes": func() (*Tables, error) { return NewTables([]*Records{made(0)}, 0, 3) },
	} {
		if _, err := bad(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
