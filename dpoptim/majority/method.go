// Package majority is the baseline that always says the class that most records have,
// released by report noisy max.
package majority

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/usage"
)

const Name = "majority"

// Family lists the method.
var Family = dpoptim.Plain{
	Kind: dpoptim.Kind{Name: Name, About: "releases only the class of most records, to compare with"},
	Make: func() dpoptim.Method { return Method{} },
}

// Method makes one release of ε, and a model of a bias.
type Method struct{ dpoptim.NoSettings }

func (Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: Name, Private: true, Pure: true, Once: true}
}

// Check refuses the settings of a schedule and of a model, of which there are none.
func (Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	err := check(c)
	c.SamplingRate, c.Steps = new(1.0), new(1)
	c.Model = "logistic" // its bias alone
	return c, err
}

func check(c dpoptim.Settings) error {
	if err := c.CheckOnce(Name); err != nil {
		return err
	}
	switch {
	case c.Steps != nil && *c.Steps != 1:
		return usage.Errorf("steps %d: optimizer %s makes a single release; leave out --steps", *c.Steps, Name)
	case c.NoiseMultiplier != nil:
		return usage.Errorf("noise multiplier %v: optimizer majority adds no Gaussian noise; give --epsilon", *c.NoiseMultiplier)
	case c.Noise == dpoptim.Exact:
		return usage.Errorf("noise exact: optimizer majority sums no gradients; use --noise secure")
	case c.OwnNetwork || c.Model != "" && c.Model != "logistic":
		return usage.Errorf("model %s: optimizer majority needs none; leave out --model", c.Model)
	case c.L2 != 0:
		return usage.Errorf("l2 %v: optimizer majority fits no weights; leave out --l2", c.L2)
	}
	return nil
}

// Declare is the one release. Its noise is for adding or removing a record, whatever the
// relation in which ε is promised.
func (Method) Declare(c dpoptim.Settings, _ dpoptim.Facts) (dpoptim.Declaration, error) {
	epsilon := *c.Epsilon
	if c.Neighbouring == string(accountant.ReplaceOne) {
		epsilon /= 2
	}
	release := dpoptim.Release{Noise: accountant.Pure{Epsilon: epsilon}, Bound: 1}
	return dpoptim.Declaration{Asks: []dpoptim.Ask{{
		Question: dpoptim.Majority, Release: func(float64) (dpoptim.Release, error) { return release, nil },
	}}}, nil
}

func (Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) { return steps{e}, nil }

type steps struct{ engine dpoptim.Engine }

func (steps) State() []dpoptim.State { return nil }

// Step releases the class, as a model of a bias.
func (s steps) Step() (int, error) {
	class, err := s.engine.Majority()
	if err != nil {
		return 0, err
	}
	f := s.engine.Facts()
	params := make([]float32, f.Params)
	if f.Outputs > 1 {
		params[f.Bias+class] = 1
	} else {
		params[f.Bias] = 2*float32(class) - 1
	}
	return 1, s.engine.Write(s.engine.Params(), params)
}
