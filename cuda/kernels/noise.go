package kernels

import "github.com/privgrad/privgrad/internal/device"

// KeyWords is the size of a key in device memory: the words of a ChaCha20 key,
// uint32 (stream.Stream.KeyWords).
const KeyWords = 8

// Release sets dst[i] = sum[i] + s·z and then sum[i] = 0, i < n, both float32. s is the
// run's scalar std; z is standard normal number i of (run's Draw, tensor) in the ChaCha20 stream of
// the key, as package stream defines it: from the same keystream bits, within
// 3.5e-7·|z| + 1e-14 of stream.Normals. The sum is one fused operation. s = 0 adds nothing and draws nothing.
//
// A draw is a function of key, draw, tensor and i alone.
func Release(run, dst, sum Ptr, n int, key Ptr, tensor uint32, std device.Slot) Launch {
	return Launch{
		Module: "noise", Name: "release", Grid: line(blocks(n, 8*64)), Block: line(64),
		Args: []uint64{run, dst, sum, I(n), key, uint64(tensor), I(int(std))},
	}
}

// ReleaseScalars is Release for a sum in float64: sum plus noise is rounded to
// float64, then to float32.
func ReleaseScalars(run, dst, sum Ptr, n int, key Ptr, tensor uint32, std device.Slot) Launch {
	return Launch{
		Module: "noise", Name: "release_scalars", Grid: line(blocks(n, 8*64)), Block: line(64),
		Args: []uint64{run, dst, sum, I(n), key, uint64(tensor), I(int(std))},
	}
}

// Keystream writes blocks of 64 bytes of the stream of a key to dst, from block first
// of (draw, tensor) on: what Release draws from, for checks of a device
// against package stream.
func Keystream(dst Ptr, blocks64 int, key Ptr, draw uint64, tensor, first uint32) Launch {
	return Launch{
		Module: "noise", Name: "keystream", Grid: line(blocks(blocks64, 64)), Block: line(64),
		Args: []uint64{dst, I(blocks64), key, draw, uint64(tensor), uint64(first)},
	}
}
