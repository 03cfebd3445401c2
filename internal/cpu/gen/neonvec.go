package main

import (
	"fmt"
	"strings"
)

// neonVec writes the elementwise kernels and the sums.
func neonVec(n *neon) {
	n.elementwise("relu", "dst, x", "", func(v []int, _ []int, t int) { n.cutOff(v[0], t) })
	n.elementwise("reluGrad", "dst, y, g", "", func(v []int, _ []int, t int) {
		n.do(above, t, v[0])
		n.do(band, v[0], v[1], t)
	})
	n.elementwise("leakyRelu", "dst, x", "a", func(v, c []int, t int) {
		n.do(fmul, t, v[0], c[0])
		n.do(below, t+1, v[0])
		n.do(bsl, t+1, t, v[0])
		n.move(v[0], t+1)
	})
	n.elementwise("leakyReluGrad", "dst, y, g", "a", func(v, c []int, t int) {
		n.do(fmul, t, v[1], c[0])
		n.do(above, v[0], v[0])
		n.do(bsl, v[0], v[1], t)
	})
	n.elementwise("tanhGrad", "dst, y, g", "one", func(v, c []int, t int) {
		n.move(t, c[0])
		n.do(fmls, t, v[0], v[0])
		n.do(fmul, v[0], v[1], t)
	})
	n.elementwise("sigmoidGrad", "dst, y, g", "", func(v, _ []int, t int) {
		n.move(t, v[0])
		n.do(fmls, t, v[0], v[0])
		n.do(fmul, v[0], v[1], t)
	})
	n.elementwise("addVec", "dst, dst, x", "", func(v, _ []int, _ int) { n.do(fadd, v[0], v[0], v[1]) })
	n.elementwise("axpy", "dst, dst, x", "a", func(v, c []int, _ int) { n.do(fmla, v[0], v[1], c[0]) })
	n.elementwise("scaled", "dst, x", "a", func(v, c []int, _ int) { n.do(fmul, v[0], v[0], c[0]) })
	n.elementwise("mix", "dst, x, y", "a, b", func(v, c []int, _ int) {
		n.do(fmul, v[1], v[1], c[1])
		n.do(fmla, v[1], v[0], c[0])
		n.move(v[0], v[1])
	})
	n.elementwise("descend", "dst, dst, x", "a, b, c", func(v, c []int, t int) {
		n.do(fmul, t, v[0], c[2])
		n.do(fmla, t, v[1], c[1])
		n.do(fmla, v[0], t, c[0])
	})
	n.elementwise("mixSquares", "dst, dst, x", "a, b", func(v, c []int, t int) {
		n.do(fmul, t, v[1], v[1])
		n.do(fmul, t, t, c[1])
		n.do(fmla, t, v[0], c[0])
		n.move(v[0], t)
	})
	n.elementwise("modulus", "dst, x, y", "", func(v, _ []int, _ int) {
		n.do(fmul, v[0], v[0], v[0])
		n.do(fmla, v[0], v[1], v[1])
		n.do(fsqrt, v[0], v[0])
	})
	n.elementwise("addExcess", "dst, dst, x", "a, b", func(v, c []int, t int) {
		n.do(fneg, t, c[1])
		n.do(fmla, t, v[1], c[0])
		n.do(notAbove, v[1], t)
		n.do(bic, t, t, v[1])
		n.do(fadd, v[0], v[0], t)
	})
	n.elementwise("adam", "dst, dst, x, y", "a, b, less, least, c", func(v, c []int, _ int) {
		n.do(fmul, v[2], v[2], c[1])
		n.do(fsub, v[2], v[2], c[2])
		n.do(fmax, v[2], v[2], c[3])
		n.do(fsqrt, v[2], v[2])
		n.do(fadd, v[2], v[2], c[4])
		n.do(fmul, v[1], v[1], c[0])
		n.do(fdiv, v[1], v[1], v[2])
		n.do(fsub, v[0], v[0], v[1])
	})
	n.elementwise("mul", "dst, x, y", "", func(v, _ []int, _ int) { n.do(fmul, v[0], v[0], v[1]) })
	n.elementwise("mulAdd", "dst, x, y, z", "", func(v, _ []int, _ int) {
		n.do(fmla, v[2], v[0], v[1])
		n.move(v[0], v[2])
	})
	n.elementwise("normalize", "dst, x", "centre, scale, offset", func(v, c []int, t int) {
		n.do(fsub, v[0], v[0], c[0])
		n.move(t, c[2])
		n.do(fmla, t, v[0], c[1])
		n.move(v[0], t)
	})
	n.bytes()
	n.sums("sum", "x", func(sum, x, _ int) { n.do(fadd64, sum, sum, x) })
	n.sums("sumSquares", "x", func(sum, x, _ int) { n.do(fmla64, sum, x, x) })
	n.sums("dot", "x, y", func(sum, x, y int) { n.do(fmla64, sum, x, y) })
}

func (n *neon) move(to, from int) { n.op("VORR V%d.B16, V%[1]d.B16, V%d.B16", from, to) }

// elementwise writes a kernel that goes through vectors of equal length: four registers at a time, then one, then one float,
// all by the same instructions, so that a place changes no bit. The result takes the place of the first vector. inputs are
// the result and the vectors that are read, the result once more if it is one of them; scalars are parameters, or "one".
// step has the vectors in v, the scalars in c, and two registers from t on to itself.
func (n *neon) elementwise(name, inputs, scalars string, step func(v, c []int, t int)) {
	const dst, left, steps = 0, 6, 7
	in, constants := words(inputs), words(scalars)
	reads := in // dst is read where it stands twice
	if in[1] == "dst" {
		in = in[1:]
	}
	reads = reads[1:]
	own := len(constants) == 1 && constants[0] == "one"
	typed := ""
	for i, p := range in {
		if i > 0 {
			typed += ", "
		}
		typed += p + " []float32"
	}
	if !own {
		for _, p := range constants {
			typed += ", " + p + " float32"
		}
	}
	n.function(name+"NEON", typed, "is the kernel of that name, on the length of dst.")
	n.load("dst", dst)
	n.op("MOVD dst_len+%d(FP), R%d", n.offset["dst"]+8, left)
	for i, p := range reads {
		n.load(p, i+1)
	}
	c := numbers(vectors-len(constants), len(constants))
	for i, p := range constants {
		if own {
			n.op("FMOVS $1.0, F%d", c[i])
		} else {
			n.op("FMOVS %s+%d(FP), F%d", p, n.offset[p], c[i])
		}
		n.op("VDUP V%d.S[0], V%[1]d.S4", c[i])
	}
	const spare = 16
	for _, size := range []int{16, 4, 1} {
		next := fmt.Sprintf("below%d", size)
		n.op("SUBS $%d, R%d, R%d", size, left, steps)
		n.op("BLT %s", next)
		n.label(fmt.Sprintf("by%d", size))
		together := max(size/neonLanes, 1)
		for i := range reads {
			v := numbers(i*4, together)
			if size == 1 {
				n.op("FMOVS.P 4(R%d), F%d", i+1, v[0])
			} else {
				n.op("VLD1.P %d(R%d), %s", 4*size, i+1, list(v))
			}
		}
		for u := range together {
			v := make([]int, len(reads))
			for i := range v {
				v[i] = i*4 + u
			}
			step(v, c, spare+2*u)
		}
		if size == 1 {
			n.op("FMOVS.P F0, 4(R%d)", dst)
		} else {
			n.op("VST1.P %s, %d(R%d)", list(numbers(0, together)), 4*size, dst)
		}
		n.op("SUBS $%d, R%d", size, steps)
		n.op("BGE by%d", size)
		n.label(next)
		n.op("ADD $%d, R%d, R%d", size, steps, left)
	}
	n.op("RET")
}

// bytes writes the kernel for whole groups of sixteen bytes.
func (n *neon) bytes() {
	n.function("bytesNEON", "groups int, dst *float32, src *uint8, scale float32, offset float32",
		"sets dst[i] = src[i]*scale + offset, in one rounding, for so many groups of 16. groups is at least 1.")
	const groups, dst, src, scale, offset = 0, 1, 2, 30, 31
	n.load("groups", groups)
	n.load("dst", dst)
	n.load("src", src)
	n.op("FMOVS scale+%d(FP), F%d", n.offset["scale"], scale)
	n.op("FMOVS offset+%d(FP), F%d", n.offset["offset"], offset)
	n.op("VDUP V%d.S[0], V%[1]d.S4", scale)
	n.op("VDUP V%d.S[0], V%[1]d.S4", offset)
	n.label("loop")
	n.op("VLD1.P 16(R%d), [V0.B16]", src)
	n.do(ushll8, 1, 0)
	n.do(ushll8h, 2, 0)
	n.do(ushll16, 4, 1)
	n.do(ushll16h, 5, 1)
	n.do(ushll16, 6, 2)
	n.do(ushll16h, 7, 2)
	for u := range 4 {
		n.do(ucvtf, 4+u, 4+u)
		n.move(8+u, offset)
		n.do(fmla, 8+u, 4+u, scale)
	}
	n.op("VST1.P %s, 64(R%d)", list(numbers(8, 4)), dst)
	n.op("SUBS $1, R%d", groups)
	n.op("BNE loop")
	n.op("RET")
}

// sums writes the kernel of a sum for whole groups of 32 elements, each of a lane of its own.
func (n *neon) sums(name, inputs string, step func(sum, x, y int)) {
	in := words(inputs)
	signature := "groups int, sums *float64"
	for _, p := range in {
		signature += ", " + p + " *float32"
	}
	n.function(name+"NEON", signature, "sets 32 sums, of so many groups of 32. groups is at least 1.")
	const groups, to = 0, 1
	n.load("groups", groups)
	n.load("sums", to)
	for i, p := range in {
		n.load(p, 2+i)
	}
	n.clear([][]int{numbers(0, 16)})
	n.label("loop")
	for part := range 4 {
		for i := range in {
			n.op("VLD1.P 32(R%d), %s", 2+i, list(numbers(16+2*i, 2)))
		}
		for half := range 2 {
			for i := range in {
				n.do(fcvtl, 20+2*i, 16+2*i+half)
				n.do(fcvtl2, 21+2*i, 16+2*i+half)
			}
			for k := range 2 {
				step(4*part+2*half+k, 20+k, 22+k)
			}
		}
	}
	n.op("SUBS $1, R%d", groups)
	n.op("BNE loop")
	for part := range 4 {
		v := numbers(4*part, 4)
		n.op("VST1.P [V%d.D2, V%d.D2, V%d.D2, V%d.D2], 64(R%d)", v[0], v[1], v[2], v[3], to)
	}
	n.op("RET")
}

// words are the names of a list.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
