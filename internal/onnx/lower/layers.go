package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// weights is input i as a constant of so many axes or more.
func (c *call) weights(i, least, most int) (*fold.Constant, *Refusal) {
	v := c.at(i)
	if v == nil || v.known == nil {
		return nil, c.refuse(nameConstant, "reads what records become as input %d, and only a constant can be a weight", i+1)
	}
	k := v.known
	if n := len(k.Shape); n < least || n > most || k.Size() == 0 {
		return nil, c.refuse(exportAgain, "has a weight of shape %v as input %d", k.Shape, i+1)
	}
	return k, nil
}

func conv(c *call) (*value, *Refusal) {
	v, before, r := c.padded()
	if r != nil {
		return nil, r
	}
	v, image, r := c.image(v)
	if r != nil {
		return nil, r
	}
	k, r := c.weights(1, 3, 4)
	if r != nil {
		return nil, r
	}
	kernel, groups := k.Shape[2:], c.int("group", 1)
	if own, ok := c.ints("kernel_shape"); len(kernel) != len(v.view.Shape)-1 || ok && !slices.Equal(own, kernel) {
		return nil, c.refuse(exportAgain, "has a weight of shape %v for records of shape %v", k.Shape, v.view.Shape)
	}
	if groups < 1 || image[0]%groups != 0 || k.Shape[1] != image[0]/groups || k.Shape[0]%groups != 0 {
		return nil, c.refuse(exportAgain, "has a weight of shape %v in %d groups for %d channels", k.Shape, groups, image[0])
	}
	w, r := c.window(kernel, before.grown(image))
	if r != nil {
		return nil, r
	}
	before.widen(&w)
	out, shape, r := c.slid(w, k.Shape[0], image, len(kernel))
	if r != nil {
		return nil, r
	}
	if groups > 1 {
		return c.elsewhereOr(shape.Shape, "use an ordinary convolution (groups=1)"+orFreeze, "is a grouped convolution, such as a depthwise one of MobileNet, which is not trained here")
	}
	weight, r := c.slot(k, []int{k.Shape[0], k.Shape[1], w.H, w.W}, drawn, nil)
	if r != nil {
		return nil, r
	}
	bias, r := c.biasOf(2, k.Shape[0], 1)
	if r != nil {
		return nil, r
	}
	return c.parameters(c.emit(ir.Op{Kind: ir.Conv, Shape: image, Out: out, Window: w}, shape, v), weight, bias), nil
}

// biasOf is input i as a bias of so many numbers, each times a factor; nil where it is left out.
func (c *call) biasOf(i, n int, factor float32) (*slot, *Refusal) {
	if c.at(i) == nil || factor == 0 {
		return nil, nil
	}
	k, r := c.weights(i, 0, 2)
	if r != nil {
		return nil, r
	}
	if len(k.Shape) == 2 && k.Shape[0] != 1 || k.Size() != n && k.Size() != 1 {
		return nil, c.refuse(exportAgain, "has a bias of shape %v for %d outputs", k.Shape, n)
	}
	return c.slot(k, []int{n}, zeros, func(list []float32) []float32 { return scaled(spread(list, n), factor) })
}

// spread repeats one number so often.
func spread(list []float32, n int) []float32 {
	if len(list) == 1 && n > 1 {
		return slices.Repeat(list, n)
	}
	return list
}

// scaled multiplies a list, in a copy.
func scaled(list []float32, by float32) []float32 {
	if by == 1 {
		return list
	}
	out := make([]float32, len(list))
	for i, v := range list {
		out[i] = v * by
	}
	return out
}

func gemm(c *call) (*value, *Refusal) {
	if c.int("transA", 0) != 0 {
		return nil, c.refuse("transpose the weight instead", "transposes what records become, and so moves axis 0, that of the records")
	}
	v, r := c.dense(c.float("alpha", 1), c.int("transB", 0) != 0)
	if r != nil {
		return nil, r
	}
	bias, r := c.biasOf(2, v.view.Size(), c.float("beta", 1))
	if r != nil {
		return nil, r
	}
	c.of(v).bias = bias
	return v, nil
}

func matMul(c *call) (*value, *Refusal) {
	if c.in[0].known == nil && c.in[1].known == nil {
		return c.elsewhere()
	}
	return c.dense(1, false)
}

// dense is a product with a weight of shape (in, out), or transposed, without a bias.
func (c *call) dense(alpha float32, transposed bool) (*value, *Refusal) {
	if c.in[0].known != nil {
		return nil, c.refuse("multiply by the weight from the right", "multiplies a weight by what records become, and so sums over axis 0, that of the records, or over another axis of each")
	}
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	k, r := c.weights(1, 2, 2)
	if r != nil {
		return nil, r
	}
	in, out := k.Shape[0], k.Shape[1]
	if transposed {
		in, out = out, in
	}
	if n := len(v.view.Shape); n > 1 && v.view.Shape[n-1] == in {
		return c.elsewhereOf(append(slices.Clone(v.view.Shape[:n-1]), out), "multiplies each line of a record by one weight, and only whole records are known")
	}
	if len(v.view.Shape) != 1 || in != v.view.Shape[0] {
		return nil, c.refuse("flatten records before it", "has a weight of %d inputs for records of shape %v", in, v.view.Shape)
	}
	var places []int32 // where the program reads each input
	if !v.view.Plain() {
		if r := c.take(v.view.Size()); r != nil {
			return nil, r
		}
		places = v.view.Places()
	}
	weight, r := c.slot(k, []int{out, in}, drawn, func(list []float32) []float32 {
		if transposed && places == nil {
			return scaled(list, alpha)
		}
		w := make([]float32, len(list))
		for o := range out {
			for i := range in {
				from, to := i*out+o, i
				if transposed {
					from = o*in + i
				}
				if places != nil {
					to = int(places[i])
				}
				w[o*in+to] = list[from] * alpha
			}
		}
		return w
	})
	if r != nil {
		return nil, r
	}
	weight.moved = !transposed || places != nil || alpha != 1
	return c.parameters(c.emit(ir.Op{Kind: ir.Dense, Shape: c.stored(v), Out: []int{out}}, strides.Of([]int{out}), v), weight, nil), nil
}

// activate is a row of the table for an activation.
func activate(kind ir.Kind) func(c *call) (*value, *Refusal) {
	return func(c *call) (*value, *Refusal) {
		v, r := c.activation(0)
		if r != nil {
			return nil, r
		}
		return c.act(ir.Op{Kind: kind}, v), nil
	}
}

// act works on each element by itself.
func (c *call) act(op ir.Op, v *value) *value {
	op.Shape = c.stored(v)
	op.Out = op.Shape
	return c.emit(op, v.view, v)
}

func leakyRelu(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	slope := c.float("alpha", .01)
	switch {
	case slope == 0:
		return c.act(ir.Op{Kind: ir.ReLU}, v), nil
	case !(slope > 0 && slope < 1):
		return nil, c.refuse("choose a slope between 0 and 1", "has the slope %v", slope)
	}
	return c.act(ir.Op{Kind: ir.LeakyReLU, Slope: slope}, v), nil
}
