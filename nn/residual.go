package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Residual is the sum of what the body makes of its input and of the input itself (He, Zhang, Ren and Sun 2016). Where
// the body changes the shape, shortcut brings the input to the same one, a convolution of 1×1 with the body's stride for
// instance; nil leaves the input as it is. The activation behind the sum is a layer of its own.
func Residual(shortcut Layer, body ...Layer) Layer {
	return layer("residual", 0, func(x *G.Node, _ tensor.Shape) (*G.Node, error) {
		y, err := Apply(x, body...)
		if err != nil {
			return nil, err
		}
		if shortcut != nil {
			if x, err = shortcut(x); err != nil {
				return nil, err
			}
		}
		if !x.Shape().Eq(y.Shape()) {
			return nil, fmt.Errorf("the body gives the shape %v, the shortcut %v; make them equal, by a shortcut such as nn.Conv(name, channels, 1, stride, 0, init)", y.Shape(), x.Shape())
		}
		return G.Add(y, x)
	})
}
