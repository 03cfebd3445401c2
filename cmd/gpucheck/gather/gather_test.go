package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is gathered is every test that gpucheck runs, and no data.
func TestGather(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := gather(root, out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "overlay.json"))
	if err != nil {
		t.Fatal(err)
	}
	var o overlay
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(o.Replace[filepath.Join(root, name)])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, wants := range map[string][]string{
		"internal/cuda/kernels/gathered_list.go":               {"TestConvForwardAndInputGrad", "TestTrunk", "TestNormGram", "TestDenseSum"},
		"internal/cuda/kernels/gathered/gathered_list.go":      {"TestRelease", "TestCombine"},
		"cuda/gathered/gathered_list.go":                       {"TestConformance", "TestLongPrecisions", "TestLongTrainsLikeTheCPU", "TestRunsDoNotWait", "TestLongCuBLASConformance"},
		"internal/cuda/driver/cudrv/gathered/gathered_list.go": {"TestGPU"},
	} {
		for _, test := range wants {
			if !strings.Contains(read(name), "{Name: \""+test+"\", F: "+test+"},") {
				t.Errorf("%s does not list %s", name, test)
			}
		}
	}
	for name, line := range carriers {
		if text := read(name); strings.Contains(text, line) || !strings.Contains(text, "embed.FS") {
			t.Errorf("%s still carries data, or has no file system", name)
		}
	}
	if text := read("internal/cuda/kernels/conv_gathered.go"); !strings.HasPrefix(text, "//line conv_test.go:1\n") {
		t.Errorf("a gathered file begins with %.40q", text)
	}
}
