package rundir

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// The files of a network that came from a file of the user's: its ops without weights, and the part that is not trained.
const (
	Network = "network.json"
	Frozen  = "frozen.onnx"
)

// mostNetwork bounds the file of a network's ops, in bytes.
const mostNetwork = 64 << 20

// networkFormat is the version of the file.
const networkFormat = "privgrad network 1"

type networkFile struct {
	Format  string      `json:"format"`
	Reading Reading     `json:"reads"`
	Program *ir.Program `json:"program"`
}

// Reading is what a network reads of a value x: x·Scale + Shift. A byte b stands for b/255.
type Reading struct {
	Scale float32 `json:"scale"`
	Shift float32 `json:"shift"`
}

// WriteNetwork keeps a network's ops, and what it reads.
func (d Dir) WriteNetwork(p *ir.Program, r Reading) error {
	text, err := json.MarshalIndent(networkFile{networkFormat, r, p}, "", "\t")
	if err != nil {
		return err
	}
	return d.Write(Network, append(text, '\n'))
}

// ReadFrozen reads the ONNX file of the part that is not trained.
func (d Dir) ReadFrozen() ([]byte, error) {
	f, err := d.open(Frozen)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadNetwork reads what WriteNetwork wrote.
func (d Dir) ReadNetwork() (*ir.Program, Reading, error) {
	damaged := func(err error) (*ir.Program, Reading, error) {
		return nil, Reading{}, usage.Errorf("%s cannot be used (%w): the model is of that network: restore the file", d.Path(Network), err)
	}
	f, err := os.Open(d.Path(Network))
	if err != nil {
		return damaged(usage.Cause(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostNetwork+1))
	if err != nil {
		return damaged(err)
	}
	if len(text) > mostNetwork {
		return damaged(fmt.Errorf("it has more than %d bytes", mostNetwork))
	}
	var file networkFile
	if err := json.Unmarshal(text, &file); err != nil {
		return damaged(err)
	}
	if file.Format != networkFormat || file.Program == nil {
		return damaged(fmt.Errorf("its format is %.32q, and this version reads %q", file.Format, networkFormat))
	}
	if r := file.Reading; r.Scale-r.Scale != 0 || r.Shift-r.Shift != 0 {
		return damaged(fmt.Errorf("it reads %v times a value plus %v", r.Scale, r.Shift))
	}
	if err := file.Program.Validate(); err != nil {
		return damaged(err)
	}
	return file.Program, file.Reading, nil
}
