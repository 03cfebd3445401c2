package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/bench/compare"
	gpus "github.com/privgrad/privgrad/internal/cuda/model"
	"github.com/privgrad/privgrad/internal/device"
)

// workload is what a measurement is of.
type workload struct {
	model string
	batch int
}

// measured are those of all measurements, with the usual batch of each.
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
	// Waited is with a wait after each step. Seconds is of many steps between two waits.
	Waited *float64 `json:"step_seconds_waited_median"`
	// Roofline is what the products alone would take at the GPU's full rate, Modelled the step in
	// bench/results/modelled: null for a GPU that has no model, or a step that is not in it.
	Roofline *float64 `json:"roofline_seconds"`
	Modelled *float64 `json:"step_seconds_modelled"`
}

func (c *check) duration() time.Duration { return time.Duration(c.seconds * float64(time.Second)) }

// bench measures float32 first, and of every model before it measures more of one.
func (c *check) bench(ctx context.Context) {
	for _, s := range []struct {
		large           bool
		mode, precision string
	}{
		{false, "private", "float32"},
		{true, "private", "float32"},
		{false, "plain", "float32"},
		{false, "private", "tf32"},
		{true, "private", "tf32"},
		{true, "plain", "float32"},
		{false, "private", "bf16"},
		{false, "plain", "tf32"},
		{true, "plain", "tf32"},
		{true, "private", "bf16"},
		{false, "plain", "bf16"},
		{true, "plain", "bf16"},
	} {
		if !slices.Contains(c.chosen.precisions, s.precision) {
			continue
		}
		for _, m := range c.chosen.workloads {
			if m.usual() != s.large {
				c.benchStep(ctx, m, s.mode, s.precision)
			}
		}
	}
	for _, m := range c.chosen.workloads {
		if m.usual() {
			c.run(ctx, job{
				name: "bench/" + m.model + " l2p", limit: 2*time.Minute + 2*c.duration(), needs: 3*time.Second + 2*c.duration(), command: c.timing("l2p", m, c.seconds),
			}, object)
		}
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
	c.run(ctx, job{
		name: name + m.suffix(), limit: 2*time.Minute + 2*c.duration(), needs: 3*time.Second + 2*c.duration(), command: c.timing("step", m, c.seconds, more...),
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
		gpu := machineOf(c.gpu(ctx))
		c.report.Measurements = append(c.report.Measurements, measurement{
			Model: m.model, Batch: m.batch, Mode: mode, Precision: precision, Seconds: r.StepSeconds, Waited: r.Waited,
			Roofline: roofline(gpu, int64(m.batch)*r.FLOPsPerExample, precision), Modelled: bench.Modelled(gpu, m.model, m.batch, mode, precision),
		})
		return nil
	})
}

// gpu is the name of the first GPU, also where info was not chosen; "" where nothing tells it.
func (c *check) gpu(ctx context.Context) string {
	if c.report.GPU != "" {
		return c.report.GPU
	}
	if program, err := c.system.Find("nvidia-smi"); err == nil {
		if out, err := c.ask(ctx, program, "--query-gpu=name", "--format=csv,noheader"); err == nil {
			c.report.GPU, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
		}
	}
	return c.report.GPU
}

// roofline is what a step's products take at a modelled GPU's full rate; nil where there is no model.
func roofline(gpu string, flops int64, precision string) *float64 {
	m := gpus.Find(gpu)
	p, err := device.ParsePrecision(precision)
	if m == nil || err != nil {
		return nil
	}
	return new(float64(flops) / m.FLOPs(p))
}

// machineOf is the modelled machine that a GPU is, "" for none. Others of its name have other clocks or memory.
func machineOf(gpu string) string {
	switch {
	case strings.Contains(gpu, "A100-SXM4-80GB"):
		return "a100"
	case strings.Contains(gpu, "H100 80GB HBM3"):
		return "h100"
	case strings.HasSuffix(gpu, "H200"):
		return "h200"
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
	Model     string   `json:"model"`
	Batch     int      `json:"batch"`
	Precision string   `json:"precision"`
	Peer      string   `json:"peer"`
	Mode      string   `json:"mode"`
	Private   bool     `json:"private"`
	Form      string   `json:"form,omitempty"` // which of several ways it was
	Seconds   float64  `json:"step_seconds_median"`
	Waited    *float64 `json:"step_seconds_waited_median"`
	// Of privgrad's step of the same kind.
	Ours       float64  `json:"privgrad_step_seconds_median"`
	OursWaited *float64 `json:"privgrad_step_seconds_waited_median"`
	Memory     *int64   `json:"peak_device_bytes"` // null where it does not say
	OurMemory  *int64   `json:"privgrad_peak_device_bytes"`
}

// rivals are the peers, in order: the step to which privacy is to be compared first, then those that are likely to be fast and
// take seconds to compile. With func, torch takes half a minute.
var rivals = []string{"torch plain-best", "jax vmap", "opacus ghost", "jax plain", "torch plain-graphs", "torch func-graphs", "torch plain", "torch func-compiled"}

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
	for _, large := range []bool{false, true} {
		for _, rival := range c.chosen.peers {
			for _, precision := range c.chosen.precisions {
				for _, m := range c.chosen.workloads {
					if m.usual() != large {
						c.peer(ctx, python, m, precision, rival)
					}
				}
			}
		}
	}
}

// peer measures one peer and privgrad's step of the same kind.
func (c *check) peer(ctx context.Context, python string, m workload, precision, rival string) {
	// A peer takes up to a minute to start and compile, most take seconds.
	c.run(ctx, job{
		name:  "peers/" + m.model + " " + precision + " " + rival + m.suffix(),
		limit: time.Duration(c.rounds) * (2*time.Minute + 6*c.duration()), needs: 12*time.Second + 4*c.duration(),
		command: c.privgrad("bench", "compare", "--device", "cuda", "--model", m.model, "--batch", strconv.Itoa(m.batch), "--peers", rival, "--precision", precision,
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
			Model: m.model, Batch: r.Models[0].Batch, Precision: precision, Peer: theirs.Peer, Mode: theirs.Mode, Private: theirs.Private, Form: theirs.Form,
			Seconds: theirs.Median, Waited: theirs.Waited, Ours: ours.Median, OursWaited: ours.Waited, Memory: theirs.PeakDevice, OurMemory: ours.PeakDevice,
		})
		return nil
	})
}
