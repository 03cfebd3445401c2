package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

var everyLoss = []ir.Loss{ir.SoftmaxCrossEntropy, ir.Logistic, ir.Hinge, ir.HuberHinge, ir.Huber}

// lossCase is logits of every size, some not finite, with targets of which some
// are not accepted.
func lossCase(loss ir.Loss, outputs, n int) (logits, targets []float32) {
	rnd := rand.New(rand.NewPCG(uint64(loss), uint64(outputs)))
	inf := float32(math.Inf(1))
	for b := range n {
		z := normals32(rnd, outputs, math.Pow(10, 6*rnd.Float64()-4))
		switch b % 16 {
		case 5:
			z[rnd.IntN(outputs)] = []float32{nan32, inf, -inf}[b/16%3]
		case 6:
			for i := range z {
				z[i] = []float32{nan32, inf, -inf, 3e38, 0}[b/16%5]
			}
		case 7:
			z[rnd.IntN(outputs)] = 1e30
		case 8:
			z[rnd.IntN(outputs)] = 40 // sure of itself
		case 9:
			z[0] = nan32
		}
		logits = append(logits, z...)
		var target float32
		switch loss {
		case ir.SoftmaxCrossEntropy:
			target = float32(rnd.IntN(outputs))
		case ir.Huber:
			target = z[0] + float32(2*rnd.NormFloat64())
		default:
			target = float32(2*rnd.IntN(2) - 1)
			if b%3 == 0 {
				logits[len(logits)-1] = target * []float32{0.5, 1.5, 1, 0, 0.75}[b/3%5] // the pieces' ends
			}
		}
		if b%7 == 3 {
			target = []float32{nan32, inf, -inf, -2, float32(outputs) + 1, 0.5, 3e38}[b/7%7]
		}
		targets = append(targets, target)
	}
	return logits, targets
}

func lossSizes(l ir.Loss) []int {
	if l == ir.SoftmaxCrossEntropy {
		return []int{1, 2, 10, 31, 32, 33, 100, 1024}
	}
	return []int{1}
}

func TestLossGrad(t *testing.T) {
	for _, loss := range everyLoss {
		for _, outputs := range lossSizes(loss) {
			t.Run(fmt.Sprintf("%s %d", loss, outputs), func(t *testing.T) {
				const capacity = 130
				logits, targets := lossCase(loss, outputs, capacity)
				for _, live := range []int{0, 1, capacity - 2, capacity} {
					if outputs == 1024 && live == capacity {
						continue
					}
					m := newMachine(t)
					z, targetPtr := put(m, logits), put(m, targets)
					delta := put(m, filled(len(logits), float32(99)))
					b := m.batch(live, capacity, 1)
					m.run(kernels.LossGrad(b, loss, outputs, z, targetPtr, delta))
					got := get[float32](m, delta, len(logits))
					m.run(kernels.LossGrad(b, loss, outputs, z, targetPtr, z)) // in place
					allSame(t, "in place", get[float32](m, z, live*outputs), got[:live*outputs])
					for e := range capacity {
						want := make([]float32, outputs)
						switch {
						case e >= live:
							want = filled(outputs, float32(99))
						case loss.ValidTarget(targets[e], outputs):
							host.Loss(loss, logits[e*outputs:][:outputs], targets[e], want)
						}
						for i, w := range want {
							// Both are rounded to float32 from float64 values that differ in their last places.
							if g := got[e*outputs+i]; !same(g, w) && !(math.Abs(float64(g)-float64(w)) <= 0x1p-23*math.Abs(float64(w))+0x1p-149) {
								t.Fatalf("%d live: δ of example %d with target %v at %d is %v, want %v", live, e, targets[e], i, g, w)
							}
						}
					}
				}
			})
		}
	}
}

// What a forward pass does of the loss has the bits of the launch behind it.
func TestLossGradBehind(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct {
		loss    ir.Loss
		in, out int
		bias    bool
	}{{ir.SoftmaxCrossEntropy, 30, 10, true}, {ir.SoftmaxCrossEntropy, 131, 12, false}, {ir.Logistic, 7, 1, true}, {ir.Huber, 64, 1, true}} {
		const capacity = 23
		for _, live := range []int{0, 1, 21, capacity} {
			op := &ir.Op{Kind: ir.Dense, Shape: []int{c.in}, Out: []int{c.out}, Bias: ir.None}
			m := newMachine(t)
			bias := kernels.Ptr(0)
			if c.bias {
				op.Bias, bias = 1, put(m, normals32(rnd, c.out, 1))
			}
			targets := filled(capacity, float32(1))
			targets[0], targets[capacity-1] = -7, nan32 // the first is of no class
			x, w, t0 := put(m, normals32(rnd, capacity*c.in, 1)), put(m, normals32(rnd, c.out*c.in, 1)), put(m, targets)
			b := m.batch(live, capacity, 1)
			var z, delta [2]kernels.Ptr
			for i := range z {
				z[i], delta[i] = put(m, filled(capacity*c.out, float32(99))), put(m, filled(capacity*c.out, float32(98)))
			}
			m.run(kernels.DenseForward(b, op, x, w, bias, z[0]))
			m.run(kernels.LossGrad(b, c.loss, c.out, z[0], t0, delta[0]))
			forward := kernels.DenseForward(b, op, x, w, bias, z[1])
			l, ok := kernels.LossGradBehind(forward, c.loss, c.out, z[1], t0, delta[1])
			if !ok {
				t.Fatal("a layer with few outputs does nothing of the loss")
			}
			m.run(l)
			what := fmt.Sprintf("%s of %d, %d live", c.loss, c.out, live)
			allSame(t, what+": logits", get[float32](m, z[1], capacity*c.out), get[float32](m, z[0], capacity*c.out))
			allSame(t, what+": δ", get[float32](m, delta[1], capacity*c.out), get[float32](m, delta[0], capacity*c.out))
			if _, ok := kernels.LossGradBehind(forward, c.loss, c.out, z[0], t0, delta[1]); ok {
				t.Error("it takes the loss of other logits")
			}
			for _, other := range []kernels.Launch{kernels.DenseActivated(b, op, ir.ReLU, x, w, bias, z[1]), l} {
				if _, ok := kernels.LossGradBehind(other, c.loss, c.out, z[1], t0, delta[1]); ok {
					t.Errorf("%s with an activation, or a loss, does another", other.Name)
				}
			}
		}
	}
}

func TestLosses(t *testing.T) {
	for _, loss := range everyLoss {
		for _, outputs := range lossSizes(loss) {
			const capacity = 130
			logits, targets := lossCase(loss, outputs, capacity)
			for _, live := range []int{0, capacity - 2} {
				m := newMachine(t)
				losses, predicted := put(m, filled(capacity, 99.0)), put(m, filled(capacity, int32(99)))
				m.run(kernels.Losses(m.batch(live, capacity, 1), loss, outputs, put(m, logits), put(m, targets), losses, predicted))
				got, classes := get[float64](m, losses, capacity), get[int32](m, predicted, capacity)
				for e := range capacity {
					z := logits[e*outputs:][:outputs]
					want, class := 99.0, 99
					if e < live {
						want, class = 0, 0
						if loss.ValidTarget(targets[e], outputs) {
							want, class = host.Loss(loss, z, targets[e], nil), host.Predict(loss, z)
						}
					}
					scale := 1.0
					for _, x := range z {
						if !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) {
							scale = max(scale, math.Abs(float64(x)))
						}
					}
					if loss != ir.SoftmaxCrossEntropy {
						scale = 0
					}
					if !same(got[e], want) && !(math.Abs(got[e]-want) <= 2e-15*(math.Abs(want)+scale)) {
						t.Errorf("%s %d: loss %d is %v, want %v", loss, outputs, e, got[e], want)
					}
					if int(classes[e]) != class {
						t.Errorf("%s %d: example %d is taken for %d, want %d", loss, outputs, e, classes[e], class)
					}
				}
				m.run(kernels.Losses(m.batch(live, capacity, 1), loss, outputs, put(m, logits), put(m, targets), losses, 0))
				allSame(t, "without classes", get[float64](m, losses, capacity), got)
			}
		}
	}
}

// inBlocks adds as the sums over examples do.
func inBlocks(x []float64) float64 {
	total := 0.0
	for ; len(x) > 0; x = x[min(kernels.ExampleBlock, len(x)):] {
		part := 0.0
		for _, v := range x[:min(kernels.ExampleBlock, len(x))] {
			part += v
		}
		total += part
	}
	return total
}

func TestLossShares(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 1))
	inf := math.Inf(1)
	odd := []float64{math.NaN(), inf, 0, 1e150, 0.3, 0.7, -inf}
	for _, form := range []device.LossForm{device.LossSum, device.LossDecrease, device.LossCurve} {
		for _, k := range []int{1, 3, device.MaxCandidates} {
			for _, live := range []int{0, 1, 69} {
				for _, clip := range []float32{0.7, 1e-3, 100} {
					for _, step := range []float32{0, 0x1p-20, 0x1p-70} {
						const capacity = 70
						base := kernels.FirstShare(form)
						losses := make([]float64, (base+k)*capacity)
						for i := range losses {
							losses[i] = rnd.ExpFloat64()
							if rnd.IntN(12) == 0 {
								losses[i] = odd[rnd.IntN(len(odd)-1+base)] // as a clipped loss −∞ has no meaning
							}
						}
						targets := make([]float32, capacity)
						for e := range targets {
							targets[e] = float32(rnd.IntN(4)) // 3 is no class
							if e == 20 {
								for i := range base + k {
									losses[i*capacity+e] = 0.25 // no decrease at all
								}
							}
						}
						q := host.Query[float32]{Form: form, Clip: clip, Step: float64(step)}
						want := make([]float64, k*capacity)
						for e := range live {
							share, at := make([]float64, k), make([]float64, k)
							for i := range at {
								at[i] = losses[(base+i)*capacity+e]
							}
							if targets[e] < 3 {
								q.Add(share, losses[e], at)
							}
							for i, x := range share {
								want[i*capacity+e] = x
							}
						}

						m := newMachine(t)
						b := m.batch(live, capacity, clip, step)
						rows := put(m, losses)
						m.run(kernels.LossShares(b, form, k, rows, ir.SoftmaxCrossEntropy, 3, put(m, targets)))
						shares := rows + uint64(8*base*capacity)
						what := fmt.Sprintf("%s, %d candidates, %d live, clip %v, step %v", form, k, live, clip, step)
						got := get[float64](m, shares, k*capacity)
						for i := range k {
							for e := range live {
								if got[i*capacity+e] != want[i*capacity+e] {
									t.Fatalf("%s: share %d of example %d is %v, want %v", what, i, e, got[i*capacity+e], want[i*capacity+e])
								}
							}
						}
						dst := put(m, filled(k, 0.5))
						m.run(kernels.LossSums(b, shares, k, dst))
						for i, x := range get[float64](m, dst, k) {
							if w := 0.5 + inBlocks(want[i*capacity:][:live]); x != w {
								t.Fatalf("%s: sum %d is %v, want %v", what, i, x, w)
							}
						}
					}
				}
			}
		}
	}
}

// More examples than one pass of the block's threads takes.
func TestLossSumsOfMany(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 2))
	x := make([]float64, 2*5000)
	for i := range x {
		x[i] = rnd.ExpFloat64()
	}
	m := newMachine(t)
	dst := put(m, make([]float64, 2))
	m.run(kernels.LossSums(m.batch(4999, 5000, 1), put(m, x), 2, dst))
	for i, got := range get[float64](m, dst, 2) {
		if want := inBlocks(x[5000*i:][:4999]); got != want {
			t.Errorf("sum %d is %v, want %v", i, got, want)
		}
	}
}

func TestScore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 3))
	for _, loss := range everyLoss {
		outputs := 1
		if loss == ir.SoftmaxCrossEntropy {
			outputs = 150
		}
		p := &ir.Program{Loss: loss, Shape: []int{outputs}}
		const capacity = 70
		m := newMachine(t)
		var want device.Score
		score := m.alloc(make([]byte, kernels.ScoreBytes(loss, outputs)))
		for _, live := range []int{capacity, 0, 33} {
			_, targets := lossCase(loss, outputs, capacity)
			losses, predicted := make([]float64, capacity), make([]int32, capacity)
			for e := range capacity {
				losses[e] = rnd.ExpFloat64()
				if classes := kernels.Classes(loss, outputs); classes > 0 {
					predicted[e] = int32(rnd.IntN(classes))
					if rnd.IntN(3) == 0 && targets[e] >= 0 && targets[e] < float32(classes) {
						predicted[e] = int32(targets[e])
					}
				}
			}
			before, part := want.Loss, make([]float64, live)
			for e := range live {
				if loss.ValidTarget(targets[e], outputs) {
					host.Tally(&want, p, targets[e], losses[e], int(predicted[e]))
					part[e] = losses[e]
				}
			}
			want.Loss = before + inBlocks(part)
			m.run(kernels.Score(m.batch(live, capacity, 1), loss, outputs, put(m, targets), put(m, losses), put(m, predicted), score))
		}
		if got := get[float64](m, score+kernels.ScoreLoss, 1)[0]; got != want.Loss {
			t.Errorf("%s: the loss is %v, want %v", loss, got, want.Loss)
		}
		counts := get[int32](m, score+kernels.ScoreCount, 2)
		if int(counts[0]) != want.Count || int(counts[1]) != want.Correct {
			t.Errorf("%s: %d rows with %d correct, want %d with %d", loss, counts[0], counts[1], want.Count, want.Correct)
		}
		n := kernels.Classes(loss, outputs)
		for i, got := range get[int32](m, score+kernels.ScoreConfusion, n*n) {
			if int(got) != want.Confusion[i/n][i%n] {
				t.Errorf("%s: %d rows of class %d taken for %d, want %d", loss, got, i/n, i%n, want.Confusion[i/n][i%n])
			}
		}
	}
}
