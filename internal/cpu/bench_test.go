package cpu_test

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// BenchmarkClippedSum measures one batch's sum of gradients on a network of
// cnn-mnist's size, clipped and plain.
func BenchmarkClippedSum(b *testing.B) {
	p := devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128)
	c := devicetest.NewCase(b, p, 64, 41)
	for _, batch := range []int{300, 1024} {
		rows := make([]int32, batch)
		for i := range rows {
			rows[i] = int32(i % c.Rows.Count)
		}
		for _, strategy := range []perexample.Strategy{"", perexample.Auto} {
			name := "plain"
			if strategy != "" {
				name = "private"
			}
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) {
				x := devicetest.Open(b, open(b, 0), schedule(b, p, strategy), c, batch)
				in := &device.Inputs{Rows: rows}
				in.Scalars[device.Clip] = 1
				for b.Loop() {
					check(b, x.Clipped.Run(in))
				}
				b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
			})
		}
	}
}

// BenchmarkExactSum compares a batch's sum in integers with that in floats, on one thread.
func BenchmarkExactSum(b *testing.B) {
	mlp := devicetest.NewBuilder("mlp-mnist", ir.SoftmaxCrossEntropy, 784)
	mlp.Dense(mlp.Act(ir.Tanh, mlp.Dense(ir.Input, 1000, true)), 10, true)
	for _, p := range []*ir.Program{devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128), mlp.Program()} {
		c := devicetest.NewCase(b, p, 64, 41)
		const batch = 300
		in := &device.Inputs{Rows: make([]int32, batch)}
		for i := range in.Rows {
			in.Rows[i] = int32(i % c.Rows.Count)
		}
		in.Scalars[device.Clip] = 1
		for _, kind := range []struct {
			name     string
			strategy perexample.Strategy
			exact    bool
		}{{"secure", perexample.Auto, false}, {"exact", perexample.Materialise, true}} {
			b.Run(p.Name+"/"+kind.name, func(b *testing.B) {
				step := batchSum(b, open(b, 1), c, kind.strategy, batch, kind.exact)
				for b.Loop() {
					check(b, step.Run(in))
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/step")
			})
		}
	}
}

// BenchmarkConv measures each convolution of the named models on one thread, an
// example at a time: forward alone, and forward with both gradients, whose sum
// is plain or clipped example by example. A 1×1 convolution before it, which
// makes its input's gradient needed, and one logit after it cost little beside
// it.
func BenchmarkConv(b *testing.B) {
	for _, l := range []struct {
		name           string
		in, size, out  int
		kernel, stride int
		pad            int
	}{
		{"cnn-mnist/conv1", 1, 28, 6, 5, 1, 0},
		{"cnn-mnist/conv2", 6, 12, 16, 5, 1, 0},
		{"mnist-tf/conv1", 1, 28, 16, 8, 2, 3},
		{"mnist-tf/conv2", 16, 13, 32, 4, 2, 0},
		{"cifar/conv1", 3, 32, 32, 3, 1, 1}, // both CIFAR models begin alike
		{"cifar-small/conv2", 32, 32, 32, 3, 1, 1},
		{"cifar-small/conv3", 32, 16, 64, 3, 1, 1},
		{"cifar-small/conv4", 64, 16, 64, 3, 1, 1},
		{"cifar-small/conv5", 64, 8, 128, 3, 1, 1},
		{"cifar-small/conv6", 128, 8, 128, 3, 1, 1},
		{"cifar-paper/conv2", 32, 32, 64, 3, 1, 1},
		{"cifar-paper/conv3", 64, 16, 128, 3, 1, 1},
		{"cifar-paper/conv4", 128, 16, 128, 3, 1, 1},
		{"cifar-paper/conv5", 128, 8, 256, 3, 1, 1},
		{"cifar-paper/conv6", 256, 8, 256, 3, 1, 1},
	} {
		net := devicetest.NewBuilder(l.name, ir.Logistic, 1, l.size, l.size)
		x := net.Conv(ir.Input, l.in, ir.Square(1, 1, 0), false)
		x = net.Conv(x, l.out, ir.Square(l.kernel, l.stride, l.pad), true)
		net.Dense(x, 1, true)
		p := net.Program()
		c := devicetest.NewCase(b, p, 2, 43)
		const batch = 16
		in := &device.Inputs{Rows: make([]int32, batch)}
		in.Scalars[device.Clip] = 1
		for _, kind := range []struct {
			name     string
			strategy perexample.Strategy
			passes   int64 // forward passes that cost as much
		}{{"forward", "", 1}, {"plain", "", 3}, {"private", perexample.Auto, 3}} {
			b.Run(l.name+"/"+kind.name, func(b *testing.B) {
				x := devicetest.Open(b, open(b, 1), schedule(b, p, kind.strategy), c, batch)
				step := x.Clipped
				if kind.name == "forward" {
					losses, err := x.Net.NewScalarSum(1)
					check(b, err)
					step, err = x.Net.Record(func(q device.Queue) {
						q.Losses(losses, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.Net.Params(), K: 1})
					})
					check(b, err)
				}
				for b.Loop() {
					check(b, step.Run(in))
				}
				flops := p.Ops[1].FLOPs() * kind.passes * batch * int64(b.N)
				b.ReportMetric(float64(flops)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkParameters measures what a step does to every parameter, apart from
// its gradient: noise, and each update rule.
func BenchmarkParameters(b *testing.B) {
	const size = 1 << 20
	net := devicetest.NewBuilder("wide", ir.Hinge, size-1)
	net.Dense(ir.Input, 1, true)
	p := net.Program()
	x := devicetest.Open(b, open(b, 0), schedule(b, p, perexample.Auto), devicetest.NewCase(b, p, 1, 44), 1)
	draw := uint64(0)
	measure := func(name string, step device.Step) {
		b.Run(name, func(b *testing.B) {
			in := &device.Inputs{}
			in.Scalars[device.NoiseStd] = 1
			for _, divisor := range []device.Slot{device.Bias1, device.Bias2, device.Epsilon} {
				in.Scalars[divisor] = 1
			}
			for b.Loop() {
				draw++
				in.Draw = draw
				check(b, step.Run(in))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/parameter")
		})
	}
	measure("release", x.Free)
	gradient, err := x.Net.NewVector(1)
	check(b, err)
	for _, rule := range device.Rules() {
		var state []device.Vector
		for range rule.States() {
			v, err := x.Net.NewVector(1)
			check(b, err)
			state = append(state, v)
		}
		step, err := x.Net.Record(func(q device.Queue) { q.Update(rule, x.Net.Params(), gradient, state...) })
		check(b, err)
		measure(rule.String(), step)
	}
}

// BenchmarkProject measures a step of an LSTM for the parameters of cnn-mnist.
func BenchmarkProject(b *testing.B) {
	const size = 102550
	net := devicetest.NewBuilder("learned", ir.Hinge, size-1)
	net.Dense(ir.Input, 1, true)
	p := net.Program()
	l := device.LSTM{Layers: 2, Hidden: 20, Context: 3}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d threads", threads), func(b *testing.B) {
			x := devicetest.Open(b, open(b, threads), schedule(b, p, perexample.Auto), devicetest.NewCase(b, p, 1, 45), 1)
			step, _ := learned(b, x, l, size)
			for b.Loop() {
				step()
			}
			flops := 0
			for k := range l.Layers {
				flops += 2 * l.LayerWeights(k)
			}
			b.ReportMetric(float64(flops)*size*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
