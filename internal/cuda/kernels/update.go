package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
)

const updateThreads = 256

// Update applies a rule (device.Rule) to n parameters p with gradient g, all
// float32, with the run's scalars, by the same operations as the CPU device:
//
//	d = fma(Scale, g, L2·p)
//	SGD:       p = fma(−Rate, d, p)
//	HeavyBall: m = fma(Momentum, m, d);  p = fma(−Rate, m, p)
//	Adam:      m = fma(Beta1, m, (1−Beta1)·d);  v = fma(Beta2, v, (1−Beta2)·d²)
//	           p −= (Rate/Bias1)·m / (√max(v/Bias2 − Variance, Floor) + Epsilon)
//	AdamW:     d = Scale·g;  p = fma(−Rate·L2, p, p);  then as Adam
//	Average:   p = fma(Blend, g − p, p), or g where Blend is 1
//
// v/Bias2 being v times the rounded 1/Bias2. state holds as many vectors as the
// rule has states, m and then v. g is only read.
func Update(run Ptr, rule device.Rule, n int, p, g Ptr, state ...Ptr) (Launch, error) {
	if err := rule.Check(len(state)); err != nil {
		return Launch{}, err
	}
	names := map[device.Rule]string{device.SGD: "sgd", device.HeavyBall: "heavy_ball", device.Adam: "adam", device.AdamW: "adam_w", device.Average: "average"}
	name, ok := names[rule]
	if !ok {
		return Launch{}, fmt.Errorf("update rule %s has no kernel", rule)
	}
	return line("update", name, ceil(n, updateThreads), updateThreads, append([]uint64{run, I(n), p, g}, state...)...), nil
}
