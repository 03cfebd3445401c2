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

// A Tally counts paired comparisons whose 95 % interval leaves 0 out.
type Tally struct{ Above, Below, Total int }

// Add takes another; one without figures does not count.
func (t *Tally) Add(d Estimate) {
	if d.N == 0 {
		return
	}
	t.Total++
	switch h := d.Half(); {
	case d.Mean-h > 0:
		t.Above++
	case d.Mean+h < 0:
		t.Below++
	}
}

func (t Tally) String() string {
	if t.Total == 0 {
		return "no comparison"
	}
	return fmt.Sprintf("better at %d, worse at %d, undecided at %d of %d", t.Above, t.Below, t.Total-t.Above-t.Below, t.Total)
}

// Mostly is the verdict on "better in most cases".
func (t Tally) Mostly() string {
	switch {
	case t.Total == 0:
		return Unmeasured
	case 2*t.Above > t.Total:
		return Agrees
	case 2*t.Below > t.Total:
		return Contradicts
	}
	return Undecided
}

// Claim judges "better in most cases".
func (t Tally) Claim(claim string) Claim { return Claim{claim, t.String(), t.Mostly()} }
