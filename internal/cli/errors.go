package cli

import (
	"fmt"

	"github.com/privgrad/privgrad/train"
)

// A Figure has a name, behind "test", and a text that people read.
type Figure struct{ Name, Text string }

// Errors are those of a regression in words; none of other models.
func Errors(e train.Errors) (all []Figure) {
	for _, x := range []struct {
		name, format string
		value        *float64
	}{
		{"RMSE", "%.4g (root of the mean squared error, in the units of the label)", e.RMSE},
		{"MAE", "%.4g (mean absolute error, in the same units)", e.MAE},
		{"R²", "%.3f (1: no errors; 0 or less: no better than always predicting the mean)", e.R2},
	} {
		if x.value != nil {
			all = append(all, Figure{x.name, fmt.Sprintf(x.format, *x.value)})
		}
	}
	return all
}
