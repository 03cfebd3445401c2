package bench

import (
	"time"

	"github.com/privgrad/privgrad/internal/stream"
)

// NoiseOptions says how to time Gaussian noise.
type NoiseOptions struct {
	Threads int     // 0 for all; one thread is measured in any case
	Seconds float64 // for each cipher and number of threads
}

// NoiseResult is what Gaussian noise costs.
type NoiseResult struct {
	Ciphers []CipherResult `json:"ciphers"`
}

// CipherResult is the noise of one cipher's stream on a number of threads. A
// draw is one normal, added to one float32.
type CipherResult struct {
	Cipher         string  `json:"cipher"`
	Threads        int     `json:"threads"`
	SecondsPerDraw float64 `json:"seconds_per_draw_per_core"`
	DrawsPerSecond float64 `json:"draws_per_second"` // of all threads
}

// noiseBlock is how many draws a thread makes at a time, as the CPU device does.
const noiseBlock = 8192

// noiseRounds is how many times the ciphers take turns.
const noiseRounds = 7

// Noise times the draws of every cipher.
func Noise(o NoiseOptions) (*NoiseResult, error) {
	if err := checkSeconds(o.Seconds); err != nil {
		return nil, err
	}
	counts, err := threadCounts(o.Threads)
	if err != nil {
		return nil, err
	}
	var entries []CipherResult
	var streams []*stream.Stream
	for _, n := range counts {
		for _, c := range []stream.Cipher{stream.AES256CTR, stream.ChaCha20} {
			s, err := stream.New(c, stream.KeyFromSeed(1, "bench noise"))
			if err != nil {
				return nil, err
			}
			streams = append(streams, s)
			entries = append(entries, CipherResult{Cipher: c.String(), Threads: n})
		}
	}
	times := make([][]float64, len(entries)) // seconds a draw and core
	for range noiseRounds {
		for i := range entries {
			times[i] = append(times[i], drawTime(streams[i], entries[i].Threads, o.Seconds/noiseRounds))
		}
	}
	for i := range entries {
		e := &entries[i]
		e.SecondsPerDraw = median(times[i])
		e.DrawsPerSecond = float64(e.Threads) / e.SecondsPerDraw
	}
	return &NoiseResult{Ciphers: entries}, nil
}

// drawTime is the seconds that a draw takes a core while so many draw.
func drawTime(s *stream.Stream, threads int, seconds float64) float64 {
	drawers := make([]drawer, threads)
	draw := func(blocks int) time.Duration {
		return together(threads, func(t int) {
			for b := range blocks {
				drawers[t].add(s, uint64(b), uint32(t))
			}
		})
	}
	const few = 8
	draw(1)
	blocks := max(1, int(seconds/draw(few).Seconds()*few))
	return draw(blocks).Seconds() / float64(blocks*noiseBlock)
}

// A drawer is what one thread adds noise with.
type drawer struct{ dst [noiseBlock]float32 }

// add adds noise to a block, the way the CPU device's release does.
func (d *drawer) add(s *stream.Stream, step uint64, tensor uint32) {
	s.AddNormals(d.dst[:], d.dst[:], 1, step, tensor, 0)
}
