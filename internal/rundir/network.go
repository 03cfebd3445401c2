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
	Program *ir.Program `json:"program"`
}

// WriteNetwork keeps a network's ops.
func (d Dir) WriteNetwork(p *ir.Program) error {
	text, err := json.MarshalIndent(networkFile{networkFormat, p}, "", "\t")
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
func (d Dir) ReadNetwork() (*ir.Program, error) {
	damaged := func(err error) error {
		return usage.Errorf("%s cannot be used (%w): the model is of that network: restore the file", d.Path(Network), err)
	}
	f, err := os.Open(d.Path(Network))
	if err != nil {
		return nil, damaged(usage.Cause(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostNetwork+1))
	if err != nil {
		return nil, damaged(err)
	}
	if len(text) > mostNetwork {
		return nil, damaged(fmt.Errorf("it has more than %d bytes", mostNetwork))
	}
	var file networkFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, damaged(err)
	}
	if file.Format != networkFormat || file.Program == nil {
		return nil, damaged(fmt.Errorf("its format is %.32q, and this version reads %q", file.Format, networkFormat))
	}
	if err := file.Program.Validate(); err != nil {
		return nil, damaged(err)
	}
	return file.Program, nil
}
