package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/squares"
)

// square is a convolution of 3×3.
type square struct{ channels, out, rows, cols int }

var convolutions = []square{
	{3, 5, 2, 2}, {16, 16, 8, 8}, {17, 33, 16, 16}, {32, 64, 32, 32}, {5, 2, 4, 6}, {2, 3, 28, 28},
	{4, 7, 14, 14}, {40, 8, 10, 10}, {1, 1, 6, 34}, {2, 15, 4, 66}, {330, 4, 4, 4}, {3, 3, 20, 12}, {8, 3, 8, 130}, {9, 2, 4, 300},
}

func (s square) plan() *Winograd {
	return NewWinograd(s.channels, s.out, s.rows, s.cols, s.cols+2, (s.rows+2)*(s.cols+2))
}

// magnitudes are, of each channel and output square, the largest input that the square comes from.
func (s square) magnitudes(x []float32) [][]float64 {
	all := make([][]float64, s.channels)
	for c := range all {
		for row := 0; row < s.rows; row += 2 {
			for col := 0; col < s.cols; col += 2 {
				most := 0.0
				for i := range 4 {
					for j := range 4 {
						most = max(most, math.Abs(float64(x[(c*(s.rows+2)+row+i)*(s.cols+2)+col+j])))
					}
				}
				all[c] = append(all[c], most)
			}
		}
	}
	return all
}

// one is an image by itself.
var one = Images{N: 1}

func packWinograd(w []float32, out, channels int, turned bool) *WinogradWeights {
	u := make([]float32, squares.Parts*out*channels)
	half := out * channels / 2
	squares.TransformWeights(u, w, 0, half)
	squares.TransformWeights(u, w, half, out*channels)
	p := new(WinogradWeights)
	for part := range squares.Parts {
		p.PackPart(part, u, out, channels, turned)
	}
	return p
}

// image makes one that is as long as it must be; NaN where no output may read it.
func (s square) image(r *rand.Rand, t *Winograd) []float32 {
	n := s.channels * (s.rows + 2) * (s.cols + 2)
	x := values(r, max(t.Reach(), n))
	for i := n; i < len(x); i++ {
		x[i] = float32(math.NaN())
	}
	return x
}

// Outputs are those of a direct convolution, in float64, within ten roundings, and those of a sum over the channels, of the
// magnitudes in the squares that they come from; and nothing between channels is written.
func TestWinograd(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(31)
		for _, s := range convolutions {
			for _, turned := range []bool{false, true} {
				for _, accumulate := range []bool{false, true} {
					t.Run(fmt.Sprintf("%v turned %v accumulate %v", s, turned, accumulate), func(t *testing.T) {
						plan, positions, ld := s.plan(), s.rows*s.cols, s.rows*s.cols+3
						w := values(r, s.out*s.channels*9)
						weights := packWinograd(w, s.out, s.channels, false)
						at := func(k, c, i, j int) float64 { return float64(w[((k*s.channels+c)*3+i)*3+j]) }
						if turned { // w are those of channels to out, taken back
							weights = packWinograd(w, s.channels, s.out, true)
							at = func(k, c, i, j int) float64 { return float64(w[((c*s.out+k)*3+2-i)*3+2-j]) }
						}
						bias := values(r, s.out)
						x, before := s.image(r, plan), values(r, (s.out-1)*ld+positions)
						y := slices.Clone(before)
						plan.Correlate(y, ld, weights, x, one, accumulate, bias, true, new(WinogradWork))
						pitch, most := s.cols+2, s.magnitudes(x)
						{
							for k := range s.out {
								for o := range ld {
									at0 := k*ld + o
									if o >= positions {
										if at0 < len(y) && y[at0] != before[at0] {
											t.Fatalf("what is behind channel %d was written", k)
										}
										continue
									}
									want, bound := float64(bias[k]), 0.0
									row, col := o/s.cols, o%s.cols
									for c := range s.channels {
										most := most[c][row/2*(s.cols/2)+col/2]
										for i := range 3 {
											for j := range 3 {
												a := at(k, c, i, j)
												want += a * float64(x[(c*(s.rows+2)+row+i)*pitch+col+j])
												bound += math.Abs(a) * most
											}
										}
									}
									if accumulate {
										want += float64(before[at0])
										bound += math.Abs(float64(before[at0]))
									}
									got, bound := float64(y[at0]), 0x1p-24*(1+math.Abs(float64(bias[k]))+float64(10+s.channels)*bound)
									if !(math.Abs(got-max(want, 0)) <= bound) {
										t.Fatalf("channel %d, output %d: %v, want %v within %v", k, o, got, max(want, 0), bound)
									}
								}
							}
						}
					})
				}
			}
		}
	})
}

// An image's outputs have the same bits whatever other images are computed with it, a NaN or an infinity in another one
// included; and nothing between the images' outputs is written.
func TestWinogradTogether(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(35)
		for _, s := range convolutions {
			plan, positions := s.plan(), s.rows*s.cols
			for images := 2; images <= plan.Together(); images++ {
				one, size := Images{N: 1}, s.out*positions
				all := Images{N: images, X: s.channels*(s.rows+2)*(s.cols+2) + r.IntN(3), C: size + r.IntN(3)}
				weights, bias := packWinograd(values(r, s.out*s.channels*9), s.out, s.channels, false), values(r, s.out)
				x, y := values(r, (images-1)*all.X+max(plan.Reach(), all.X)), values(r, (images-1)*all.C+size)
				bad := r.IntN(images)
				x[bad*all.X+(s.cols+2)+1] = float32(math.NaN())
				x[bad*all.X+(s.cols+2)+2] = float32(math.Inf(1))
				want := slices.Clone(y)
				for e := range images {
					plan.Correlate(want[e*all.C:], positions, weights, x[e*all.X:], one, true, bias, true, new(WinogradWork))
				}
				plan.Correlate(y, positions, weights, x, all, true, bias, true, new(WinogradWork))
				for e := range images {
					got, want := y[e*all.C:][:size], want[e*all.C:][:size]
					if e != bad {
						equalBits(t, got, want)
						continue
					}
					for i := range got {
						if (got[i] != got[i]) != (want[i] != want[i]) {
							t.Fatalf("%v, image %d of %d, output %d: %v, alone %v", s, e, images, i, got[i], want[i])
						}
					}
				}
				for e := range images {
					if e < images-1 {
						equalBits(t, y[e*all.C+size:(e+1)*all.C], want[e*all.C+size:(e+1)*all.C])
					}
				}
			}
		}
	})
}

// The weights' gradients are those of float64, within ten roundings of the magnitudes in the squares that they come from, on
// top of one rounding a square; and nothing beside them is written.
func TestWinogradContract(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(33)
		for _, s := range convolutions {
			if s.channels < form().Rows() {
				continue
			}
			for _, accumulate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v accumulate %v", s, accumulate), func(t *testing.T) {
					plan, pitch := s.plan(), s.cols+2
					x, delta := s.image(r, plan), dense(r, s.out, s.rows*s.cols)
					before := dense(r, s.channels*squares.Taps, s.out+2)
					c := before
					c.Data = slices.Clone(before.Data)
					c.Cols = s.out
					plan.Contract(c, x, delta, accumulate, new(WinogradWork))
					mostX, mostD := s.magnitudes(x), make([][]float64, s.out)
					for o := range mostD {
						for row := 0; row < s.rows; row += 2 {
							for col := 0; col < s.cols; col += 2 {
								most := 0.0
								for i := range 4 {
									most = max(most, math.Abs(float64(delta.at(o, (row+i/2)*s.cols+col+i%2))))
								}
								mostD[o] = append(mostD[o], most)
							}
						}
					}
					for k := range c.Rows {
						channel, tap := k/squares.Taps, k%squares.Taps
						equalBits(t, c.Data[k*c.RS+s.out:(k+1)*c.RS], before.Data[k*c.RS+s.out:(k+1)*c.RS])
						for o := range s.out {
							want, weight := 0.0, 0.0
							if accumulate {
								want = float64(before.at(k, o))
								weight = math.Abs(want)
							}
							for row := 0; row < s.rows; row += 2 {
								for col := 0; col < s.cols; col += 2 {
									for i := range 2 {
										for j := range 2 {
											d := float64(delta.at(o, (row+i)*s.cols+col+j))
											want += d * float64(x[(channel*(s.rows+2)+row+i+tap/3)*pitch+col+j+tap%3])
										}
									}
									square := row/2*(s.cols/2) + col/2
									weight += mostX[channel][square] * mostD[o][square]
								}
							}
							bound := 0x1p-24 * float64(s.rows*s.cols/4+10) * weight
							if got := float64(c.at(k, o)); !(math.Abs(got-want) <= bound) {
								t.Fatalf("channel %d, tap %d, output %d: %v, want %v within %v", channel, tap, o, got, want, bound)
							}
						}
					}
				})
			}
		}
	})
}

// The kernels in use change no bit.
func TestWinogradBits(t *testing.T) {
	if !assembly {
		t.Skip("portable code may round products before it adds them")
	}
	r := newRand(32)
	for _, s := range convolutions {
		plan, positions := s.plan(), s.rows*s.cols
		w, x := values(r, s.out*s.channels*9), s.image(r, plan)
		delta, before := dense(r, s.out, positions), values(r, s.channels*squares.Taps*s.out)
		outputs := func() []float32 {
			y, g := make([]float32, s.out*positions), slices.Clone(before)
			plan.Correlate(y, positions, packWinograd(w, s.out, s.channels, false), x, one, false, nil, false, new(WinogradWork))
			if s.channels >= 8 {
				plan.Contract(RowMajor(g, s.channels*squares.Taps, s.out), x, delta, true, new(WinogradWork))
			}
			return slices.Concat(y, g)
		}
		want := outputs()
		eachImplementation(t, func(t *testing.T) {
			if assembly {
				equalBits(t, outputs(), want)
			}
		})
	}
}

func BenchmarkWinograd(b *testing.B) {
	r := newRand(1)
	for _, s := range []square{{32, 32, 32, 32}, {32, 64, 32, 32}, {64, 64, 16, 16}, {64, 128, 16, 16}, {128, 128, 16, 16}, {64, 128, 8, 8}, {128, 256, 8, 8}, {256, 256, 8, 8}} {
		plan, positions := s.plan(), s.rows*s.cols
		x, y, w := s.image(r, plan), make([]float32, s.out*positions), values(r, s.out*s.channels*9)
		weights, work := packWinograd(w, s.out, s.channels, false), new(WinogradWork)
		b.Run(fmt.Sprint(s), func(b *testing.B) {
			for b.Loop() {
				plan.Correlate(y, positions, weights, x, one, false, nil, false, work)
			}
			perSecond(b, 18*s.channels*s.out*positions)
		})
		if n := plan.Together(); n > 1 {
			all := Images{N: n, X: len(x), C: len(y)}
			x, y := values(r, n*len(x)), make([]float32, n*len(y))
			b.Run(fmt.Sprint(s, n, "images"), func(b *testing.B) {
				for b.Loop() {
					plan.Correlate(y, positions, weights, x, all, false, nil, false, work)
				}
				perSecond(b, n*18*s.channels*s.out*positions)
			})
		}
		delta, g := dense(r, s.out, positions), dense(r, s.channels*squares.Taps, s.out)
		b.Run(fmt.Sprint(s, "weights"), func(b *testing.B) {
			for b.Loop() {
				plan.Contract(g, x, delta, false, work)
			}
			perSecond(b, 18*s.channels*s.out*positions)
		})
	}
}
