package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

// twoLayers is a network of the tensors fc1.weight [3 64], fc1.bias [3], fc2.weight [4 3] and fc2.bias [4].
func twoLayers(t *testing.T) *nn.Network {
	t.Helper()
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 1, 8, 8), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Flatten, nn.Dense("fc1", 3, nn.Glorot(1)), nn.Tanh, nn.Dense("fc2", 4, nn.Glorot(2)))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("two"))
	check(t, err)
	return network
}

// A stored is a tensor as another program saves it.
type stored struct {
	name, dtype string
	shape       []int
	data        []byte
}

// weights writes a file of tensors, in the layout that safetensors publishes.
func weights(t *testing.T, tensors ...stored) string {
	t.Helper()
	var head, data bytes.Buffer
	for i, s := range tensors {
		fmt.Fprintf(&head, `%s%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, map[bool]string{true: "{", false: ","}[i == 0], s.name, s.dtype,
			strings.ReplaceAll(fmt.Sprint(s.shape), " ", ","), data.Len(), data.Len()+len(s.data))
		data.Write(s.data)
	}
	head.WriteByte('}')
	file := filepath.Join(t.TempDir(), "init.safetensors")
	check(t, os.WriteFile(file, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(head.Len())), head.Bytes(), data.Bytes()), 0o644))
	return file
}

// body is that of twoLayers: 192 weights of -0.75 as bfloat16, and biases of 0.1, 0.2, 0.3 as float64.
func body() []stored {
	var bias []byte
	for _, x := range []float64{0.1, 0.2, 0.3} {
		bias = binary.LittleEndian.AppendUint64(bias, math.Float64bits(x))
	}
	return []stored{{"fc1.weight", "BF16", []int{3, 64}, bytes.Repeat([]byte{0x40, 0xbf}, 192)}, {"fc1.bias", "F64", []int{3}, bias}}
}

// head is one of so many classes, of ones in float32.
func head(classes int) []stored {
	one := []byte{0, 0, 0x80, 0x3f}
	return []stored{{"fc2.weight", "F32", []int{classes, 3}, bytes.Repeat(one, 3*classes)}, {"fc2.bias", "F32", []int{classes}, bytes.Repeat(one, classes)}}
}

func initConfig(file string, layers ...string) Config {
	c := small()
	c.Classes, c.Init, c.InitLayers = nil, file, layers
	return c
}

// Layers that are named have the file's values, the others begin as they would without it, and the run says which.
func TestInitLayers(t *testing.T) {
	fresh := twoLayers(t).Params()
	loaded := slices.Concat(slices.Repeat([]float32{-0.75}, 192), []float32{0.1, 0.2, 0.3})
	ones := slices.Repeat([]float32{1}, 16)
	for name, c := range map[string]struct {
		tensors []stored
		layers  []string
		want    []float32
		initial Initial
	}{
		"all": {append(head(4), body()...), nil, slices.Concat(loaded, ones), Initial{
			Loaded: []string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, Fresh: []string{}, Unused: []string{}}},
		"a body alone": {body(), []string{"fc1"}, slices.Concat(loaded, fresh[195:]), Initial{
			Loaded: []string{"fc1.weight", "fc1.bias"}, Fresh: []string{"fc2.weight", "fc2.bias"}, Unused: []string{}}},
		"another head": {append(head(7), body()...), []string{"fc1"}, slices.Concat(loaded, fresh[195:]), Initial{
			Loaded: []string{"fc1.weight", "fc1.bias"}, Fresh: []string{"fc2.weight", "fc2.bias"}, Unused: []string{"fc2.weight", "fc2.bias"}}},
		"a head alone": {head(4), []string{"fc2"}, slices.Concat(fresh[:195], ones), Initial{
			Loaded: []string{"fc2.weight", "fc2.bias"}, Fresh: []string{"fc1.weight", "fc1.bias"}, Unused: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			config := initConfig(weights(t, c.tensors...), c.layers...)
			c.initial.File = config.Init
			var log bytes.Buffer
			network := twoLayers(t)
			o := Options{Sources: sources(made(1, 400)), Network: network, Out: filepath.Join(t.TempDir(), "run"), Log: slog.New(slog.NewTextHandler(&log, nil))}
			p := resolved(t, config, o)
			if got := p.Network.Params(); !slices.Equal(got, c.want) {
				t.Errorf("the network begins with %v, want %v", got, c.want)
			}
			o.Network = twoLayers(t)
			r := finished(t, config, o)
			want, err := json.Marshal(c.initial)
			check(t, err)
			if got, err := json.Marshal(r.Initial); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the result says %s, want %s", got, want)
			}
			if !strings.Contains(log.String(), "starts with the weights of "+config.Init) {
				t.Errorf("the log says %s", log.String())
			}
			var stored Config
			check(t, ReadConfig(filepath.Join(o.Out, ConfigFile), &stored))
			if !slices.Equal(stored.InitLayers, c.layers) {
				t.Errorf("%s has layers %q", ConfigFile, stored.InitLayers)
			}
			config.InitLayers = []string{"fc2", "fc1"}
			o.Resume = ResumeRun
			if _, err := Run(context.Background(), config, o); err == nil {
				t.Error("resumed with other layers")
			}
		})
	}
}

// A file that does not fit is refused before the run directory is made, with every tensor that differs and what to do.
func TestInitRefuses(t *testing.T) {
	whole := append(body(), head(4)...)
	renamed := slices.Clone(whole)
	for i := range renamed {
		renamed[i].name = "net." + renamed[i].name
	}
	for name, c := range map[string]struct {
		tensors []stored
		layers  []string
		says    string
	}{
		"another head":    {append(body(), head(7)...), nil, "of another shape are fc2.weight [4 3] (in the file [7 3]), fc2.bias [4] (in the file [7]); to take the layers that fit and start the others afresh, add --init-layers fc1"},
		"a body alone":    {body(), nil, "the file lacks fc2.weight [4 3], fc2.bias [4]; to take"},
		"more":            {append(whole, stored{"extra", "F32", []int{0}, nil}), nil, "the network lacks extra [0]; to take the layers that fit and start the others afresh, add --init-layers fc1,fc2"},
		"other names":     {renamed, nil, "the file lacks fc1.weight [3 64], fc1.bias [3], fc2.weight [4 3], fc2.bias [4]; the network lacks net.fc1.weight [3 64], net.fc1.bias [3], net.fc2.weight [4 3], net.fc2.bias [4]; save it with the names"},
		"half a layer":    {whole[:3], []string{"fc2"}, "the file lacks fc2.bias [4]; leave those layers out of --init-layers"},
		"a wrong layer":   {append(body(), head(7)...), []string{"fc1", "fc2"}, "of another shape are fc2.weight [4 3] (in the file [7 3]), fc2.bias [4] (in the file [7]); leave"},
		"no such layer":   {whole, []string{"fd1"}, `unknown layer "fd1" (did you mean fc1?): choose one of fc1, fc2`},
		"a tensor":        {whole, []string{"fc1.bias"}, `unknown layer "fc1.bias"`},
		"whole numbers":   {append(body(), stored{"steps", "I64", []int{1}, make([]byte, 8)}), []string{"fc1"}, `tensor "steps"`},
		"a NaN elsewhere": {append(body(), stored{"fc2.bias", "BF16", []int{1}, []byte{0xc0, 0x7f}}), []string{"fc1"}, `tensor "fc2.bias"`},
	} {
		o := Options{Sources: sources(made(1, 400)), Network: twoLayers(t), Out: filepath.Join(t.TempDir(), "run")}
		_, err := Run(context.Background(), initConfig(weights(t, c.tensors...), c.layers...), o)
		if u := (*UsageError)(nil); !errors.As(err, &u) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: the run directory was made", name)
		}
	}
	if _, err := Run(context.Background(), initConfig("", "fc1"), Options{Sources: sources(made(1, 400)), Network: twoLayers(t)}); err == nil || !strings.Contains(err.Error(), "--init") {
		t.Errorf("layers of no file: %v", err)
	}
}

// poisoned writes a NaN over the last value of a file of float32 tensors.
func poisoned(t *testing.T, path string) {
	t.Helper()
	b := read(t, path)
	copy(b[len(b)-4:], "\x00\x00\xc0\x7f")
	check(t, os.WriteFile(path, b, 0o644))
}

// Weights that are not finite are refused wherever they come in, and nothing is charged for them.
func TestWeightsNotFinite(t *testing.T) {
	refused := func(name string, err error, says ...string) {
		t.Helper()
		u := (*UsageError)(nil)
		if !errors.As(err, &u) {
			t.Errorf("%s: %v", name, err)
			return
		}
		for _, words := range append(says, "not finite") {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v, want %q", name, err, words)
			}
		}
	}
	options := func() Options {
		return Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run")}
	}
	for dtype, value := range map[string]string{
		"F32": "\x00\x00\x80\x7f", "F16": "\x00\xfc", "BF16": "\xc0\xff", "F64": "\x00\x00\x00\x00\x00\x00\xf0\x7f", "F64 beyond float32": "\x00\x00\x00\x00\x00\x00\xf0\x47",
	} {
		tensors, o := append(body(), head(4)...), options()
		dtype, _, _ := strings.Cut(dtype, " ")
		tensors[3] = stored{"fc2.bias", dtype, []int{4}, bytes.Repeat([]byte(value), 4)}
		o.Network = twoLayers(t)
		_, err := Run(context.Background(), initConfig(weights(t, tensors...)), o)
		refused("init of "+dtype, err, `tensor "fc2.bias"`)
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("init of %s: the run directory was made", dtype)
		}
	}

	own := twoLayers(t)
	params := own.Params()
	params[194] = float32(math.Inf(-1))
	check(t, own.SetParams(params))
	o := options()
	o.Network = own
	_, err := Run(context.Background(), initConfig(""), o)
	refused("an own graph", err, "fc1.bias")
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("an own graph: the run directory was made")
	}

	c := small()
	c.Average = 0.9
	o = options()
	ctx, stop := stopAt(t, o, 12, true)
	ends(ctx, t, c, stop, ErrInterrupted)
	poisoned(t, filepath.Join(o.Out, stateFile))
	ledger := read(t, o.Out, rundir.Ledger)
	o.Resume = ResumeRun
	_, err = Run(context.Background(), c, o)
	refused("a checkpoint", err, "checkpoint", `tensor "average"`)
	if !bytes.Equal(ledger, read(t, o.Out, rundir.Ledger)) {
		t.Error("a checkpoint: the ledger changed")
	}
}

// A finished run whose training diverged shows its result, and says that its model is of no use.
func TestDivergedResult(t *testing.T) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run")}
	want := finished(t, small(), o)
	poisoned(t, filepath.Join(o.Out, rundir.Model))
	var log bytes.Buffer
	o.Resume, o.Log = ResumeRun, slog.New(slog.NewTextHandler(&log, nil))
	r, err := Run(context.Background(), small(), o)
	if err != nil || *r.Epsilon != *want.Epsilon || !strings.Contains(log.String(), "not finite") {
		t.Errorf("%+v, %v, log %s", r, err, log.String())
	}
}
