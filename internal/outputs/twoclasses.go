package outputs

import (
	"cmp"
	"slices"

	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// TwoClasses say how well two classes are told apart on public test records, also where one of them is rare. Both are nil of
// other networks, and where a class has no record.
type TwoClasses struct {
	// AUC is the area under the ROC curve: the share of all pairs of a record of either class in which that of the second
	// class has the higher score. Of equal scores, half counts.
	AUC *float64 `json:"test_auc"`
	// BalancedAccuracy is the mean of the shares of both classes that are taken for what they are.
	BalancedAccuracy *float64 `json:"test_balanced_accuracy"`
}

// twoClasses says whether a network tells two classes apart.
func twoClasses(p *ir.Program) bool {
	return p.Loss == ir.SoftmaxCrossEntropy && p.Outputs() == 2 || p.Loss != ir.SoftmaxCrossEntropy && p.Loss != ir.Huber
}

// Balanced is the balanced accuracy by a confusion matrix, true classes in rows; nil of other than two classes.
func Balanced(confusion [][]int) *float64 {
	if len(confusion) != 2 {
		return nil
	}
	sum := 0.0
	for class, row := range confusion {
		all := row[0] + row[1]
		if all == 0 {
			return nil
		}
		sum += float64(row[class]) / float64(all)
	}
	return finite(sum / 2)
}

// areaOf leaves out a record without a target, or with a value that is not finite.
func areaOf(n Network, t *host.Table, threads int) (*float64, error) {
	scores, err := n.each(t, threads, func(z []float64, _ float64) float64 {
		if len(z) == 2 {
			return z[1] - z[0]
		}
		return z[0]
	})
	if err != nil {
		return nil, err
	}
	var all []scored
	for i, score := range scores {
		if !t.Void(int32(i)) {
			all = append(all, scored{score, t.Targets[i] > 0}) // targets are −1 and 1, or 0 and 1
		}
	}
	return area(all), nil
}

// A scored record is of the second class or not.
type scored struct {
	score  float64
	second bool
}

// area is the one under the ROC curve. It counts half pairs in whole numbers, so that only the division rounds.
func area(all []scored) *float64 {
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	var firsts, seconds, halves int
	for from := 0; from < len(all); {
		to, equal := from, [2]int{} // records of one score, by class
		for ; to < len(all) && all[to].score == all[from].score; to++ {
			if all[to].second {
				equal[1]++
			} else {
				equal[0]++
			}
		}
		if to == from { // not a number: the network diverged
			return nil
		}
		halves += equal[1] * (2*firsts + equal[0])
		firsts, seconds, from = firsts+equal[0], seconds+equal[1], to
	}
	if firsts == 0 || seconds == 0 {
		return nil
	}
	return finite(float64(halves) / 2 / float64(firsts) / float64(seconds))
}
