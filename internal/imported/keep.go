package imported

import (
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// IsKept says that a run has a network of its own and can go on with it: then its weights are there, too.
func IsKept(dir rundir.Dir) bool {
	return dir != "" && dir.Has(rundir.Network) && dir.Has(rundir.StateFile)
}

// Keep writes what a run needs to go on, and its model to be used, without the user's file. What is kept already stays.
func (n *Network) Keep(dir rundir.Dir) error {
	if IsKept(dir) {
		return nil
	}
	if n.Front != nil {
		if err := dir.WriteTo(rundir.Frozen, n.Front.Write); err != nil {
			return err
		}
	}
	return dir.WriteNetwork(n.kept())
}

// Share gives several processes of a run that goes on what the first of them keeps of its network. root calls a function in the
// first, and gives all what it gave.
func Share(root func(func() ([]byte, error)) ([]byte, error), first bool, dir rundir.Dir) error {
	files, err := root(func() ([]byte, error) {
		if !IsKept(dir) {
			return nil, nil
		}
		return dir.Pack()
	})
	if err != nil || len(files) == 0 || first {
		return err
	}
	return dir.Unpack(files)
}

// Read reads what Keep wrote of a run with a configuration, whose records have a shape.
func Read(dir rundir.Dir, c *config.Config, shape [3]int) (*Network, error) {
	k, err := dir.ReadNetwork()
	if err != nil {
		return nil, err
	}
	n := &Network{Program: k.Program, Params: make([]float32, k.Program.NumParams()), Reading: k.Reading, Source: k.Source}
	if c.Freeze == "" {
		return n, nil
	}
	if n.Front, n.ByRuntime, err = readFront(dir, c, shape); err != nil {
		return nil, usage.Errorf("%s: %w: the model reads records by that file: restore it", dir.Path(rundir.Frozen), err)
	}
	return n, nil
}

func readFront(dir rundir.Dir, c *config.Config, shape [3]int) (_ *features.Front, byRuntime bool, err error) {
	text, err := dir.ReadFrozen()
	if err != nil {
		return nil, false, err
	}
	m, err := file.Decode(text, "") // it holds all that it needs
	if err != nil {
		return nil, false, err
	}
	p, err := lower.Fixed(m)
	if err != nil {
		return nil, false, err
	}
	return front(p, c.Normalization(), shape)
}
