package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/bench/compare"
)

// workload is what a measurement is of.
type workload struct {
	model string
	batch int
}

// measured are those of all measurements.
var measured = []workload{
	{"cnn-mnist", 300}, {"cifar-small", 250}, {"mlp-fmnist", 300}, {"cifar-paper", 250}, {"mlp-mnist", 300}, {"mnist-tf", 300},
	{"wrn-16-4", 250}, {"resnet-small", 250}, {"wrn-40-4", 250},
}

// large is a batch that fills a GPU.
const large = 4096

// measurement is a training step's time beside what bounds it and what is modelled.
type measurement struct {
	Model     string  `json:"model"`
	Batch     int     `json:"batch"`
	Mode      string  `json:"mode"`
	Precision string  `json:"precision"`
	Seconds   float64 `json:"step_seconds_median"`
	// Roofline is what the products alone would take at the GPU's full rate, Modelled the step in
	// bench/results/modelled: null for a GPU that has no model, or a step that is not in it.
	Roofline *float64 `json:"roofline_seconds"`
	Modelled *float64 `json:"step_seconds_modelled"`
}

func (c *check) duration() time.Duration { return time.Duration(c.seconds * float64(time.Second)) }

// bench measures float32 first, and of every model before it measures more of one.
func (c *check) bench(ctx context.Context) {
	big := make([]workload, len(measured))
	for i, m := range measured {
		big[i] = workload{m.model, large}
	}
	for _, s := range []struct {
		of              []workload
		mode, precision string
	}{
		{measured, "private", "float32"},
		{big, "private", "float32"},
		{measured, "plain", "float32"},
		{measured, "private", "tf32"},
		{big, "private", "tf32"},
		{big, "plain", "float32"},
		{measured, "private", "bf16"},
		{measured, "plain", "tf32"},
		{big, "plain", "tf32"},
		{measured, "plain", "bf16"},
	} {
		for _, m := range s.of {
			c.benchStep(ctx, m, s.mode, s.precision)
		}
	}
	for _, m := range measured {
		c.run(ctx, job{
			name: "bench/" + m.model + " l2p", limit: 2*time.Minute + 2*c.duration(), needs: 3*time.Second + 2*c.duration(), command: c.timing("l2p", m, c.seconds),
		}, object)
	}
}

func (c *check) benchStep(ctx context.Context, m workload, mode, precision string) {
	name := "bench/" + m.model + " " + mode
	if precision != "float32" {
		name += " " + precision
	}
	more := []string{"--mode", mode, "--precision", precision}
	if mode == "private" {
		more = append(more, "--explain")
	}
	if m.batch == large {
		name += " " + strconv.Itoa(large)
	}
	c.run(ctx, job{
		name: name, limit: 2*time.Minute + 2*c.duration(), needs: 3*time.Second + c.duration()*3/2, command: c.timing("step", m, c.seconds, more...),
	}, func(s *step, stdout []byte) error {
		if err := object(s, stdout); err != nil {
			return err
		}
		var r bench.StepResult
		if err := json.Unmarshal(stdout, &r); err != nil {
			return err
		}
		if !(r.StepSeconds > 0) {
			return fmt.Errorf("it gave no time")
		}
		x := measurement{Model: m.model, Batch: m.batch, Mode: mode, Precision: precision, Seconds: r.StepSeconds}
		x.Roofline, x.Modelled = bench.Bounds(machineOf(c.report.GPU), m.model, m.batch, mode, precision)
		c.report.Measurements = append(c.report.Measurements, x)
		return nil
	})
}

// machineOf is the modelled machine that a GPU is, "" for none. Others of its name have other clocks.
func machineOf(gpu string) string {
	switch {
	case strings.Contains(gpu, "A100-SXM4-80GB"):
		return "a100"
	case strings.Contains(gpu, "H100 80GB HBM3"):
		return "h100"
	}
	return ""
}

// hasPeers prints the peers that can use the GPU, nothing where there are none.
const hasPeers = `
def torch():
    import torch
    return torch.cuda.is_available() and f"torch {torch.__version__} for CUDA {torch.version.cuda}"
def jax():
    import jax
    return any(d.platform == "gpu" for d in jax.devices()) and f"jax {jax.__version__}"
found = []
for peer in torch, jax:
    try:
        found.append(peer())
    except Exception:
        pass
print(", ".join(f for f in found if f))
`

// peerMeasurement is a peer's step beside privgrad's, one after the other in the same minute.
type peerMeasurement struct {
	Model     string  `json:"model"`
	Batch     int     `json:"batch"`
	Precision string  `json:"precision"`
	Peer      string  `json:"peer"`
	Mode      string  `json:"mode"`
	Seconds   float64 `json:"step_seconds_median"`
	Ours      float64 `json:"privgrad_step_seconds_median"` // of the same kind
	Memory    *int64  `json:"peak_device_bytes"`            // null where it does not say
	OurMemory *int64  `json:"privgrad_peak_device_bytes"`
}

// rivals are the peers of one round, those first that are likely to be fast and take seconds to compile. With func, torch takes half a minute.
var rivals = []string{"jax vmap", "opacus ghost", "torch plain-graphs", "jax plain", "torch func-graphs", "torch plain", "torch func-compiled"}

func (c *check) peers(ctx context.Context) {
	if ctx.Err() != nil {
		c.skip("peers", "interrupted before it")
		return
	}
	python, err := c.system.Find(c.python)
	if err != nil {
		c.skip("peers", err.Error())
		return
	}
	c.interpreter = python
	out, err := c.ask(ctx, python, "-c", hasPeers)
	if found := strings.TrimSpace(string(out)); err != nil || found == "" {
		c.skip("peers", fmt.Sprintf("%s has neither PyTorch nor JAX that sees a GPU (%v)", filepath.Base(python), err))
		return
	}
	for _, precision := range []string{"float32", "tf32", "bf16"} {
		for _, rival := range rivals {
			for _, m := range measured {
				c.peer(ctx, python, m, precision, rival)
			}
		}
	}
}

// peer measures one peer and privgrad's step of the same kind.
func (c *check) peer(ctx context.Context, python string, m workload, precision, rival string) {
	// A peer takes up to a minute to start and compile, most take seconds.
	c.run(ctx, job{
		name:  "peers/" + m.model + " " + precision + " " + rival,
		limit: time.Duration(c.rounds) * (2*time.Minute + 4*c.duration()), needs: 12*time.Second + 2*c.duration(),
		command: c.privgrad("bench", "compare", "--device", "cuda", "--model", m.model, "--peers", rival, "--precision", precision,
			"--rounds", strconv.Itoa(c.rounds), "--seconds", strconv.FormatFloat(c.seconds, 'g', -1, 64), "--python", python, "--progress", "off", "--json"),
	}, func(s *step, stdout []byte) error {
		if err := object(s, stdout); err != nil {
			return err
		}
		var r compare.Result
		if err := json.Unmarshal(stdout, &r); err != nil {
			return err
		}
		if len(r.Models) != 1 {
			return fmt.Errorf("it measured %d models, not one", len(r.Models))
		}
		ours, theirs := r.Models[0].Pair(rival)
		if theirs == nil || ours == nil {
			if len(r.Skipped) > 0 {
				return notRun(r.Skipped[len(r.Skipped)-1].Reason)
			}
			return fmt.Errorf("it did not measure %s", rival)
		}
		c.report.Peers = append(c.report.Peers, peerMeasurement{
			Model: m.model, Batch: r.Models[0].Batch, Precision: precision, Peer: theirs.Peer, Mode: theirs.Mode,
			Seconds: theirs.Median, Ours: ours.Median, Memory: theirs.PeakDevice, OurMemory: ours.PeakDevice,
		})
		return nil
	})
}
