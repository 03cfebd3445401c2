package accountant

import "strconv"

// A Guarantee is what a run promises of every record that it was trained on, or why it promises nothing. A run's plan
// makes it, and all that is said of a run's privacy is read off it. Its JSON form is a part of result.json.
type Guarantee struct {
	Epsilon      *float64 `json:"epsilon"`        // of the committed schedule
	Risk         *Risk    `json:"risk"`           // what epsilon means for attacks; null without a guarantee
	EpsilonSoFar *float64 `json:"epsilon_so_far"` // of the steps charged; no guarantee if the stop depended on results
	Delta        *float64 `json:"delta"`          // null where no record's influence is bounded and hidden
	Accountant   *string  `json:"accountant"`
	Neighbouring *string  `json:"neighbouring"`
	PrivacyUnit  string   `json:"privacy_unit"`
	Guarantee    bool     `json:"guarantee"`
	NoGuarantee  []string `json:"not_a_guarantee_because"`
	Assumptions  []string `json:"assumptions"`

	Asked *float64 `json:"-"` // ε that the noise was computed for; nil: none
}

// Deny adds a reason why it is none.
func (g *Guarantee) Deny(why string) { g.Guarantee, g.NoGuarantee = false, append(g.NoGuarantee, why) }

// OneUser is a privacy unit: all records of one user. Other units are one record.
const OneUser = "one user"

// Noun is what the unit is one of.
func (g *Guarantee) Noun() string {
	if g.PrivacyUnit == OneUser {
		return "user"
	}
	return "record"
}

// Private says whether the optimizer bounds and hides a record's influence.
func (g *Guarantee) Private() bool { return g.Delta != nil }

// Pure says whether there is no δ in it.
func (g *Guarantee) Pure() bool { return g.Accountant != nil && *g.Accountant == Pure{}.Name() }

// closely is how far below the ε that was asked for a calibration may end, to be told of as that ε.
const closely = 1e-2

// Bound is the ε that was asked for, where the noise that was computed for it comes to that or to a little less;
// else the computed one.
func (g *Guarantee) Bound() *float64 {
	if a := g.Asked; a != nil && *g.Epsilon <= *a && *g.Epsilon >= *a*(1-closely) {
		return a
	}
	return g.Epsilon
}

// Stated is Bound for a person, with the computed ε beside it where number writes it otherwise.
func (g *Guarantee) Stated(number func(float64) string) string {
	bound, beside := number(*g.Bound()), number(*g.Epsilon)
	if bound == beside {
		return bound
	}
	return bound + " (computed: " + beside + ")"
}

// Facts are those of a model's file, which says nothing of an ε that is no guarantee.
func (g *Guarantee) Facts() map[string]string {
	facts := map[string]string{"guarantee": strconv.FormatBool(g.Guarantee), "epsilon": "", "delta": "", "accountant": "", "neighbouring": ""}
	if g.Guarantee {
		number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
		facts["epsilon"], facts["delta"], facts["accountant"], facts["neighbouring"] = number(*g.Epsilon), number(*g.Delta), *g.Accountant, *g.Neighbouring
	}
	return facts
}
