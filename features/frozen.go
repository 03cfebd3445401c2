package features

import (
	"io"
	"slices"

	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/work"
)

// FrozenKind is the name of features that the frozen part of a public network makes.
const FrozenKind = "frozen"

// A Network is the part of a public network that is not trained.
type Network interface {
	// Program is the map as ops, with its constants; nil where it runs elsewhere.
	Program() (*ir.Program, []float32)
	// Open gives what maps records, for so many threads.
	Open(threads int) (Runner, error)
	// Rest ends what Open made and nobody uses, which takes memory.
	Rest()
	// Write writes a file from which the same map can be made again: its digest is the map's.
	Write(w io.Writer) error
}

// A Runner maps finite records, which lie one after the other, to their outputs. Outputs of a record have the same bits
// whatever other records there are.
type Runner interface {
	Of(dst, records []float32) error
	Close()
}

// Frozen gives the front end that a public network is, from records of shape in to rows of shape out.
func Frozen(in, out [3]int, n Network) (*Front, error) {
	for _, shape := range [][3]int{in, out} {
		if slices.Min(shape[:]) < 1 || float64(shape[0])*float64(shape[1])*float64(shape[2]) > maxOwn {
			return nil, usage.Errorf("the frozen part of the network has a side of %s values, and at most %d are allowed: freeze up to another node", shapeText(shape), maxOwn)
		}
	}
	return &Front{spec: Spec{Kind: FrozenKind, Whiten: None, Shape: in}, network: n, out: out}, nil
}

// fillNetwork writes the rows of images, some at a time.
func (f *Front) fillNetwork(rows []uint16, images Images, threads int, p *work.Meter) error {
	run, err := f.network.Open(threads)
	if err != nil {
		return err
	}
	defer run.Close()
	in, width := volume(f.In()), f.Width()
	n := len(rows) / width
	records, out := make([]float32, networkTogether*in), make([]float32, networkTogether*width)
	list := make([][]uint16, 0, networkTogether)
	for first := 0; first < n; first += networkTogether {
		end := min(first+networkTogether, n)
		list = list[:0]
		for k := first; k < end; k++ {
			if images.take(records[len(list)*in:][:in], k) {
				list = append(list, rows[k*width:(k+1)*width])
			}
		}
		if err := run.Of(out[:len(list)*width], records[:len(list)*in]); err != nil {
			return err
		}
		for k, row := range list {
			if !pack(row, out[k*width:(k+1)*width]) {
				fill(row, notANumber)
			}
		}
		p.Add(end - first)
	}
	return nil
}

// Rest frees the memory of a network that nobody needs for now.
func (f *Front) Rest() {
	if f.network != nil {
		f.network.Rest()
	}
}

// networkTogether is how many records a network is given at a time.
const networkTogether = 256

// Probe maps images that are no records: it finds out whether the map works, gives values that half precision holds, and makes each
// row of its image alone.
func (f *Front) Probe(threads int) (err error) {
	defer fault.Recover(&err)
	images := probes(f.In())
	run, err := f.network.Open(1)
	if err != nil {
		return err
	}
	err = run.Of(make([]float32, f.Width()), slices.Clone(images[0])) // no record: its error may be told
	if run.Close(); err != nil {
		return err
	}
	together := f.Rows(Images{Values: slices.Concat(images...)}, threads, nil)
	bad := 0
	for i, image := range images {
		row := together[i*f.Width():][:f.Width()]
		if row[0] == notANumber {
			bad++
		}
		if !slices.Equal(row, f.Rows(Images{Values: image}, 1, nil)) {
			return usage.Errorf("the frozen part of the network gives a made-up image other values alone than among others, so that one record would see another: freeze up to another node, without the operation that does it")
		}
	}
	if bad > 0 {
		return usage.Errorf("the frozen part of the network gives values of %d of %d made-up images that are not finite, or above %d: put a normalization or a smaller scale at its end, or freeze up to another node", bad, len(images), half.Max)
	}
	return nil
}
