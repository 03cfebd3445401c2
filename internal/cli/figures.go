package cli

import (
	"fmt"

	"github.com/privgrad/privgrad/train"
)

// A Figure has a name, behind "test", and a text that people read.
type Figure struct{ Name, Text string }

// Figures are the errors of a regression in words, or how well two classes are told apart; none of other models.
func Figures(f train.Figures) (all []Figure) {
	for _, x := range []struct {
		name, format string
		value        *float64
	}{
		{"RMSE", "%.4g (root of the mean squared error, in the units of the label)", f.RMSE},
		{"MAE", "%.4g (mean absolute error, in the same units)", f.MAE},
		{"R²", "%.3f (1: no errors; 0 or less: no better than always predicting the mean)", f.R2},
		{"AUC", "%.3f (area under the ROC curve; 0.5: no better than chance)", f.AUC},
	} {
		if x.value != nil {
			all = append(all, Figure{x.name, fmt.Sprintf(x.format, *x.value)})
		}
	}
	if f.BalancedAccuracy != nil {
		all = append(all, Figure{"balanced accuracy", fmt.Sprintf("%.1f%% (mean of both classes; 50%%: no better than always one of them)", 100**f.BalancedAccuracy)})
	}
	return all
}
