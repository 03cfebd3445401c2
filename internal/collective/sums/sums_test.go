package sums

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// alone is a group of one rank.
type alone struct{}

func (alone) Rank() int                   { return 0 }
func (alone) Size() int                   { return 1 }
func (alone) SumInt64([]int64) error      { return nil }
func (alone) SumFloat64([]float64) error  { return nil }
func (alone) Broadcast(int, []byte) error { return nil }
func (alone) Barrier() error              { return nil }
func (alone) Abort(error)                 {}
func (alone) Close() error                { return nil }

// several is a group of so many ranks.
type several struct {
	alone
	size int
}

func (g several) Size() int { return g.size }

func TestRanksShareAChunk(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ chunk, ranks, want int }{{0, 2, 0}, {256, 1, 256}, {256, 2, 128}, {512, 4, 128}, {256, 8, 64}, {50, 2, 50}} {
		s := &shared{d, several{size: c.ranks}}
		if got := s.share(&ir.Schedule{Chunk: c.chunk}).Chunk; got != c.want {
			t.Errorf("of chunks of %d, each of %d ranks takes %d, want %d", c.chunk, c.ranks, got, c.want)
		}
	}
}

// One rank keeps every promise of the device contract.
func TestOneRankIsADevice(t *testing.T) {
	t.Run("cpu", func(t *testing.T) {
		devicetest.Run(t, func(t *testing.T) device.Device {
			d, err := cpu.Open(2)
			if err != nil {
				t.Fatal(err)
			}
			return devicetest.Sampled(Wrap(d, alone{}), 9)
		})
	})
	t.Run("reference", func(t *testing.T) {
		devicetest.Run(t, func(*testing.T) device.Device { return devicetest.Sampled(Wrap(reference.Open(), alone{}), 31) })
	})
}

// TestLongOneRankIsAGPU does so on the interpreter, which is slow.
func TestLongOneRankIsAGPU(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device {
		d, err := gpu()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return devicetest.Sampled(Wrap(d, alone{}), 97)
	})
}
