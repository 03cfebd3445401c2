package ptx

import (
	"math"
	"math/bits"
)

// Core is how tensor cores add up products. PTX leaves that open.
type Core uint8

const (
	Coarse Core = iota // as coarsely as any known tensor core
	// Faults to be found: no known tensor core has them.
	Coarser // a place less
	Uneven  // every other row adds its terms in the opposite order
)

// places is how many bits behind the largest exponent are kept.
func (c Core) places() uint64 {
	if c == Coarser {
		return 22
	}
	return 23
}

// pass is how many terms tensor cores add at a time, in which GPUs differ.
const pass = 4

// mma multiplies fragments: m16n8k8 of tf32 or m16n8k16 of bf16 (ISA 9.7.13.4.5, 9.7.13.4.8). A register of A or B is a word
// of one tf32 or of two neighbouring bf16, and words lie alike in both.
func (w *warp) mma(l *launch, in *inst, m uint32) *Fault {
	if m != full {
		return l.fault(w, in, bits.TrailingZeros32(m), Divergence, 0, "needs a whole warp")
	}
	for _, s := range in.list[:10] {
		if s >= 0 && w.init[s] != full {
			return l.fault(w, in, bits.TrailingZeros32(^w.init[s]), Uninitialised, 0, "reads a register that was never written")
		}
	}
	words := 1 // terms of a word
	if in.ty == bf16 {
		words = 2
	}
	value := func(x uint64, term int) float64 {
		if in.ty == tf32 {
			return float64(float32frombits(x &^ 0x1fff)) // what is below tf32's precision is not read
		}
		return float64(float32frombits(x >> (16 * term) << 16 & 0xffff0000))
	}
	var a [16][16]float64
	var b [8][16]float64
	for lane := range 32 {
		g, t := lane>>2, lane&3
		for term := range words {
			for i := range 4 {
				a[g+8*(i&1)][(t+4*(i>>1))*words+term] = value(w.get(l, in.list[i])[lane], term)
			}
			for i := range 2 {
				b[g][(t+4*i)*words+term] = value(w.get(l, in.list[4+i])[lane], term)
			}
		}
	}
	var out [4]vec
	for lane := range 32 {
		g, t := lane>>2, lane&3
		for i := range out {
			row, col := &a[g+8*(i>>1)], &b[2*t+(i&1)]
			sum := float32frombits(w.get(l, in.list[6+i])[lane])
			for k := 0; k < 8*words; k += pass {
				at := k
				if l.o.Core == Uneven && g%2 == 1 {
					at = 8*words - pass - k
				}
				sum = addProducts(l.o.Core.places(), sum, (*[pass]float64)(row[at:]), (*[pass]float64)(col[at:]))
			}
			out[i][lane] = nan32(sum)
		}
	}
	for i := range out {
		w.set(in.src[i], full, &out[i])
	}
	return nil
}

// addProducts is c + Σ a·b as coarsely as any tensor core is known to compute it: exact products and c are aligned to the
// largest exponent, bits below so many places behind it, 23, are cut off, and so are those of the exact sum beyond 24 digits (Fasi, Higham,
// Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021). PTX leaves all of it open.
func addProducts(places uint64, c float32, a, b *[pass]float64) float32 {
	const sign, special = 1 << 63, 0x7ff << 52
	first := float64(c)
	// Products are exact, with at most 22 digits, and normal unless 0 or special.
	p, q, r, s := a[0]*b[0], a[1]*b[1], a[2]*b[2], a[3]*b[3]
	size := func(x float64) uint64 { return math.Float64bits(x) &^ sign } // in the order of magnitudes; what is special comes last
	largest := max(size(first), size(p), size(q), size(r), size(s))
	if largest == 0 || largest >= special {
		return float32(first + p + q + r + s)
	}
	e := largest >> 52
	scale := math.Float64frombits((2*1023 + places - e) << 52) // 2 to the places over the largest's power of two
	// By a power of two: exact, then toward zero.
	sum := int64(first*scale) + int64(p*scale) + int64(q*scale) + int64(r*scale) + int64(s*scale)
	exact := float64(sum) * math.Float64frombits((e-places)<<52)
	out := float32(exact)
	if most := math.Abs(exact); most < 0x1p128 && math.Abs(float64(out)) > most {
		return math.Nextafter32(out, 0)
	}
	return out
}
