package ir

// Clipping says how an example's factors follow from its norms. C is the run's
// clip norm; each bounds an example's share of the sum by C in the L2 norm, so
// that adding or removing a record moves the sum by at most C, and replacing
// one by at most 2C.
type Clipping uint8

const (
	// Unclipped: every factor is 1. Nothing bounds an example's influence.
	Unclipped Clipping = iota
	// Flat: min(1, C/‖g‖) over all parameters together (Abadi et al. 2016,
	// algorithm 1).
	Flat
	// PerLayer: min(1, C_l/‖g_l‖) for each of L layers by itself, a layer being
	// one op's weight and bias together (McMahan et al. 2018, "Clipping
	// strategies for multi-layer models"). With C_l = C/√L for all of them the
	// whole share is at most √ΣC_l² = C.
	PerLayer
	// Automatic: C/(‖g‖+γ) with γ = AutomaticGamma over all parameters together
	// (Bu et al. 2023, "Automatic Clipping", algorithm 1). A share is below C
	// whatever the norm; small gradients are scaled up, a zero one stays zero.
	Automatic
)

// AutomaticGamma is γ of the automatic clipping, its authors' default.
const AutomaticGamma = 0.01

// clippings has a name for each, in their order.
var clippings = [...]string{"unclipped", "flat", "per-layer", "automatic"}

func (c Clipping) String() string { return clippings[c] }

// Groups says which ops' gradients are clipped together: of[i] is the group of
// op i, out of n. An example has one norm and one factor a group.
func (s *Schedule) Groups() (of []int, n int) {
	of = make([]int, len(s.Program.Ops))
	if s.Clipping != PerLayer {
		return of, 1
	}
	for i := range s.Program.Ops {
		if s.Program.Ops[i].Weight != None {
			of[i] = n
			n++
		}
	}
	return of, n
}
