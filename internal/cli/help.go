package cli

import (
	"strings"

	"github.com/privgrad/privgrad/perexample"
)

// GEMMHelp says what --gemm takes.
const GEMMHelp = "who multiplies the matrices of dense layers: own, or cublas on a GPU where NVIDIA's library is installed, whose bits are not promised"

// PrecisionHelp says what --precision takes.
const PrecisionHelp = "what factors of matrix products are rounded to: float32 (not at all), tf32 (11 digits) or bf16 (8), for the tensor cores of --device cuda; " +
	"the guarantee holds in each, at batch 1024 for 0.3 % and 0.8 % more noise"

// StrategyHelp lists what --strategy takes.
var StrategyHelp = func() string {
	var names []string
	for _, s := range perexample.Strategies() {
		names = append(names, string(s))
	}
	return "per-example clipping by: " + strings.Join(names, ", ") + "; conv1=gram after a comma sets one layer's (store, ghost, gram, recompute)"
}()
