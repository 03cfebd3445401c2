package rundir

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
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

// A KeptNetwork is what a run keeps of a network, beside its weights and its frozen part.
type KeptNetwork struct {
	Format  string      `json:"format"`
	Source  string      `json:"source_sha256"` // of the file that it came from
	Reading ir.Reading  `json:"reads"`
	Program *ir.Program `json:"program"`
}

// NetworkText is the file of a network. Equal networks have equal ones.
func NetworkText(k KeptNetwork) ([]byte, error) {
	k.Format = networkFormat
	text, err := json.MarshalIndent(k, "", "\t")
	return append(text, '\n'), err
}

// WriteNetwork keeps a network.
func (d Dir) WriteNetwork(k KeptNetwork) error {
	text, err := NetworkText(k)
	if err != nil {
		return err
	}
	return d.Write(Network, text)
}

// ReadFrozen reads the ONNX file of the part that is not trained.
func (d Dir) ReadFrozen() ([]byte, error) {
	f, err := d.open(Frozen)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, math.MaxInt32)) // of a protocol buffer
}

// ReadNetwork reads what WriteNetwork wrote. The network has no more parameters than the run has values for.
func (d Dir) ReadNetwork() (k KeptNetwork, err error) {
	damaged := func(err error) (KeptNetwork, error) {
		return k, usage.Errorf("%s cannot be used (%w): the model is of that network: restore the file", d.Path(Network), err)
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
	if err := json.Unmarshal(text, &k); err != nil {
		return damaged(err)
	}
	if k.Format != networkFormat || k.Program == nil {
		return damaged(fmt.Errorf("its format is %.32q, and this version reads %q", k.Format, networkFormat))
	}
	if r := k.Reading; r.Scale-r.Scale != 0 || r.Shift-r.Shift != 0 {
		return damaged(fmt.Errorf("it reads %v times a value plus %v", r.Scale, r.Shift))
	}
	if err := k.Program.Validate(); err != nil {
		return damaged(err)
	}
	if n := int64(k.Program.NumParams()); n > d.values() {
		return damaged(fmt.Errorf("it has %d parameters, more than the run has values for", n))
	}
	return k, nil
}

// values is how many parameters the files of a run can hold at most.
func (d Dir) values() (most int64) {
	for _, name := range []string{StateFile, Model} {
		if f, err := d.open(name); err == nil { // of a slice in parts
			n, _ := io.Copy(io.Discard, f)
			most = max(most, n/4)
			f.Close()
		}
	}
	return most
}
