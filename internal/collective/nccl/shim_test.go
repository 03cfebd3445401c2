//go:build gocuda && cgo && linux

package nccl

import (
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/collective/collectivetest"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv/cudrvtest"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

// The whole way, through cgo and the names of NCCL, to the fake.
func TestThroughTheShim(t *testing.T) {
	f := fake.New(fake.Options{})
	if err := cudrvtest.Install(f); err != nil {
		t.Fatal(err)
	}
	d, err := cudrv.Open()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(d, Options{Size: 1, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := collectivetest.Run(g); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil || f.Live() != 0 || cudrvtest.Handles() != 0 || cudrvtest.Strays() != 0 {
		t.Errorf("%v; %d objects and %d handles live, %d calls had wrong handles", err, f.Live(), cudrvtest.Handles(), cudrvtest.Strays())
	}
}
