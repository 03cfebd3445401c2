package features

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/patches"
)

// Patches of patches, as in convolutional kernel networks (Mairal 2016), with a second layer of random vectors (Le, Sarlós and Smola
// 2013). A feature sees which pairs of atoms are found together.

const (
	pairsImages = 1000 // over which the first layer's covariance is measured
	pairsLeast  = 21   // pixels, each way
)

// pairsSizes are the patches of the first layer: pixels each way, atoms without their mirror images, and places from one
// average to the next.
var pairsSizes = []pairsSize{{4, 32, 3}, {6, 64, 2}, {8, 64, 3}}

type pairsSize struct{ side, atoms, stride int }

var pairsChannels = patches.Vectors * len(pairsSizes)

var pairsKind = kind{
	name:   "pairs",
	weight: 1,
	damp:   .01,
	halves: func(constant string) bool { return constant == whitenerName },
	check: func(shape [3]int) string {
		if min(shape[1], shape[2]) < pairsLeast {
			return "of 21×21 pixels or more"
		}
		return ""
	},
	depth: func([3]int) int { return pairsChannels },
	shapes: func(shape [3]int) map[string][]int {
		all := map[string][]int{}
		for _, s := range pairsSizes {
			all[atomsName(s.side)] = []int{s.atoms, shape[0], s.side, s.side}
			all[projectName(s.side)] = []int{patches.Directions, 4 * s.atoms}
			all[offsetName(s.side)] = []int{patches.Directions}
		}
		return all
	},
	fit: func(shape [3]int, progress func(share float64)) (map[string][]float32, error) {
		all := map[string][]float32{}
		for i, s := range pairsSizes {
			all[atomsName(s.side)] = patches.Dictionary(shape, s.side, s.atoms)
			l := firstOf(shape, s, all[atomsName(s.side)])
			mean, covariance, diagonal, err := covarianceOf(l, Leaves, shape, pairsImages, func(float64) {})
			if err != nil {
				return nil, err
			}
			project, offset := patches.Find(mean, covariance, diagonal)
			if project == nil {
				return nil, singular(shape, l.channels)
			}
			all[projectName(s.side)], all[offsetName(s.side)] = project, offset
			progress(float64(i+1) / float64(len(pairsSizes)))
		}
		return all, nil
	},
	fitTime: func(shape [3]int) (all time.Duration) {
		for _, s := range pairsSizes {
			random := randoms(rand.New(rand.NewPCG(1, 2)), []int{s.atoms, shape[0], s.side, s.side})
			all += patches.DictionaryTime(shape, s.side, s.atoms) + momentsTime(firstOf(shape, s, random), Leaves, shape, pairsImages)
		}
		return all
	},
	open: func(shape [3]int, mirror bool, constants map[string][]float32) layer {
		var all []*patches.Pairs
		for _, s := range pairsSizes {
			all = append(all, s.open(shape, mirror, constants).Ready())
		}
		return onCells(all, patches.Vectors)
	},
	program: func(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value {
		var parts []ir.Value
		for _, s := range pairsSizes {
			parts = append(parts, s.open(shape, mirror, constants).Program(b, image))
		}
		return b.Concat(1, []int{pairsChannels, patches.Grid, patches.Grid}, parts...)
	},
}

func (s pairsSize) open(shape [3]int, mirror bool, constants map[string][]float32) *patches.Pairs {
	return patches.NewPairs(shape, mirror, s.side, s.stride, patches.Constants{
		Atoms: constants[atomsName(s.side)], Project: constants[projectName(s.side)], Offset: constants[offsetName(s.side)],
	})
}

// firstOf is the first layer of a size.
func firstOf(shape [3]int, s pairsSize, atoms []float32) layer {
	var l layer
	l.channels, l.rows, l.cols, l.worker = patches.NewPairs(shape, false, s.side, s.stride, patches.Constants{Atoms: atoms}).First()
	return l
}

func projectName(side int) string { return fmt.Sprintf("project%d", side) } // from the first layer to directions
func offsetName(side int) string  { return fmt.Sprintf("offset%d", side) }  // added there
