package rundir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// Initial says which tensors of a network began with the values of a file, by their names.
type Initial struct {
	File   string   `json:"file"`
	Loaded []string `json:"loaded"`
	Fresh  []string `json:"fresh"`  // of the network, which began as usual
	Unused []string `json:"unused"` // of the file
}

// String says it by layers.
func (i *Initial) String() string {
	text := "starts with the weights of " + i.File
	if len(i.Fresh) > 0 {
		text += " in " + strings.Join(layersOf(i.Loaded), ", ") + "; as without the file: " + strings.Join(layersOf(i.Fresh), ", ")
	}
	if len(i.Unused) > 0 {
		text += "; not used of the file: " + strings.Join(layersOf(i.Unused), ", ")
	}
	return text
}

// ReadInitial writes the tensors of a file over a network's parameters, and gives what is said of them. Where
// some layers are named, these alone; else the file must hold exactly the network's tensors.
func ReadInitial(path string, p *ir.Program, layers []string, params []float32) (*Initial, map[string]string, error) {
	tensors, facts, err := ReadTensors(path)
	if err != nil {
		return nil, nil, err
	}
	i := &Initial{File: path, Loaded: []string{}, Fresh: []string{}, Unused: []string{}}
	m, err := taken(tensors, p, layers)
	if err != nil {
		return nil, nil, usage.Errorf("init: model file %s does not fit network %s: %w", path, p.Name, err)
	}
	m.copyTo(params)
	for _, q := range p.Params {
		if m.has(q.Name) {
			i.Loaded = append(i.Loaded, q.Name)
		} else {
			i.Fresh = append(i.Fresh, q.Name)
		}
	}
	for _, t := range tensors {
		if !m.has(t.Name) {
			i.Unused = append(i.Unused, t.Name)
		}
	}
	return i, facts, nil
}

// taken are the tensors that ReadInitial takes.
func taken(tensors []safetensors.Tensor, p *ir.Program, layers []string) (m matching, err error) {
	all := layersOf(names(p.Params))
	if layers == nil {
		m = match(tensors, p.Params)
		if err = m.fault(true); err == nil {
			return m, nil
		}
		whole := slices.DeleteFunc(all, func(layer string) bool {
			return slices.ContainsFunc(p.Params, func(q ir.Param) bool { return of(q.Name, layer) && !m.has(q.Name) })
		})
		if len(whole) > 0 {
			return m, fmt.Errorf("%w; to take the layers that fit and start the others afresh, add --init-layers %s", err, strings.Join(whole, ","))
		}
		return m, fmt.Errorf("%w; save it with the names and shapes of the network", err)
	}
	for _, layer := range layers {
		if !slices.ContainsFunc(all, func(name string) bool { return of(name, layer) }) {
			return m, usage.Unknown("layer", layer, all)
		}
	}
	m = match(tensors, slices.DeleteFunc(slices.Clone(p.Params), func(q ir.Param) bool {
		return !slices.ContainsFunc(layers, func(layer string) bool { return of(q.Name, layer) })
	}))
	if err = m.fault(false); err != nil {
		err = fmt.Errorf("%w; leave those layers out of --init-layers, or correct the file", err)
	}
	return m, err
}

// of says whether a name is that of a layer, or of a part of it.
func of(name, layer string) bool { return name == layer || strings.HasPrefix(name, layer+".") }

// layersOf are the layers of tensors: their names up to the last point.
func layersOf(tensors []string) (layers []string) {
	for _, name := range tensors {
		if at := strings.LastIndexByte(name, '.'); at > 0 {
			name = name[:at]
		}
		if !slices.Contains(layers, name) {
			layers = append(layers, name)
		}
	}
	return layers
}

func names(params []ir.Param) (all []string) {
	for _, q := range params {
		all = append(all, q.Name)
	}
	return all
}

// A matching sets the tensors of a file beside those of a network, by name and shape.
type matching struct {
	params  []ir.Param // that fit
	tensors []safetensors.Tensor
	// The others, with their shapes.
	missing, differ, extra []string
}

func match(tensors []safetensors.Tensor, params []ir.Param) (m matching) {
	left := map[string]safetensors.Tensor{}
	for _, t := range tensors {
		left[t.Name] = t
	}
	for _, q := range params {
		t, there := left[q.Name]
		delete(left, q.Name)
		switch {
		case !there:
			m.missing = append(m.missing, shaped(q.Name, q.Shape))
		case !slices.Equal(t.Shape, q.Shape):
			m.differ = append(m.differ, fmt.Sprintf("%s (in the file %.64s)", shaped(q.Name, q.Shape), fmt.Sprint(t.Shape)))
		default:
			m.params, m.tensors = append(m.params, q), append(m.tensors, t)
		}
	}
	for _, t := range tensors {
		if _, there := left[t.Name]; there {
			m.extra = append(m.extra, shaped(t.Name, t.Shape))
		}
	}
	return m
}

func shaped(name string, shape []int) string {
	return fmt.Sprintf("%.64s %.64s", name, fmt.Sprint(shape))
}

func (m matching) has(name string) bool {
	return slices.ContainsFunc(m.params, func(q ir.Param) bool { return q.Name == name })
}

func (m matching) copyTo(params []float32) {
	for i, q := range m.params {
		copy(params[q.Offset:][:q.Size()], m.tensors[i].Data)
	}
}

// fault lists all that does not fit; extra says whether what only the file has does not. It is nil where all fits.
func (m matching) fault(extra bool) error {
	const most = 200 // so that no file fills a screen for ever
	var parts []string
	add := func(what string, list []string) {
		if len(list) > most {
			list = append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
		}
		if len(list) > 0 {
			parts = append(parts, what+" "+strings.Join(list, ", "))
		}
	}
	add("the file lacks", m.missing)
	add("of another shape are", m.differ)
	if extra {
		add("the network lacks", m.extra)
	}
	if parts == nil {
		return nil
	}
	return errors.New(strings.Join(parts, "; "))
}
