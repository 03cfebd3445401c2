package kernels

import "github.com/privgrad/privgrad/internal/device"

// Update applies a rule (device.Rule) to n parameters p with gradient g, all
// float32, with the run's scalars, by the same operations as the CPU device:
//
//	d = fma(Scale, g, L2·p)
//	SGD:       p = fma(−Rate, d, p)
//	HeavyBall: m = fma(Momentum, m, d);  p = fma(−Rate, m, p)
//	Adam:      m = fma(Beta1, m, (1−Beta1)·d);  v = fma(Beta2, v, (1−Beta2)·d²)
//	           p −= (Rate/Bias1)·m / (√(v/Bias2) + Epsilon)
//
// v/Bias2 being v times the rounded 1/Bias2. m is the first state, v the
// second; a rule without them takes 0. g is only read.
func Update(run Ptr, rule device.Rule, n int, p, g, m, v Ptr) Launch {
	return Launch{
		Module: "update", Name: [...]string{"sgd", "heavy_ball", "adam"}[rule], Grid: line(blocks(n, 256)), Block: line(256),
		Args: []uint64{run, I(n), p, g, m, v},
	}
}
