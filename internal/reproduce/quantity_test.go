package reproduce

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A series without ε is a flat line that begins at the first ε; a budget that pays for no
// step is told as that.
func TestAgainst(t *testing.T) {
	rs := Records{
		{Panel: "p", Series: "a", X: 0.1, Final: true, Note: "the budget does not pay for a single step"},
		{Panel: "p", Series: "a", X: 0.2, Final: true, TestAccuracy: new(0.5)},
		{Panel: "p", Series: "flat", X: 0, Final: true, TestAccuracy: new(0.75)},
		{Panel: "other", Series: "a", X: 0.2, Final: true, TestAccuracy: new(0.9)},
	}
	c, got := rs.Against("p", rs.Series("p"), []float64{0.1, 0.2}, TestAccuracy)
	want := Table{
		Head: []string{"method", "ε = 0.1", "ε = 0.2"},
		Rows: [][]string{{"a", "no step", "50.00"}, {"flat", "75.00", "75.00"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	lines := []Line{
		{Name: "a", X: []float64{0.2}, Y: []float64{50}, Low: []float64{50}, High: []float64{50}},
		{Name: "flat", X: []float64{0.1}, Y: []float64{75}, Low: []float64{75}, High: []float64{75}, Flat: true},
	}
	if d := cmp.Diff(lines, c.Lines); d != "" {
		t.Error(d)
	}
}

func TestCompare(t *testing.T) {
	var rs Records
	for seed := range 9 {
		for series, loss := range map[string]float64{"a": 1, "b": 2} {
			rs = append(rs, Record{Panel: "p", Series: series, X: 0.1, Seed: seed, Final: true, TrainLoss: new(loss + 0.01*float64(seed%3)*loss)})
		}
	}
	if got := rs.Compare([]string{"p", "none"}, []float64{0.1, 0.2}, "a", "b", Lower(Objective)); !cmp.Equal(got, Tally{Above: 1, Total: 1}) {
		t.Errorf("a is lower than b everywhere, and the tally is %+v", got)
	}
}
