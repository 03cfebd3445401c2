package cli

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/train"
)

// NotPrivate is what the progress bar says beside an ε that is none.
func NotPrivate(c train.Config) string {
	switch {
	case c.Noise == "seeded":
		return "NOT PRIVATE: seeded noise"
	case accountant.NoGuarantee(c.Accountant) != "", c.Search.Batches == string(accountant.PaperBatches):
		return "NO GUARANTEE"
	}
	return ""
}
