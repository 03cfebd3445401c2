package kernels

import "github.com/privgrad/privgrad/internal/device"

// KeyBytes is the size of a key in device memory: the 8 words of a ChaCha20 key,
// uint32, as stream.Stream.KeyWords gives them.
const KeyBytes = 32

// noiseThreads draw a block of ChaCha20 each, which makes 8 normals.
const noiseThreads = 64

// Release sets dst[i] = sum[i] + s·z and then sum[i] = 0, i < n: dst is float32, sum
// float64, s the run's scalar std. z is standard normal number i of (run's Draw,
// tensor) in the ChaCha20 stream of the key, as package stream defines it: from the
// same keystream, within 4e-7·|z| + 1e-14 of stream.Normals. The sum is rounded to
// float64 and then to float32. s = 0 adds nothing and draws nothing.
//
// A draw is a function of key, draw, tensor and i alone.
func Release(run, dst, sum Ptr, n int, key Ptr, tensor uint32, std device.Slot) Launch {
	return Launch{
		Module: "noise", Name: "release", Grid: [3]int{ceil(n, 8*noiseThreads), 1, 1}, Block: [3]int{noiseThreads, 1, 1},
		Args: []uint64{run, dst, sum, I(n), key, uint64(tensor), I(int(std))},
	}
}

// Keystream writes n blocks of 64 bytes of the stream of a key to dst, from block
// first of (draw, tensor) on: what Release draws from, for checks of a device
// against package stream.
func Keystream(dst Ptr, n int, key Ptr, draw uint64, tensor, first uint32) Launch {
	return Launch{
		Module: "noise", Name: "keystream", Grid: [3]int{ceil(n, noiseThreads), 1, 1}, Block: [3]int{noiseThreads, 1, 1},
		Args: []uint64{dst, I(n), key, draw, uint64(tensor), uint64(first)},
	}
}

// Normals writes the normals that words of a keystream make, for checks of a device: dst[i],
// float32, i < 2·pairs, from words[2·(i/2)] and words[2·(i/2)+1], uint64.
func Normals(dst, words Ptr, pairs int) Launch {
	return Launch{
		Module: "noise", Name: "normals", Grid: [3]int{ceil(pairs, noiseThreads), 1, 1}, Block: [3]int{noiseThreads, 1, 1},
		Args: []uint64{dst, words, I(pairs)},
	}
}
