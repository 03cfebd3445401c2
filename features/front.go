package features

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/work"
)

// A Front maps images to rows. It holds no record, and goroutines may share it.
type Front struct {
	spec    Spec
	blocks  []*block
	own     Func    // in place of blocks
	network Network // likewise
	probed  []byte  // digest of what own gave for synthetic images
	out     [3]int
	origin  origin
}

// Made reports whether this program made the constants. What a file or a function holds is its owner's
// word.
func (f *Front) Made() bool { return f.origin != given }

// IsFunc reports whether the front end is a Go function of a user's own.
func (f *Front) IsFunc() bool { return f.own != nil }

// Digest identifies the front end: its constants, or what a user's function gives for synthetic
// images. No record is part of it. Made-up constants have none: it is empty.
func (f *Front) Digest() (string, error) {
	if f.origin == madeUp {
		return "", nil
	}
	if f.own != nil {
		return hex.EncodeToString(f.probed), nil
	}
	h := sha256.New()
	err := f.Write(h)
	return hex.EncodeToString(h.Sum(nil)), err
}

// A block is the part of a row that one kind makes.
type block struct {
	kind
	layer
	constants map[string][]float32 // of the kind, and the mean and whitener of its channels, if any
	whitener  gemm.PackedB
}

// The constants of whitening.
const (
	meanName     = "mean"
	whitenerName = "whitener" // the lower triangle, row by row
)

// New gives the front end of a spec, from constants that come with the package, if there
// are some for it; else it makes them anew, as Fit does.
func New(spec Spec, progress func(percent int)) (*Front, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if f, err := committed(spec); f != nil || err != nil {
		return f, err
	}
	return Fit(spec, progress)
}

// Fit makes the constants of a spec from synthetic images, in up to a minute on two
// cores for 32×32 pixels. They depend on the spec alone. progress, unless nil, gets 1 to 100.
func Fit(spec Spec, progress func(percent int)) (*Front, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	p := work.Meter{Report: progress}
	constants := map[string]map[string][]float32{}
	list := spec.kinds()
	for i, k := range list {
		begin := 0. // of whitening, in this kind's share of the work
		if k.fitTime != nil {
			begin = .5
		}
		part := func(from, to float64) func(share float64) {
			return func(share float64) {
				p.To(int(100 * (float64(i) + from + (to-from)*share) / float64(len(list))))
			}
		}
		own, err := k.fit(spec.Shape, part(0, begin))
		if err != nil {
			return nil, err
		}
		constants[k.name] = map[string][]float32{}
		maps.Copy(constants[k.name], own)
		if spec.Whiten == None {
			continue
		}
		l := k.open(spec.Shape, spec.Mirror, own)
		mean, whitener, err := fitWhitening(l, k.damp, spec.Whiten, spec.Shape, part(begin, 1))
		if err != nil {
			return nil, err
		}
		constants[k.name][meanName], constants[k.name][whitenerName] = mean, whitener
		if k.half(whitenerName) {
			for i, v := range whitener {
				whitener[i] = half.ToFloat32(half.FromFloat32(v))
			}
		}
	}
	p.Finish()
	f := assemble(spec, constants)
	f.origin = fitted
	return f, nil
}

// assemble makes the front end of constants that have been checked.
func assemble(spec Spec, constants map[string]map[string][]float32) *Front {
	f := &Front{spec: spec}
	width, channels := 0, 0
	grids := map[[2]int]bool{}
	for _, k := range spec.kinds() {
		b := &block{kind: k, layer: k.open(spec.Shape, spec.Mirror, constants[k.name]), constants: constants[k.name]}
		if spec.Whiten != None {
			gemm.PackUpper(&b.whitener, triangular(b.constants[whitenerName], b.channels).T())
		}
		f.blocks = append(f.blocks, b)
		width += b.width()
		channels += b.channels
		grids[[2]int{b.rows, b.keep}] = true
	}
	f.out = [3]int{width, 1, 1}
	if len(grids) == 1 {
		f.out = [3]int{channels, f.blocks[0].rows, f.blocks[0].keep}
	}
	return f
}

func (b *block) width() int { return b.channels * b.rows * b.keep }

// whiten gives a function for one goroutine, on the channels of any number of positions.
// It may overwrite what it reads.
func (b *block) whiten() func(dst, maps []float32) {
	mean, c := b.constants[meanName], b.channels
	if mean == nil {
		return func(dst, maps []float32) { copy(dst, maps) }
	}
	var packed gemm.PackedA
	return func(dst, maps []float32) {
		positions := len(dst) / c
		for o := range positions {
			vec.Axpy(maps[o*c:(o+1)*c], -1, mean)
		}
		gemm.PackA(&packed, gemm.RowMajor(maps, positions, c))
		gemm.MulPacked(gemm.RowMajor(dst, positions, c), &packed, &b.whitener, false)
	}
}

// Spec is what the front end was made of. Of an own map it has the name and the shape.
func (f *Front) Spec() Spec { return f.spec }

// In is the shape of an image: channels, height, width.
func (f *Front) In() [3]int { return f.spec.Shape }

// Out is the shape of a row: channels, height and width of a grid that all blocks share,
// else its width, 1 and 1. Where a row is the same for an image and its mirror image, the right half of
// the grid of scatter would repeat the left one: the row has only this.
func (f *Front) Out() [3]int { return f.out }

// Width is the number of values of a row.
func (f *Front) Width() int { return volume(f.out) }

// shapes lists the constants of a layer of a kind by name.
func (s Spec) shapes(k kind) map[string][]int {
	all := map[string][]int{}
	maps.Copy(all, k.shapes(s.Shape))
	if s.Whiten != None {
		c := k.depth(s.Shape)
		all[meanName], all[whitenerName] = []int{c}, []int{c * (c + 1) / 2}
	}
	return all
}
