package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// Read reads the model of a file. Constants may lie in other files in its folder. Errors name the file; they are those of Decode, and of the
// system.
func Read(path string) (*Model, error) {
	b, err := content(path)
	if err != nil {
		return nil, err
	}
	m, err := Decode(b, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func content(path string) ([]byte, error) {
	info, err := os.Stat(path) // to open a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no plain file: give the path of an ONNX file", path)
	}
	if info.Size() > math.MaxInt32 {
		return nil, fmt.Errorf("%s has %d bytes, an ONNX file at most 2³¹: save its constants beside it by onnx.save(MODEL, FILE, save_as_external_data=True)", path, info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

const byExport = "export the network by torch.onnx.export(model, example, FILE)"

// others are files that one may take for a model, by how they begin.
var others = []struct{ begins, is, remedy string }{
	{"PK\x03\x04", "a zip file, as torch.save and Keras write", byExport + ", or by tf2onnx from Keras"},
	{"\x80\x02", "a pickle", byExport},
	{"\x80\x04", "a pickle", byExport},
	{"\x80\x05", "a pickle", byExport},
	{"\x89HDF", "an HDF5 file, as Keras writes", "export the model by tf2onnx"},
	{"\x1f\x8b", "compressed by gzip", "unpack it by gunzip"},
	{"{", "a text in JSON", byExport},
	{"version https://git-lfs", "a pointer of Git LFS, which stands for a file that was not fetched", "get the file by git lfs pull"},
}

// other is the error of a file that is of another format.
func other(b []byte) error {
	if len(b) == 0 {
		return errors.New("the file is empty: export the model again")
	}
	for _, o := range others {
		if bytes.HasPrefix(b, []byte(o.begins)) {
			return fmt.Errorf("this is no ONNX file but %s: %s", o.is, o.remedy)
		}
	}
	return nil
}
