package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cuda/model"
)

// Features of 60,000 images in color take at most three seconds on an H200.
func TestModelledFeatures(t *testing.T) { modelledFeatures(t, map[string]float64{"cifar10": 3}) }

// Those of gray images take at most one.
func TestLongModelledFeatures(t *testing.T) {
	modelledFeatures(t, map[string]float64{"mnist": 1, "fmnist": 1})
}

// modelledFeatures compares times with the most that they may be. Most of them goes to products: what is as wide as all products of patches is
// written once and read once.
func modelledFeatures(t *testing.T, list map[string]float64) {
	for data, most := range list {
		r, err := modelMap("h200", data, 60000)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3g s, %.4g MFLOP an image, %.0f%% of the peak", data, r.Seconds, float64(r.FLOPs)/1e6, 100*r.Share)
		if !(r.Seconds > .01) || r.Seconds > most {
			t.Errorf("features of %s take %v s, want %v at most", data, r.Seconds, most)
		}
		products, sum, wide := 0.0, 0.0, 0
		for _, k := range r.Kernels {
			sum += k.Seconds
			if k.Module == "conv" || k.Module == "dense" {
				products += k.Seconds
			}
			if k.Name == "cells" {
				wide++
			}
		}
		if d := sum*mapParts/r.Seconds - 1; d < -1e-6 || d > 1e-6 {
			t.Errorf("%s: the kernels of a part take %v s, and all parts %v", data, sum, r.Seconds)
		}
		if products < sum/2 {
			t.Errorf("%s: products take %v of %v s", data, products, sum)
		}
		if (wide > 0) != (data != "mnist") {
			t.Errorf("%s: %d launches are cells", data, wide)
		}
		if r.FLOPs < 1e7 || r.Share <= 0 || r.Share >= 1 || r.Launches != len(r.Kernels) || r.DRAM <= 0 {
			t.Errorf("%s: %+v", data, *r)
		}
	}
}

func TestFeaturesCommand(t *testing.T) {
	small := []string{"features", "--data", "mnist", "--images", "100"}
	code, out, stderr := gpumodel(append(small, "--json")...)
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); code != cli.ExitDone || stderr != "" || err != nil {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	want := []string{"assumptions", "data", "dram_bytes", "features", "flops_per_image", "gpu", "images", "kernels", "kind", "launches_per_part", "machine",
		"modelled", "seconds", "share_of_peak", "values_per_image"}
	if keys := slices.Sorted(maps.Keys(r)); !slices.Equal(keys, want) || r["kind"] != aModel || r["modelled"] != true {
		t.Errorf("the JSON has %v", keys)
	}
	if _, again, _ := gpumodel(append(small, "--json")...); again != out {
		t.Error("two models of one map differ")
	}
	code, out, _ = gpumodel(append(small, "--gpu", "a100")...)
	for _, want := range []string{"of 100 images of mnist on " + model.Find("a100").Title + "\nThis is a model, not a measurement.", "deskew", "What the model assumes"} {
		if code != cli.ExitDone || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s", code, want, out)
		}
	}
	for args, want := range map[string]string{
		"features --gpu t4":        "h100, h200, a100",
		"features --data emnist":   "use mnist, fmnist or cifar10",
		"features --images 49":     "give 50 or more",
		"features --precision two": "gpumodel features --help",
	} {
		code, out, stderr := gpumodel(strings.Fields(args)...)
		if code != cli.ExitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, stderr)
		}
	}
}
