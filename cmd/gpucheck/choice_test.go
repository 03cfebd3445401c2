package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/bench/compare"
)

// chosen is what flags choose.
func chosen(t *testing.T, models, batches, precisions, peers string) choice {
	t.Helper()
	c, err := choose(models, batches, precisions, peers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChoose(t *testing.T) {
	all := chosen(t, "", "", "", "")
	if len(all.workloads) != 2*len(compare.Models()) || len(all.precisions) != 3 || len(all.peers) < 5 {
		t.Errorf("nothing given chooses %+v", all)
	}
	for _, m := range compare.Models() {
		if !slices.ContainsFunc(all.workloads, func(w workload) bool { return w.model == m && w.usual() }) {
			t.Errorf("%s is not measured", m)
		}
	}
	c := chosen(t, "cifar-paper,cnn-mnist", "1024,usual,300", "bf16,tf32", "jax vmap")
	if got, want := fmt.Sprint(c), "{[{cnn-mnist 1024} {cifar-paper 1024} {cnn-mnist 300} {cifar-paper 250} {cifar-paper 300}] [bf16 tf32] [jax vmap]}"; got != want {
		t.Errorf("chose %s, want %s", got, want)
	}
	for _, x := range []struct{ models, batches, precisions, peers, want string }{
		{models: "resnet", want: "no model"}, {batches: "0", want: "batch \"0\""}, {batches: "300,", want: "batch \"\""},
		{precisions: "fp16", want: "no precision"}, {peers: "jax", want: "no peer"},
	} {
		if _, err := choose(x.models, x.batches, x.precisions, x.peers); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// A private step is set beside the fastest plain peer of its own workload and precision, whoever it is.
func TestBestPlain(t *testing.T) {
	r := &report{
		Measurements: []measurement{
			{Model: "m", Batch: 300, Mode: "private", Precision: "tf32", Seconds: 3}, {Model: "m", Batch: 300, Mode: "plain", Precision: "tf32", Seconds: 2.5},
			{Model: "m", Batch: 300, Mode: "private", Precision: "float32", Seconds: 4}, {Model: "m", Batch: 4096, Mode: "private", Precision: "tf32", Seconds: 5},
		},
		Peers: []peerMeasurement{
			{Model: "m", Batch: 300, Precision: "tf32", Peer: "torch", Mode: "plain", Seconds: 2},
			{Model: "m", Batch: 300, Precision: "tf32", Peer: "torch", Mode: "plain-best", Form: "channels last", Seconds: 1.5},
			{Model: "m", Batch: 300, Precision: "bf16", Peer: "jax", Mode: "plain", Seconds: 1}, {Model: "n", Batch: 300, Precision: "tf32", Peer: "jax", Mode: "plain", Seconds: 1},
			{Model: "m", Batch: 300, Precision: "tf32", Peer: "jax", Mode: "vmap", Private: true, Seconds: 1},
		},
	}
	text := string(r.markdown())
	if want := "\n| m | 300 | tf32 | 3000 | 2500 | 1500 | torch plain-best channels last | 2 |\n\n"; !strings.Contains(text, want) {
		t.Errorf("there is no %q in\n%s", want, text)
	}
	if n := strings.Count(text, "| private ÷ best plain |"); n != 1 {
		t.Errorf("the table is there %d times:\n%s", n, text)
	}
}
