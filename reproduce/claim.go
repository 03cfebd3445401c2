package reproduce

import "fmt"

// The verdicts on a claim.
const (
	Agrees      = "agrees"
	Contradicts = "contradicts"
	Undecided   = "undecided"
	Unmeasured  = "not measured"
)

// A Claim is what a paper says, in our words, beside what was found.
type Claim struct {
	Claim   string `json:"claim"`
	Found   string `json:"found"`
	Verdict string `json:"verdict"`
}

// Verdict is Unmeasured without figures, and Undecided where these neither show nor refute.
func Verdict(measured, shown, refuted bool) string {
	switch {
	case !measured:
		return Unmeasured
	case shown:
		return Agrees
	case refuted:
		return Contradicts
	}
	return Undecided
}

// A Tally counts paired comparisons whose 95 % interval leaves 0 out.
type Tally struct{ Above, Below, Total int }

// Add takes another; one without figures does not count.
func (t *Tally) Add(d Estimate) { t.add(d.N, d.Mean-d.Half(), d.Mean+d.Half()) }

// AddMedian takes another, as Add does.
func (t *Tally) AddMedian(m Interval) { t.add(m.N, m.Low, m.High) }

func (t *Tally) add(n int, low, high float64) {
	if n == 0 {
		return
	}
	t.Total++
	if low > 0 {
		t.Above++
	}
	if high < 0 {
		t.Below++
	}
}

func (t Tally) String() string {
	if t.Total == 0 {
		return "no comparison"
	}
	return fmt.Sprintf("better at %d, worse at %d, undecided at %d of %d", t.Above, t.Below, t.undecided(), t.Total)
}

func (t Tally) undecided() int { return t.Total - t.Above - t.Below }

// Claim judges "better in most cases".
func (t Tally) Claim(claim string) Claim {
	return Claim{claim, t.String(), Verdict(t.Total > 0, 2*t.Above > t.Total, 2*t.Below > t.Total)}
}

// NotWorse judges "about as good or better".
func (t Tally) NotWorse(claim string) Claim {
	return Claim{claim, t.String(), Verdict(t.Total > 0, t.Below == 0, 2*t.Below > t.Total)}
}

// Lower judges "lower at every one", of medians.
func (t Tally) Lower(claim string) Claim {
	found := fmt.Sprintf("median of the paired differences below 0 at %d, above 0 at %d, undecided at %d of %d", t.Below, t.Above, t.undecided(), t.Total)
	return Claim{claim, found, Verdict(t.Total > 0, t.Below == t.Total, t.Above > 0)}
}
