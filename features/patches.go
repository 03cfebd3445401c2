package features

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/patches"
)

// Patches compared with a dictionary (Coates and Ng 2011): what every patch of an image,
// less its mean and over its contrast, has in common with atoms, shrunk towards zero, in
// two parts by its sign, and averaged over four cells. Atoms are whitened patches of
// dead leaves, as many of every side.

const patchAtoms = 512 // of each side

// patchSides are those of patches, in pixels; the largest is last.
var patchSides = []int{4, 6}

var (
	patchLargest  = patchSides[len(patchSides)-1]
	patchChannels = 2 * patchAtoms * len(patchSides)
)

var patchesKind = kind{
	name:   "patches",
	weight: .7,
	damp:   .01,
	halves: func(constant string) bool { return constant == whitenerName },
	check: func(shape [3]int) string {
		if min(shape[1], shape[2]) < patchLargest+patches.Grid-1 {
			return "of 7×7 pixels or more"
		}
		return ""
	},
	depth: func([3]int) int { return patchChannels },
	shapes: func(shape [3]int) map[string][]int {
		all := map[string][]int{}
		for _, side := range patchSides {
			all[atomsName(side)] = []int{patchAtoms, shape[0], side, side}
		}
		return all
	},
	fit: func(shape [3]int, progress func(share float64)) (map[string][]float32, error) {
		all := map[string][]float32{}
		for i, side := range patchSides {
			all[atomsName(side)] = patches.Dictionary(shape, side, patchAtoms)
			progress(float64(i+1) / float64(len(patchSides)))
		}
		return all, nil
	},
	fitTime: func(shape [3]int) (all time.Duration) {
		for _, side := range patchSides {
			all += patches.DictionaryTime(shape, side, patchAtoms)
		}
		return all
	},
	open: func(shape [3]int, mirror bool, constants map[string][]float32) layer {
		var all []*patches.Patches
		for _, side := range patchSides {
			all = append(all, patches.New("patches", shape, mirror, side, constants[atomsName(side)]).Ready())
		}
		return onCells(all, 2*patchAtoms)
	},
	program: func(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value {
		var parts []ir.Value
		for _, side := range patchSides {
			parts = append(parts, patches.New("patches", shape, mirror, side, constants[atomsName(side)]).Program(b, image))
		}
		return b.Concat(1, []int{patchChannels, patches.Grid, patches.Grid}, parts...)
	},
}

// onCells joins maps of so many channels each, on the cells of an image.
func onCells[M interface {
	Worker() func(dst gemm.Matrix, image []float32)
}](all []M, channels int) layer {
	const cells = patches.Grid * patches.Grid
	l := layer{channels: channels * len(all), rows: patches.Grid, cols: patches.Grid, keep: patches.Grid}
	l.worker = func() func(dst, image []float32) {
		var workers []func(dst gemm.Matrix, image []float32)
		for _, m := range all {
			workers = append(workers, m.Worker())
		}
		return func(dst, image []float32) {
			grid := gemm.RowMajor(dst, cells, l.channels)
			for i, work := range workers {
				work(grid.Slice(0, cells, i*channels, (i+1)*channels), image)
			}
		}
	}
	return l
}

func atomsName(side int) string { return fmt.Sprintf("atoms%d", side) }
