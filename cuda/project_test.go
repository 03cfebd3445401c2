package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/cuda/driver/fake"
	"github.com/privgrad/privgrad/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/perexample"
)

// BenchmarkProject times a learned rule of the usual shape on the parameters of cnn-mnist and of cifar-paper. Bytes are what has to be
// read and written. An interpreter's time says nothing: it takes a GPU, and cmd/gpucheck runs it.
func BenchmarkProject(b *testing.B) {
	if !gputest.On() {
		b.Skip("there is no GPU")
	}
	l := device.LSTM{Layers: 2, Hidden: 20, Context: 3}
	for _, n := range []int{102550, 5851338} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := devicetest.NewBuilder("learner", plan.Huber, n-1)
			p.Dense(plan.Input, 1, true)
			net, err := open(b, fake.Options{}).Compile(private(b, p.Program(), perexample.Ghost), device.Options{Capacity: 1})
			must(b, err)
			gradient, err := net.NewVector(1)
			must(b, err)
			state, err := net.NewVector(l.States())
			must(b, err)
			weights, err := net.NewScalars(l.Weights())
			must(b, err)
			rnd := rand.New(rand.NewPCG(1, 1))
			for v, size := range map[device.Vector]int{gradient: n, weights: l.Weights()} {
				x := make([]float32, size)
				for i := range x {
					x[i] = float32(rnd.NormFloat64() / math.Sqrt(20))
				}
				must(b, net.Write(v, x))
			}
			step, err := net.Record(func(q device.Queue) { q.Project(l, net.Params(), gradient, weights, state) })
			must(b, err)
			in := &device.Inputs{}
			in.Scalars[device.Scale], in.Scalars[device.Gain], in.Scalars[device.Rate] = 1, 1, 1e-3
			b.SetBytes(int64(n) * int64(4*2*l.States()+4*3))
			for b.Loop() { // all but the last few, which the ring has room for, are done behind it
				must(b, step.Run(in))
			}
			_, err = step.Wait()
			must(b, err)
		})
	}
}
