package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// TestLossBits asks for every row's loss at several points, with any number of
// threads and however rows and points are cut into blocks and groups.
func TestLossBits(t *testing.T) {
	rectified := devicetest.NewBuilder("rectified", ir.SoftmaxCrossEntropy, 1, 3, 4) // before the first parameter
	rectified.Dense(rectified.Act(ir.ReLU, rectified.Pool(ir.AvgPool, ir.Input, ir.Square(2, 1, 0))), 3, true)
	for _, p := range append(devicetest.Programs(), rectified.Program()) {
		t.Run(p.Name, func(t *testing.T) {
			c := devicetest.NewCase(t, p, 40, 51)
			table, err := load(c.Rows, c.Features)
			check(t, err)
			rows := make([]int32, 300)
			for i := range rows {
				rows[i] = int32(i * 7 % 40)
			}
			dir := make([]float32, len(c.Params))
			for i, w := range c.Params {
				dir[i] = w * float32(1+i%3)
			}
			points := []float32{0, 0.3, 0.1, 0, -0.2, 0.01, 0.5}
			schedule, err := perexample.Plain(p)
			check(t, err)
			losses := func(threads, block, group int, points []float32) []float64 {
				n := compile(schedule, device.Options{Capacity: 300}, threads)
				defer n.Close()
				e := n.evaluator
				if block > 0 {
					e.rows, e.group = block, group
				}
				for i := range points {
					// Twice with other sizes in between: buffers are used again.
					e.run(c.Params, dir, columns(points[i]), 1, table, rows[:3], 3)
				}
				e.run(c.Params, dir, columns(points...), len(points), table, rows, len(rows))
				return slices.Clone(e.losses)
			}
			want := losses(1, 0, 0, points)
			if distinct := slices.Compact(slices.Sorted(slices.Values(want))); len(distinct) < len(points) {
				t.Fatalf("all losses are one of %v", distinct)
			}
			for _, cut := range []struct{ threads, rows, group int }{{3, 0, 0}, {8, 0, 0}, {1, 7, 2}, {3, 1, 1}, {2, 64, 3}, {8, 300, 4}} {
				if got := losses(cut.threads, cut.rows, cut.group, points); !slices.Equal(got, want) {
					t.Errorf("%+v: other losses", cut)
				}
			}
			for i := range points {
				alone := losses(2, 0, 0, points[i:i+1])
				for row, x := range alone {
					if x != want[row*len(points)+i] {
						t.Fatalf("point %d alone gives row %d the loss %v, want %v", i, row, x, want[row*len(points)+i])
					}
				}
			}
		})
	}
}

// TestLossMemory checks that the stores keep to their bound, whatever the
// network and the number of points.
func TestLossMemory(t *testing.T) {
	wide := devicetest.NewBuilder("wide", ir.SoftmaxCrossEntropy, 1, 4, 4)
	wide.Dense(wide.Act(ir.Tanh, wide.Dense(wide.Act(ir.Tanh, wide.Dense(ir.Input, 6000, true)), 2000, true)), 3, true)
	deep := devicetest.NewBuilder("deep", ir.SoftmaxCrossEntropy, 2, 4, 4)
	x := deep.Act(ir.ReLU, deep.Conv(ir.Input, 128, ir.Square(3, 1, 1), true))
	x = deep.Act(ir.ReLU, deep.Conv(x, 256, ir.Square(3, 1, 1), true))
	x = deep.Act(ir.ReLU, deep.Conv(x, 256, ir.Square(3, 1, 1), true))
	deep.Dense(x, 3, true)
	squares := devicetest.NewBuilder("squares", ir.SoftmaxCrossEntropy, 2, 6, 6)
	x = squares.Act(ir.ReLU, squares.Conv(ir.Input, 224, ir.Square(3, 1, 1), true))
	x = squares.Act(ir.ReLU, squares.Conv(x, 224, ir.Square(3, 1, 1), true))
	squares.Dense(x, 3, true)
	for _, p := range []*ir.Program{wide.Program(), deep.Program(), squares.Program()} {
		schedule, err := perexample.Plain(p)
		check(t, err)
		n := compile(schedule, device.Options{Capacity: 300}, 1)
		e := n.evaluator
		if e.group >= device.MaxCandidates || e.group < 2 {
			t.Errorf("%s: groups of %d points do not try the bound", p.Name, e.group)
		}
		e.reserve(e.group)
		floats := 0
		for _, list := range [][][]float32{e.store, e.products} {
			for _, x := range list {
				floats += cap(x)
			}
		}
		for i := range p.Ops {
			if op := &p.Ops[i]; op.Kind == ir.Conv && !e.fixed[op.In[0]] {
				floats += e.group * n.convs[i].packed()
			}
		}
		if 4*floats > evalBytes {
			t.Errorf("%s: the stores of %d points take %d bytes, more than %d", p.Name, e.group, 4*floats, evalBytes)
		}
		n.Close()
	}
}

// columns are points in the order of their columns.
func columns(etas ...float32) (points []point) {
	for i, eta := range etas {
		points = append(points, point{eta, i})
	}
	return points
}

// TestPresentLossBits compares the losses that the passes of gradients leave behind with
// those of an evaluation, bit by bit, also where they are not finite.
func TestPresentLossBits(t *testing.T) {
	long := devicetest.NewBuilder("long", ir.Logistic, 700) // several blocks of K
	long.Dense(ir.Input, 1, true)
	for _, p := range append(devicetest.Programs(), long.Program()) {
		c := devicetest.NewCase(t, p, 40, 52)
		table, err := load(c.Rows, c.Features)
		check(t, err)
		rows := make([]int32, 70)
		for i := range rows {
			rows[i] = int32(i * 7 % 40)
		}
		plain, err := perexample.Plain(p)
		check(t, err)
		schedules := map[string]*ir.Schedule{"plain": plain}
		for _, strategy := range perexample.Strategies() {
			if schedules[string(strategy)], err = perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat}); err != nil {
				t.Fatal(err)
			}
		}
		for name, schedule := range schedules {
			for _, threads := range []int{1, 3} {
				for what, spoil := range map[string]func([]float32){
					"finite":   func([]float32) {},
					"NaN":      func(w []float32) { w[len(w)/2] = float32(math.NaN()) },
					"infinite": func(w []float32) { w[0] = float32(math.Inf(1)) },
					"large":    func(w []float32) { vec.Scale(w, 1e30) },
				} {
					if threads == 1 && what != "finite" { // three threads show these
						continue
					}
					n := compile(schedule, device.Options{Capacity: 70}, threads)
					at := slices.Clone(c.Params)
					spoil(at)
					n.evaluator.run(at, nil, columns(0), 1, table, rows, len(rows))
					want := slices.Clone(n.evaluator.losses)
					n.present.has(table, rows)
					n.ClippedSum(make([]float32, len(at)), at, table, host.Batch{Rows: rows}, 1)
					if !n.present.has(table, rows) {
						t.Fatalf("%s %s: a gradient leaves no losses behind", p.Name, name)
					}
					for i, r := range rows {
						if got := n.present.rows[r].loss; math.Float64bits(got) != math.Float64bits(want[i]) && !(math.IsNaN(got) && math.IsNaN(want[i])) {
							t.Fatalf("%s %s on %d threads, %s: the gradient's pass gives row %d the loss %v, an evaluation %v", p.Name, name, threads, what, r, got, want[i])
						}
					}
					n.Close()
				}
			}
		}
	}
}
