package bench

import (
	"time"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// GPUGEMMResult compares who may multiply the matrices of a model's dense layers on a GPU.
type GPUGEMMResult struct {
	Device   string       `json:"device"`
	Model    string       `json:"model"`
	Batch    int          `json:"batch"`
	CuBLAS   *string      `json:"cublas_version"` // null where it is not installed
	NoBLAS   string       `json:"cublas_reason"`  // why it is not
	Products []GPUProduct `json:"products"`
	Own      float64      `json:"own_seconds"` // of all products
	Theirs   *float64     `json:"cublas_seconds"`
	Faster   *string      `json:"faster"` // own or cublas, in all
}

// GPUProduct is one matrix product.
type GPUProduct struct {
	Layer      string   `json:"layer"`
	Product    string   `json:"product"` // forward, input gradient, weight sum
	M          int      `json:"m"`
	K          int      `json:"k"`
	N          int      `json:"n"`
	Own        float64  `json:"own_seconds"`
	CuBLAS     *float64 `json:"cublas_seconds"`
	Faster     *string  `json:"faster"`
	RowsAlike  *bool    `json:"rows_alike"`         // false: training leaves the product to the project's kernels
	Difference *float64 `json:"largest_difference"` // in units of the largest value
}

// GPUGEMM times dense products on a GPU, by the project's kernels and by cuBLAS.
func GPUGEMM(o GEMMOptions) (*GPUGEMMResult, error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return nil, err
	}
	if o.Model == "" {
		return nil, usage.Errorf("device %s: the products of a model's dense layers are compared; give --model", o.Device)
	}
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	opened, err := devices.Open(o.Device, o.Threads)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	g, ok := opened.(*cuda.Device)
	if !ok {
		return nil, usage.Errorf("device %s is no GPU: leave --device out for the processor", o.Device)
	}
	s, err := perexample.Private(program, perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat})
	if err != nil {
		return nil, err
	}
	return compareGEMM(g, s, o)
}

func compareGEMM(g *cuda.Device, s *ir.Schedule, o GEMMOptions) (*GPUGEMMResult, error) {
	r := &GPUGEMMResult{Device: g.Info().Detail, Model: o.Model, Batch: o.Batch, Products: []GPUProduct{}}
	if v, err := g.CuBLAS(); err != nil {
		r.NoBLAS = err.Error()
	} else {
		r.CuBLAS = &v
	}
	products, err := g.CompareProducts(s, o.Batch, time.Duration(o.Seconds*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	faster := func(own, theirs float64) *string {
		if theirs < own {
			return new(devices.GEMMCuBLAS)
		}
		return new(devices.GEMMOwn)
	}
	total := 0.0
	for _, p := range products {
		x := GPUProduct{Layer: p.Layer, Product: p.Product, M: p.M, K: p.K, N: p.N, Own: p.Own.Seconds()}
		if r.CuBLAS != nil {
			seconds := p.CuBLAS.Seconds()
			x.CuBLAS, x.RowsAlike, x.Difference, x.Faster = &seconds, &p.RowsAlike, &p.Difference, faster(x.Own, seconds)
			total += seconds
		}
		r.Own += x.Own
		r.Products = append(r.Products, x)
	}
	if r.CuBLAS != nil {
		r.Theirs, r.Faster = &total, faster(r.Own, total)
	}
	return r, nil
}
