package features

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// Front ends are files in the safetensors format. Tensors are the constants of each kind, such as
// patches.atoms; metadata is the spec.

const (
	formatName = "privgrad features 1"
	maxFile    = 256 << 20 // more than the constants of the largest images
)

// Constants of these specs, each of one kind, come with the package. make features writes them anew.
//
//go:embed constants/*.safetensors
var constantFiles embed.FS

func constantPath(s Spec) string { return "constants/" + s.name() + ".safetensors" }

// committed is the front end of a spec whose constants come with the package, a file for each kind, else nil.
func committed(spec Spec) (*Front, error) {
	all := map[string]map[string][]float32{}
	for _, kind := range strings.Split(spec.Kind, "+") {
		one := spec
		one.Kind, one.Deskew = kind, false
		file, err := constantFiles.Open(constantPath(one))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		found, constants, err := read(file)
		if err == nil && found != one {
			err = fmt.Errorf("it holds features %s", found.name())
		}
		if err != nil {
			return nil, fmt.Errorf("constants of features %s: %w", one.name(), err)
		}
		maps.Copy(all, constants)
	}
	f := assemble(spec, all)
	f.origin = fitted
	return f, nil
}

// Write writes all that is needed to apply f later: no record is part of it. A front end of
// Own cannot be written, as a Go function is no data.
func (f *Front) Write(w io.Writer) error {
	if f.own != nil {
		return usage.Errorf("features %s are a Go function, which cannot be written to a file; make them again with features.Own where they are needed", f.spec.Kind)
	}
	if f.network != nil {
		return f.network.Write(w)
	}
	if f.origin == madeUp {
		return fmt.Errorf("features %s have made-up constants, which are for measuring alone", f.spec.name())
	}
	var tensors []safetensors.Tensor
	for _, b := range f.blocks {
		shapes := f.spec.shapes(b.kind)
		for _, name := range slices.Sorted(maps.Keys(shapes)) {
			tensors = append(tensors, safetensors.Tensor{Name: b.name + "." + name, Shape: shapes[name], Data: b.constants[name], Half: b.half(name)})
		}
	}
	return safetensors.Write(w, tensors, f.spec.metadata())
}

func (s Spec) metadata() map[string]string {
	m := map[string]string{
		"format": formatName, "kind": s.Kind, "whiten": string(s.Whiten), "mirror": strconv.FormatBool(s.Mirror),
		"shape": shapeText(s.Shape), "scale": strconv.Itoa(Scale),
	}
	if s.Deskew { // files from before have no such entry
		m["deskew"] = "true"
	}
	return m
}

// Read reads what Write wrote. What is in the file is checked: it is a front end, or an error
// says why not.
func Read(r io.Reader) (*Front, error) {
	spec, constants, err := read(r)
	if err != nil {
		return nil, err
	}
	return assemble(spec, constants), nil
}

// read gives what Write wrote of a spec: constants by the label of their kind and by name.
func read(r io.Reader) (Spec, map[string]map[string][]float32, error) {
	tensors, metadata, err := safetensors.Read(r, maxFile)
	if err != nil {
		return Spec{}, nil, fmt.Errorf("reading features: %w", err)
	}
	spec, err := specOf(metadata)
	if err != nil {
		return Spec{}, nil, fmt.Errorf("reading features: %w", err)
	}
	constants := map[string]map[string][]float32{}
	count := 0
	for _, k := range spec.kinds() {
		constants[k.name] = map[string][]float32{}
		for name, shape := range spec.shapes(k) {
			data, err := find(tensors, k.name+"."+name, shape, k.half(name))
			if err != nil {
				return Spec{}, nil, fmt.Errorf("reading features: %w", err)
			}
			constants[k.name][name] = data
			count++
		}
	}
	if count != len(tensors) {
		return Spec{}, nil, fmt.Errorf("reading features: %w: there are tensors that %s does not have", safetensors.ErrFormat, spec.name())
	}
	return spec, constants, nil
}

// specOf reads the metadata of a file, which must be just what Write writes of a spec.
func specOf(metadata map[string]string) (Spec, error) {
	s := Spec{Kind: metadata["kind"], Whiten: Whitening(metadata["whiten"]), Mirror: metadata["mirror"] == "true", Deskew: metadata["deskew"] == "true"}
	sides := strings.Split(metadata["shape"], "x")
	for i := range s.Shape {
		if len(sides) == len(s.Shape) {
			s.Shape[i], _ = strconv.Atoi(sides[i]) // compared below
		}
	}
	if metadata["format"] != formatName {
		return Spec{}, fmt.Errorf("%w: it is no file of %s", safetensors.ErrFormat, formatName)
	}
	if !maps.Equal(metadata, s.metadata()) {
		return Spec{}, fmt.Errorf("%w: its metadata are no front end of this version", safetensors.ErrFormat)
	}
	if err := s.Check(); err != nil {
		return Spec{}, fmt.Errorf("%w: %w", safetensors.ErrFormat, err)
	}
	return s, nil
}

// find is the values of a tensor, which are finite and of the precision that Write gives them: the digest is of
// what Write writes.
func find(tensors []safetensors.Tensor, name string, shape []int, half bool) ([]float32, error) {
	for _, t := range tensors {
		if t.Name != name {
			continue
		}
		if !slices.Equal(t.Shape, shape) {
			return nil, fmt.Errorf("%w: tensor %s has shape %.64v in place of %v", safetensors.ErrFormat, name, fmt.Sprint(t.Shape), shape)
		}
		if t.Half != half {
			return nil, fmt.Errorf("%w: tensor %s has another precision than that of this version", safetensors.ErrFormat, name)
		}
		if !finite(t.Data) {
			return nil, fmt.Errorf("%w: tensor %s has values that are not finite", safetensors.ErrFormat, name)
		}
		return t.Data, nil
	}
	return nil, fmt.Errorf("%w: tensor %s is missing", safetensors.ErrFormat, name)
}
