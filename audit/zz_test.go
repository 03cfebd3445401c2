package audit

import (
	"testing"
)

func TestZZ(t *testing.T) {
	for _, name := range []string{"noisy-gd", "pur-a", "pur-b", "pur-c", "pur-constant", "bassily-sgd", "outpert-gd", "outpert-rsgd", "objpert", "privgene"} {
		for _, r := range []string{"add-remove", "replace-one"} {
			t.Run(name+r, func(t *testing.T) {
				c := Default()
				c.Optimizer, c.Runs, c.Neighbouring, c.Accountant = name, 4000, r, ""
				verdictOn(t, c, stages[name], nil)
			})
		}
	}
}
