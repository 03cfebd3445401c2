package train_test

import (
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// The transcript tests compare what reports make of a run, too.
func init() { train.AttachReport = report.Attach }
