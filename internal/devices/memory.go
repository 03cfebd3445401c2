package devices

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// unknownMemory is the default budget where the machine's memory is unknown.
const unknownMemory = 512 << 20

// DefaultMemory is the budget for a batch's values and stored gradients: a quarter of the device's memory, or of the machine's
// for a device that has none of its own. Where others leave less than half of the device's, it is half of what they leave. It
// comes in whole steps of 64 MiB so that a new kernel's share does not change it.
func DefaultMemory(d device.Info) int64 {
	bytes, _ := budget(d)
	return bytes
}

func budget(d device.Info) (bytes int64, shared bool) {
	const step = 64 << 20
	all := d.Memory
	if all == 0 {
		all = machineMemory()
	}
	bytes = all / 4 / step * step
	if half := d.Room / 2 / step * step; d.Memory > 0 && half < bytes {
		return max(half, step), true
	}
	if bytes == 0 {
		bytes = unknownMemory
	}
	return bytes, false
}

// Warnings say what a user should know of a device that was opened: that it is no GPU though one seems to be here, and, unless
// some memory was asked for, that others leave it little.
func Warnings(d device.Info, memory string) (all []string) {
	if d.Instead != "" {
		all = append(all, "device auto: the CPU, and not the GPU: "+d.Instead)
	}
	if bytes, shared := budget(d); shared && memory == "" {
		all = append(all, fmt.Sprintf("memory: a batch gets %d MiB, half of what others leave of the GPU's memory; --memory gives it more or less", bytes>>20))
	}
	return all
}

// Units of memory, and the most that anybody has.
var memoryUnits = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1e3, "MB": 1e6, "GB": 1e9}

const mostMemory = 1 << 50

// ParseMemory reads a number of bytes; nothing is 0.
func ParseMemory(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	scale, ok := memoryUnits[text[len(number):]] // the unit may be left out
	n, err := written.Number(strings.TrimSpace(number))
	if err != nil || !(n > 0) || !ok || n*scale > mostMemory {
		return 0, usage.Errorf("memory %q: write a size such as 2GiB or 512MiB", text)
	}
	return int64(n * scale), nil
}
