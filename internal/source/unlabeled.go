package source

import (
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/datasets"
)

// Unusable says which records of a public test split are of no class or have no number, and which are damaged otherwise.
func Unusable(set *datasets.Set) (all []string) {
	var left, out, counted []string
	for i := range set.Test.Len() {
		what, known := set.TestFaults[i]
		switch bad := noTarget(set, i); {
		case bad && known:
			out = append(out, what)
		case bad:
			left = append(left, fmt.Sprintf("record %d", i))
		case known:
			counted = append(counted, what)
		}
	}
	say := func(records []string, what string) {
		if n := len(records); n > 0 {
			const shown = 5
			if n > shown {
				records = append(records[:shown:shown], fmt.Sprintf("and %d more", n-shown))
			}
			all = append(all, fmt.Sprintf("%d of %d public test records %s: %s", n, set.Test.Len(), what, strings.Join(records, "; ")))
		}
	}
	say(out, "cannot be used, and are left out of the accuracy")
	kinds := fmt.Sprintf("have a label that is none of the %d classes", set.Classes)
	if set.Classes == 0 {
		kinds = "have no number for a label"
	}
	say(left, kinds+", and are left out of the accuracy (labels of arrays, and these records, are numbered from 0; labels of tables are listed in the schema)")
	say(counted, "are damaged, and count as they are")
	return all
}

// noTarget says whether a test record has nothing to predict.
func noTarget(set *datasets.Set, i int) bool {
	if set.Test.Targets != nil {
		return math.IsNaN(float64(set.Test.Targets[i]))
	}
	return set.Classes > 0 && int(set.Test.Labels[i]) >= set.Classes
}
