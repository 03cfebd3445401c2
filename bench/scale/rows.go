package scale

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

const (
	syntheticName    = "synthetic"
	syntheticClasses = 10
	// Records are made in blocks, each from a seed of its own, and written to so many shards.
	syntheticBlock  = 1 << 14
	syntheticShards = 4
)

// syntheticSet is a set of made-up records without its records.
func syntheticSet(shape [3]int, records int) *datasets.Set {
	set := &datasets.Set{Name: syntheticName, Classes: syntheticClasses, PublicN: records, Train: datasets.Split{Shape: shape}}
	for k := range syntheticClasses {
		set.ClassNames = append(set.ClassNames, strconv.Itoa(k))
	}
	return set
}

// syntheticRecords are records number from and following, up to end. from is a multiple of syntheticBlock.
func syntheticRecords(shape [3]int, from, end int) datasets.Split {
	width := ir.Size(shape[:])
	m := datasets.Split{Shape: shape, Features: pages.Make[uint8]((end - from) * width), Labels: make([]uint8, end-from)}
	for at := from; at < end; at += syntheticBlock {
		last := min(at+syntheticBlock, end)
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[:], uint64(at))
		random := rand.NewChaCha8(seed)
		labels := m.Labels[at-from : last-from]
		_, _ = random.Read(labels) // which gives no error
		for i := range labels {
			labels[i] %= syntheticClasses
		}
		_, _ = random.Read(m.Features[(at-from)*width : (last-from)*width])
	}
	return m
}

// write puts the records into the point's folder, a block at a time.
func (p Point) write(ctx context.Context) error {
	shape, err := p.shape()
	if err != nil {
		return err
	}
	w, err := shards.Create(p.Shards, syntheticSet(shape, p.Records), p.Records, min(syntheticShards, p.Records))
	if err != nil {
		return err
	}
	defer w.Abort()
	for from := 0; from < p.Records; from += syntheticBlock {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.Train(syntheticRecords(shape, from, min(from+syntheticBlock, p.Records))); err != nil {
			return err
		}
	}
	return w.Close()
}
