package cpu_test

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
)

func open(t testing.TB, threads int) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device { return open(t, threads) })
		})
	}
}
