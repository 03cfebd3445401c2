package erm

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
	"github.com/privgrad/privgrad/train"
)

func TestRoundsPage(t *testing.T) {
	o := reproducetest.Tiny(t)
	o.Seeds = 2
	o.Sources["fmnist"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) {
		set := reproducetest.Images(600)
		set.PublicN = 60000 // of which the runs take the first 1,000 places
		return set, nil
	}}
	s := reproducetest.Run(t, rounds, o)
	records := reproducetest.CheckOutputs(t, rounds, s, reproduce.QuickLabel)
	if s.Runs != 3*o.Seeds || len(s.Claims) != 5 {
		t.Errorf("%d runs, claims %+v", s.Runs, s.Claims)
	}
	for _, r := range records {
		if r.GradientNorm == nil || r.TrainLoss == nil || r.Series == atStart && math.Abs(*r.TrainLoss-0.6*math.Log(10)) > 1e-9 {
			t.Errorf("a record is %+v", r) // 600 of the 1,000 places have a record
		}
	}
}

// The gradient is that of the objective, by difference quotients along random directions.
func TestObjective(t *testing.T) {
	set := reproducetest.Images(60)
	n, err := roundNetwork(3)
	if err != nil {
		t.Fatal(err)
	}
	w := n.Params()
	_, g := objective(&set.Train, w)
	for _, i := range []int{0, 5000, inputs*hidden - 1, inputs * hidden, inputs*hidden + hidden - 1, inputs*hidden + hidden, len(w) - classes - 1, len(w) - classes, len(w) - 1} {
		const step = 1.0 / 1024
		at := w[i]
		w[i] = at + step
		above, _ := objective(&set.Train, w)
		up := float64(w[i])
		w[i] = at - step
		below, _ := objective(&set.Train, w)
		slope := (above - below) / (up - float64(w[i]))
		if w[i] = at; math.Abs(slope-g[i]) > 1e-6 {
			t.Errorf("derivative %d is %v, the difference quotient %v", i, g[i], slope)
		}
	}
}

// What a step size tells of the noise, and the theorem's bound by its own formula.
func TestTheorem(t *testing.T) {
	const z, d = 5.98, 15910 // noise over L
	sigma := math.Sqrt(4 + d*z*z)
	eta := math.Sqrt(2*math.Log(10)) / (sigma * 1000)
	got := theorem(eta, 1e6)
	sum, squares := 0.0, 0.0
	for range 1000000 {
		sum += 2*eta - eta*eta
		squares += eta * eta
	}
	want := (2*math.Log(10) + sigma*sigma*squares) / sum
	if math.Abs(got.noise/(z/2)-1) > 1e-6 || math.Abs(got.bound/want-1) > 1e-6 {
		t.Errorf("got %+v, want a noise of %v and a bound of %v", got, z/2, want)
	}
}
