package file

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
)

// FuzzDecode reads files of any bytes. Whatever they hold, a model comes out or an error, memory stays within what the package says, and
// what came out is whole: constants have as many numbers as their shapes say, nodes read only what is there, and the model can be
// written and read again.
func FuzzDecode(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := allocated()
		m, err := Decode(b, "")
		// The runtime counts small pieces late, by what it keeps ready for each size: less than 2 MiB.
		if took := allocated() - before; took > mostMade+2<<20+uint64(2*len(b)) {
			t.Fatalf("%d bytes took %d", len(b), took)
		}
		if err != nil {
			return
		}
		whole(t, m)
		written, err := m.Encode()
		if err != nil {
			return // of texts, or of graphs in attributes
		}
		again, err := Decode(written, "")
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		whole(t, again)
		if len(again.Graph.Nodes) != len(m.Graph.Nodes) || len(again.Graph.Constants) != len(m.Graph.Constants) {
			t.Fatal("what was written has lost something")
		}
	})
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// whole checks a model that was read.
func whole(t *testing.T, m *Model) {
	t.Helper()
	made := map[string]bool{"": true}
	for _, v := range m.Graph.Inputs {
		made[v.Name] = true
	}
	for name, c := range m.Graph.Constants {
		made[name] = true
		filled(t, c)
	}
	for _, n := range m.Graph.Nodes {
		for _, name := range n.Inputs {
			if !made[name] {
				t.Fatalf("%q is read before it is made", name)
			}
		}
		for _, name := range n.Outputs {
			made[name] = true
		}
		for _, a := range n.Attributes {
			if a.Tensor != nil {
				filled(t, a.Tensor)
			}
		}
	}
	for _, v := range m.Graph.Outputs {
		if !made[v.Name] {
			t.Fatalf("output %q is not made", v.Name)
		}
	}
}

func filled(t *testing.T, c *Tensor) {
	t.Helper()
	n := 0
	switch values, err := c.Floats(); {
	case err == nil:
		n = len(values)
	default:
		whole, err := c.Ints()
		if err != nil {
			return // a type that is not read, or a number that float32 does not have
		}
		n = len(whole)
	}
	if n != c.Len() {
		t.Fatalf("constant %q has %d numbers, and its shape %v", c.Name, n, c.Shape)
	}
}

// seeds are files of test data, and those that tests plant.
func seeds(t testing.TB) (all [][]byte) {
	names, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(names) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}
