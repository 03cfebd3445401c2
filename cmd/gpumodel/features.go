package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cuda/model"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/usage"
)

// mapParts is in how many parts a device works through a table.
const mapParts = 50

// mapped is the time in which a GPU that is not there makes features of images.
type mapped struct {
	Kind     string         `json:"kind"`     // aModel
	Modelled bool           `json:"modelled"` // true
	GPU      string         `json:"gpu"`
	Machine  model.Machine  `json:"machine"`
	Data     string         `json:"data"`
	Features string         `json:"features"`
	Images   int            `json:"images"`
	Values   int            `json:"values_per_image"`
	Seconds  float64        `json:"seconds"`
	FLOPs    int64          `json:"flops_per_image"` // of products, those that the front end's ops have
	Share    float64        `json:"share_of_peak"`   // of float32's rate
	Launches int            `json:"launches_per_part"`
	DRAM     int64          `json:"dram_bytes"`
	Notes    []string       `json:"assumptions"`
	Kernels  []model.Kernel `json:"kernels"` // of a part
}

func mapping() *cobra.Command {
	var gpu, data string
	var images int
	return cli.Command{
		Use:   "features",
		Short: "Model how images become features",
		Long: `features models the time in which a GPU makes the features of a data set's images, by the front end that
the recipe best has for them. One part of the images is modelled; the others take as long.`,
		Example: "  go run ./cmd/gpumodel features --gpu h200 --data cifar10",
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&gpu, "gpu", "h200", strings.Join(model.Names(), ", "))
			f.StringVar(&data, "data", "cifar10", "mnist, fmnist or cifar10")
			f.IntVar(&images, "images", 60000, "number of images")
		},
		Run: func(c *cli.Call) error {
			r, err := modelMap(gpu, data, images)
			if err != nil {
				return err
			}
			return cli.Show(c, r, describeMap)
		},
	}.New()
}

// frontOf is the front end of the recipe for a data set.
func frontOf(data string) (*features.Front, error) {
	r, err := recipes.Find(recipes.Best, data, [3]int{}, math.Inf(1))
	if err != nil || r.Data != data || r.Features == "" {
		return nil, usage.Errorf("the recipe %s has no features for %q: use mnist, fmnist or cifar10", recipes.Best, data)
	}
	return features.New(features.Spec{Kind: r.Features, Whiten: features.Whitening(r.Whiten), Mirror: r.Mirror, Deskew: r.Deskew, Shape: r.Shape}, nil)
}

// modelMap models one part of a map, of images of which nothing depends on their content.
func modelMap(gpu, data string, images int) (*mapped, error) {
	machine := model.Find(gpu)
	if machine == nil {
		return nil, usage.Unknown("gpu", gpu, model.Names())
	}
	if images < mapParts {
		return nil, usage.Errorf("%d images: give %d or more", images, mapParts)
	}
	front, err := frontOf(data)
	if err != nil {
		return nil, err
	}
	m, driver := model.New(machine)
	d, err := cuda.Open(driver, 0)
	if err != nil {
		return nil, err
	}
	in := front.In()
	part, pixels := images/mapParts, ir.Size(in[:])
	rows := device.Rows{Count: part, Width: pixels, Gather: device.Fractions, Targets: make([]float32, part)}
	table, err := d.Load(rows, device.Bytes(slices.Repeat([]uint8{100}, part*pixels)))
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	m.Take()
	_, err = d.Map(front, table, device.MapOptions{Parts: 1})
	all, _ := m.Take()
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	program, _ := front.Program()
	r := &mapped{
		Kind: aModel, Modelled: true, GPU: gpu, Machine: *machine, Data: data, Features: front.Spec().Kind, Images: images, Values: front.Width(),
		Launches: len(all), Kernels: all, FLOPs: products(program),
		Notes: append(model.Assumptions(), fmt.Sprintf("%d images are modelled, and %d times as many take %d times as long; how images come onto the GPU is left out", part, mapParts, mapParts)),
	}
	var total time.Duration
	for i := range all {
		total += all[i].Duration()
		r.DRAM += mapParts * all[i].Counts.DRAM
	}
	r.Seconds = mapParts * total.Seconds()
	r.Share = float64(r.FLOPs) * float64(mapParts*part) / r.Seconds / machine.FLOPs(device.Float32)
	return r, nil
}

// products are the operations of an image's products.
func products(p *ir.Program) (n int64) {
	for i := range p.Ops {
		switch op := &p.Ops[i]; op.Kind {
		case ir.Conv, ir.Dense, ir.Planes:
			n += op.FLOPs()
		}
	}
	return n
}

func describeMap(w io.Writer, r *mapped) {
	fmt.Fprintf(w, "Features %s of %d images of %s on %s\nThis is %s.\n\n", r.Features, r.Images, r.Data, r.Machine.Title, r.Kind)
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  all images\t%.3g s\n", r.Seconds)
		fmt.Fprintf(w, "  products of an image\t%.4g MFLOP, at %.0f%% of the full rate of float32\n", float64(r.FLOPs)/1e6, 100*r.Share)
		fmt.Fprintf(w, "  GPU memory moved\t%s\n", cli.ByteSize(r.DRAM))
		fmt.Fprintf(w, "  a row\t%d values\n", r.Values)
	})
	fmt.Fprintf(w, "\nOne of %d parts, in %d launches:\n", mapParts, r.Launches)
	describeKernels(w, r.Kernels)
	fmt.Fprintln(w, "\nWhat the model assumes:")
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  - %s\n", n)
	}
}
