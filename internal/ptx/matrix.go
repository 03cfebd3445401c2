package ptx

import (
	"math/bits"
	"slices"
)

const matrixRow = 16 // bytes of a row of an 8×8 matrix of b16

// decodeMatrix reads ldmatrix (ISA 9.7.13.4.16): count matrices, each a 32-bit register of every lane.
func (p *parser) decodeMatrix(in *inst, part []string, ops []operand) (err error) {
	if len(part) == 8 && part[5] == "trans" {
		in.mode = part[5]
		part = slices.Delete(slices.Clone(part), 5, 6)
	}
	if len(part) != 7 || !slices.Equal(part[1:4], []string{"sync", "aligned", "m8n8"}) || !slices.Equal(part[5:], []string{"shared", "b16"}) {
		return errForm
	}
	in.count = map[string]int{"x1": 1, "x2": 2, "x4": 4}[part[4]]
	if err := arity(ops, 2); err != nil || in.count == 0 || ops[0].kind != oVec || len(ops[0].list) != in.count {
		return errForm
	}
	in.op, in.space, in.width = opMatrix, inShared, 4
	for i, o := range ops[0].list {
		if in.list[i], err = p.dest(o, b32, false); err != nil {
			return err
		}
	}
	return p.address(in, ops[1])
}

// givers are the lanes whose addresses ldmatrix reads: eight for each matrix.
func (in *inst) givers() uint32 { return uint32(1<<(8*in.count) - 1) }

// loadMatrices is ldmatrix. Lane 8j+r gives the address of row r of matrix j. Lane i gets of every matrix the elements of row
// i/4 and columns 2(i%4) and 2(i%4)+1, and of a transposed one those of column i/4 and rows 2(i%4) and 2(i%4)+1.
func (w *warp) loadMatrices(l *launch, in *inst, m uint32) *Fault {
	if m != full {
		return l.fault(w, in, bits.TrailingZeros32(m), Divergence, 0, "needs a whole warp")
	}
	base := w.get(l, in.src[0])
	var rows [32][8]uint64
	me := w.access(l, in)
	var p place
	for lane := range 8 * in.count {
		addr := base[lane] + in.off
		if !p.holds(lane, addr, matrixRow) {
			var f *Fault
			if p, f = w.resolve(l, in, lane, inShared, addr, matrixRow); f != nil {
				return f
			}
		}
		if f := w.readRow(l, in, lane, &p, addr, &me); f != nil {
			return f
		}
		b := p.s.bytes(addr-p.from, matrixRow)
		for k := range rows[lane] {
			rows[lane][k] = get(b[2*k:], 2)
		}
	}
	for j := range in.count {
		matrix := rows[8*j:][:8]
		var out vec
		for lane := range out {
			major, minor := lane/4, 2*(lane%4)
			if in.mode == "trans" {
				out[lane] = matrix[minor][major] | matrix[minor+1][major]<<16
			} else {
				out[lane] = matrix[major][minor] | matrix[major][minor+1]<<16
			}
		}
		w.set(in.list[j], full, &out)
	}
	return nil
}

// readRow checks that a row was written, and that nothing races with its read. Other lanes get it than the one that gives its
// address. So it counts as read by two: whichever lane wrote a part of it, with nothing between, races with one of them.
func (w *warp) readRow(l *launch, in *inst, lane int, p *place, addr uint64, me *access) *Fault {
	if f := w.checkRead(l, in, lane, p.s, addr-p.from, addr, matrixRow); f != nil {
		return f
	}
	for _, reader := range [2]int{lane, lane ^ 1} {
		if f := w.race(l, in, reader, p, addr, matrixRow, reads, me); f != nil {
			return f
		}
	}
	return nil
}
