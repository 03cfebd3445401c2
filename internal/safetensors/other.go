package safetensors

import (
	"bytes"
	"fmt"
	"io"
)

// bySaving says how weights of PyTorch are saved.
const bySaving = "save the weights by safetensors.torch.save_file(model.state_dict(), FILE)"

// others are the formats that weights come in, too, by how their files begin.
var others = []struct{ magic, is, remedy string }{
	{"\x80\x02", "a pickle, as older versions of torch.save write", bySaving},
	{"\x80\x03", "a pickle", bySaving},
	{"\x80\x04", "a pickle", bySaving},
	{"\x80\x05", "a pickle", bySaving},
	{"\x89HDF", "an HDF5 file, as Keras writes", "save its arrays by safetensors.numpy.save_file(arrays, FILE)"},
	{"\x93NUMPY", "a single array, as numpy.save writes", "save all arrays by safetensors.numpy.save_file(arrays, FILE)"},
	{"\x1f\x8b", "compressed by gzip", "unpack it by gunzip"},
	{"{", "a text in JSON, such as an index of several files", "give the weights in one safetensors file"},
	{"GGUF", "a GGUF file", bySaving},
	{"version ", "a pointer of Git LFS, which stands for a file that was not fetched", "get the file by git lfs pull"},
}

// other recognizes a file of another format by its first bytes, and says how to save what it
// holds; nil where it recognizes none.
func other(prefix []byte, rest io.Reader) error {
	is := func(what, remedy string) error { return fmt.Errorf("%w: %s: %s", ErrOther, what, remedy) }
	if bytes.HasPrefix(prefix, []byte("PK\x03\x04")) {
		const name = 30 - 8 // where the name of the first entry begins
		entry, _ := io.ReadAll(io.LimitReader(rest, 256))
		entry = entry[min(name, len(entry)):]
		switch {
		case bytes.Contains(entry, []byte(".npy")):
			return is("a zip file, as numpy.savez writes", "save its arrays by safetensors.numpy.save_file(dict(numpy.load(…)), FILE)")
		case bytes.Contains(entry, []byte(".pkl")):
			return is("a zip file, as torch.save writes", bySaving)
		}
		return is("a zip file", "if torch.save wrote it, "+bySaving)
	}
	for _, o := range others {
		if bytes.HasPrefix(prefix, []byte(o.magic)) {
			return is(o.is, o.remedy)
		}
	}
	if prefix[0] == 8 && prefix[1] < 64 && bytes.IndexByte([]byte("\x12\x1a\x22\x28\x32\x3a\x42\x72"), prefix[2]) >= 0 { // its version, then another field
		return is("an ONNX file", "take the weights from the network that it was made of, and "+bySaving)
	}
	return nil
}
