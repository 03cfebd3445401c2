package reproduce

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

// The stand-in has the published size, width and share of attacks, and every figure of it says what it is.
func TestKDD(t *testing.T) {
	e := &Env{Options: Options{Sources: map[string]train.Source{}}}
	name := e.KDD()
	if !slices.Contains(e.Labels(), KDDLabel) || !strings.Contains(KDDLabel, "SYNTHETIC") || e.KDD() != name || len(e.Labels()) != 1 {
		t.Errorf("the labels are %q", e.Labels())
	}
	set, err := e.Sources[name].Open("")
	if err != nil {
		t.Fatal(err)
	}
	m := set.Train
	if m.Len() != 70_000 || m.Shape != [3]int{1, 1, 4} || set.PublicN != m.Len() || set.Note != KDDLabel || set.Test.Len() != 0 {
		t.Fatalf("%d records of %v, public %d", m.Len(), m.Shape, set.PublicN)
	}
	attacks, sum, squares := 0, [4]float64{}, [4]float64{}
	for i, l := range m.Labels {
		attacks += int(l)
		for j, x := range m.Values[4*i:][:4] {
			sum[j] += float64(x)
			squares[j] += float64(x) * float64(x)
		}
	}
	if attacks != 210 || set.PerClass[1] != attacks || set.PerClass[0]+attacks != m.Len() {
		t.Errorf("%d attacks, by class %v", attacks, set.PerClass)
	}
	for j := range sum {
		if n := float64(m.Len()); math.Abs(sum[j]/n) > 1e-6 || math.Abs(squares[j]/n-1) > 1e-5 {
			t.Errorf("column %d has mean %v and mean square %v", j, sum[j]/n, squares[j]/n)
		}
	}
}
