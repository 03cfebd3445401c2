// Package papers lists the papers of which figures can be rerun.
package papers

import (
	"slices"

	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/banco"
	"github.com/privgrad/privgrad/internal/reproduce/blsgd"
	"github.com/privgrad/privgrad/internal/reproduce/erm"
	"github.com/privgrad/privgrad/internal/reproduce/l2p"
	"github.com/privgrad/privgrad/internal/reproduce/pur"
	"github.com/privgrad/privgrad/internal/usage"
)

// Figures lists what can be rerun.
func Figures() []reproduce.Figure {
	return slices.Concat(blsgd.Figures(), erm.Figures(), l2p.Figures(), pur.Figures(), banco.Figures())
}

// Find gives a figure by its name.
func Find(name string) (*reproduce.Figure, error) {
	var names []string
	for _, f := range Figures() {
		if f.Name == name {
			return &f, nil
		}
		names = append(names, f.Name)
	}
	return nil, usage.Unknown("figure", name, names)
}
