package bench

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	for _, model := range []string{os.Getenv("M")} {
		began := time.Now()
		var b int
		fmt.Sscan(os.Getenv("B"), &b)
		r, err := ModelStep(StepOptions{Model: model, Batch: b, Mode: os.Getenv("MODE"), Strategy: "auto", Activation: "relu", Device: "modelled:" + os.Getenv("D"), Precision: os.Getenv("P"), Seconds: 1, Explain: os.Getenv("MODE") == "private"})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range r.Kernels {
			c := k.Counts
			fmt.Printf("%-26s g%-14v t%-4d r%d w%d s%-3d us %.2f tp %.2f lat %.2f l2 %.2f dram %.2f %s instr/blk %d ffma%% %.0f int%% %.0f chain %d confl %.2f\n", k.Name, k.Grid, k.Threads, k.Resident, k.Waves, k.Sampled, 1e6*k.Seconds, 1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM, k.Bound,
				func() (s int64) { for _, x := range c.Instructions { s += x }; return s / int64(k.Blocks) }(), 100*float64(c.Instructions["fma32"])/func() (s float64) { s=1;for _, x := range c.Instructions { s += float64(x) }; return }(),100*float64(c.Instructions["integer"]+c.Instructions["integer_multiply"])/func() (s float64) { s=1;for _, x := range c.Instructions { s += float64(x) }; return }(), c.Chain, float64(c.Conflicts)/float64(max(1,c.Waves)))
		}
		fmt.Println(model, r.Batch, r.Together, r.Mode, r.Precision, "ms", 1e3*r.Seconds, "roof", 1e3*r.Roofline, "launches", r.Launches, "took", time.Since(began))
		for _, l := range r.Layers { fmt.Printf("   %s %s %.1f %.1f %.1f\n", l.Name, l.Choice, 1e6*l.Forward, 1e6*l.Backward, 1e6*l.Gradient) }
	}
}
