package lower

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// fileNames gives each parameter a name of its own that a user can find in the file. Exporters write equal numbers once, so that
// an initializer may stand for parameters of several nodes: then the first has its name.
func (l *lowerer) fileNames() {
	taken := map[string]bool{}
	each := func(give func(at *layer, s *slot, kind string)) {
		for i := range l.layers {
			at := &l.layers[i]
			for k, s := range [...]*slot{at.weight, at.bias} {
				if s != nil && s.inFile == "" {
					give(at, s, [...]string{"weight", "bias"}[k])
				}
			}
		}
	}
	try := func(s *slot, name string) {
		if name != "" && !taken[name] {
			s.inFile, taken[name] = name, true
		}
	}
	each(func(at *layer, s *slot, kind string) { try(s, besideMean(at.node, kind)) }) // which is surer than an initializer's name
	each(func(_ *layer, s *slot, _ string) {
		if !s.moved { // whoever loads them by that name must find them in its order
			try(s, s.root)
		}
	})
	each(func(at *layer, s *slot, kind string) {
		own := at.op.Name + "." + kind
		name := own
		for i := 2; taken[name] || l.names[name]; i++ { // another parameter of the file has it
			name = fmt.Sprint(own, "_", i)
		}
		try(s, name)
	})
}

// besideMean is the name that a parameter of a batch normalization has beside its running mean, which is merged with no other
// node's name; nothing for other nodes.
func besideMean(n *file.Node, kind string) string {
	if n.Kind != "BatchNormalization" || len(n.Inputs) < 4 {
		return ""
	}
	if module, ok := strings.CutSuffix(n.Inputs[3], "running_mean"); ok {
		return module + kind
	}
	return ""
}
