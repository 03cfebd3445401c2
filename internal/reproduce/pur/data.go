package pur

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

// A task is data of section 4 of the paper.
type task struct {
	panel string
	most  int // steps of a schedule at most
	slow  int // those of constant noise, where records are many; such a task is left out of quick figures
	label string
	// open reads the records; nil without an error where they are not there, which is said.
	open func(e *reproduce.Env) (*table, error)
	// published has table 3's two columns, the paper's schedule and the best constant, by ε.
	published map[float64][2]float64
}

// The tasks of table 3, in its order.
var (
	synthetic = &task{panel: "Synthetic", most: 300, open: openSynthetic, published: map[float64][2]float64{0.1: {0.5090, 0.5307}, 20: {0.5087, 0.5087}}}
	mnist     = &task{panel: "MNIST, 0 against the rest", most: 200, slow: 20, open: openMNIST, published: map[float64][2]float64{0.1: {1.0058, 0.9449}, 20: {0.6510, 0.5822}}}
	iris      = &task{
		panel: "Iris", most: 500, published: map[float64][2]float64{0.1: {0.6465, 0.6809}, 20: {0.2778, 0.2782}},
		open: func(e *reproduce.Env) (*table, error) { return openTable(e, "Iris", "iris.csv", "setosa") },
	}
	cancer = &task{
		panel: "Breast cancer", most: 500, published: map[float64][2]float64{0.1: {1.1656, 0.8651}, 20: {0.2399, 0.2437}},
		open: func(e *reproduce.Env) (*table, error) {
			return openTable(e, "Breast cancer", "breast_cancer.csv", "malignant")
		},
	}
	kdd = &task{
		panel: "KDD stand-in (synthetic)", label: kddLabel, most: 200, slow: 50, open: openKDD, published: map[float64][2]float64{0.1: {0.5864, 0.5914}, 20: {0.5401, 0.5402}},
	}
	cifar = &task{panel: "CIFAR-10, airplane against the rest, ScatterNet", label: cifarLabel, most: 100, slow: 25, open: openCIFAR}
)

const (
	kddLabel   = "KDD is a SYNTHETIC STAND-IN of the published size and share of anomalies: its figures say nothing of KDD Cup '99"
	cifarLabel = "CIFAR-10 is its first file alone, a fifth of the training images"
)

// opened keeps the tables of this process, by task and directory: they are read once for all figures.
var opened sync.Map

// table gives the records, and makes them a data set that train knows by the name.
func (t *task) table(e *reproduce.Env) (*table, string, error) {
	type open = func() (*table, error)
	once, _ := opened.LoadOrStore(t.panel+"\x00"+e.DataDir, open(sync.OnceValues(func() (*table, error) { return t.open(e) })))
	rows, err := once.(open)()
	if rows == nil {
		return nil, "", err
	}
	name := fmt.Sprintf("%s, standardized, %d records", t.panel, len(rows.y))
	if _, ok := e.Sources[name]; !ok {
		e.Sources[name] = rows.source(name)
	}
	if t.label != "" {
		e.Label(t.label)
	}
	return rows, name, nil
}

// openSynthetic draws 10⁴ records of section 4: normal with covariances 1 and variances 2, and
// labels by the sign of their sum, one in ten of them wrong.
func openSynthetic(*reproduce.Env) (*table, error) {
	const n, flipped = 10_000, 0.1
	r := rand.New(rand.NewPCG(3, 1))
	x, y := make([]float32, 0, 2*n), make([]uint8, n)
	for i := range n {
		shared := r.NormFloat64()
		a, b := shared+r.NormFloat64(), shared+r.NormFloat64()
		x = append(x, float32(a), float32(b))
		if (a+b > 0) != (r.Float64() < flipped) {
			y[i] = 1
		}
	}
	return newTable(x, y), nil
}

// openKDD makes 70,000 records of four columns, 3 in 1,000 of them anomalies: heavy tails, as of
// durations and bytes, that are larger in an anomaly.
func openKDD(*reproduce.Env) (*table, error) {
	const n, anomalies = 70_000, 0.003
	r := rand.New(rand.NewPCG(99, 1))
	x, y := make([]float32, 0, 4*n), make([]uint8, n)
	for i := range n {
		shift := 0.0
		if r.Float64() < anomalies {
			y[i], shift = 1, 2
		}
		for range 4 {
			x = append(x, float32(math.Exp(1.5*r.NormFloat64()+shift)))
		}
	}
	return newTable(x, y), nil
}

func openTable(e *reproduce.Env, panel, file, positive string) (*table, error) {
	path := e.Find("tabular", file)
	if path == "" {
		e.Skip("%s is left out: put %s (or %[2]s.gz), in scikit-learn's form, into a directory and name that by --data-dir", panel, file)
		return nil, nil
	}
	set, err := tabular.Open(path, tabular.Options{})
	if err != nil {
		return nil, err
	}
	class, err := set.Class(positive)
	if err != nil {
		return nil, err
	}
	var y []uint8
	for _, l := range append(set.Train.Labels, set.Test.Labels...) {
		y = append(y, against(l, class))
	}
	return newTable(append(set.Train.Values, set.Test.Values...), y), nil
}

// against is 1 for a class and 0 for the rest.
func against(label uint8, class int) uint8 {
	if int(label) == class {
		return 1
	}
	return 0
}

// images reads the training images of a published set.
func images(e *reproduce.Env, name string, class int) (m datasets.Split, y []uint8, err error) {
	var c train.Config
	if !e.Images(&c, name) {
		return m, nil, nil
	}
	set, err := e.Sources[name].Open(c.DataDir)
	if err != nil {
		return m, nil, err
	}
	for _, l := range set.Train.Labels {
		y = append(y, against(l, class))
	}
	return set.Train, y, nil
}

func openMNIST(e *reproduce.Env) (*table, error) {
	m, y, err := images(e, "mnist", 0)
	if y == nil {
		return nil, err
	}
	x := make([]float32, len(m.Features))
	for i, b := range m.Features {
		x[i] = float32(b)
	}
	return newTable(x, y), nil
}

// cifarRecords are those of the first file.
const cifarRecords = 10_000

func openCIFAR(e *reproduce.Env) (*table, error) {
	const airplane = 0
	m, y, err := images(e, "cifar10", airplane)
	if y == nil {
		return nil, err
	}
	n := min(len(y), e.Steps(cifarRecords))
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: m.Shape}, nil)
	if err != nil {
		return nil, err
	}
	size := m.Shape[0] * m.Shape[1] * m.Shape[2]
	rows := front.Rows(features.Images{Bytes: m.Features[:n*size]}, e.Threads, nil)
	x := make([]float32, len(rows))
	for i, h := range rows {
		x[i] = half.ToFloat32(h)
	}
	return newTable(x, y[:n]), nil
}
