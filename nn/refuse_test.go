package nn

import (
	"math"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestLowerRefuses(t *testing.T) {
	vector := func(u user) *G.Node { return u.leaf("x", 2, 4) }
	image := func(u user) *G.Node { return u.leaf("x", 2, 3, 6, 6) }
	hidden := func(u user) *G.Node { return u.dense(vector(u), "d", 4, 4) }
	// feature is what a convolution without a bias gives: (2, 4, 4, 4).
	feature := func(u user) *G.Node {
		return u.conv(image(u), u.param("w", 4, 3, 3, 3), nil, []int{1, 1}, nil)
	}
	standard := func(u user, w, gain *G.Node) *G.Node { return u.ok(G.ApplyOp(newStandardize(), w, gain)) }
	for _, c := range []struct {
		what  string
		build func(u user) *G.Node
		want  []string
	}{
		{"batch normalization", func(u user) *G.Node {
			h, _, _, _, err := G.BatchNorm(feature(u), nil, nil, 0.9, 1e-5)
			return u.ok(h, err)
		}, []string{"batchnorm", "batch normalization mixes the examples", "use nn.GroupNorm in its place"}},
		{"group normalization that is wrong", func(u user) *G.Node {
			h := u.conv(u.leaf("x", 2, 3, 12, 12), u.param("w", 4, 3, 1, 1), nil, []int{1, 1}, nil)
			return u.ok(G.GroupNorm(h, u.param("γ", 1, 4, 1, 1), u.param("β", 1, 4, 1, 1), 2, 4, 1e-5))
		}, []string{"wrong variance for groups of more than 256 elements, these have 288", "nn.GroupNorm"}},
		{"group normalization without a scale", func(u user) *G.Node {
			return u.ok(G.ApplyOp(newNormalize(2, 1e-5), feature(u)))
		}, []string{"Normalize{2, 1e-05}", "not multiplied by a scale", "nn.GroupNorm"}},
		{"group normalization with a scale of every position", func(u user) *G.Node {
			h := u.ok(G.ApplyOp(newNormalize(2, 1e-5), feature(u)))
			return u.ok(G.BroadcastHadamardProd(h, u.param("γ", 1, 4, 4, 1), nil, []byte{0, 3}))
		}, []string{`scale node "γ" differs between the positions`}},
		{"group normalization of sequences", func(u user) *G.Node {
			h := u.ok(G.ApplyOp(newNormalize(2, 1e-5), u.reshape(feature(u), 2, 4, 16)))
			return u.ok(G.BroadcastHadamardProd(h, u.param("γ", 1, 4, 1), nil, []byte{0, 2}))
		}, []string{"normalizes [4 16] an example"}},
		{"layer normalization of the batch", func(u user) *G.Node {
			h := u.ok(G.Mul(vector(u), u.param("w", 4)))
			return u.ok(G.ApplyOp(newLayerNorm(1, 1e-5), h, u.param("γ", 2), u.param("β", 2)))
		}, []string{"LayerNorm{1e-05}", "normalizes along the batch axis and so mixes examples", "(N, n)"}},
		{"layer normalization by a computed weight", func(u user) *G.Node {
			return u.ok(G.ApplyOp(newLayerNorm(2, 1e-5), hidden(u), u.ok(G.Tanh(u.param("γ", 4))), u.param("β", 4)))
		}, []string{"LayerNorm{1e-05}", `node "tanh(`, "is no parameter"}},
		{"layer normalization by a computed bias", func(u user) *G.Node {
			return u.ok(G.ApplyOp(newLayerNorm(2, 1e-5), hidden(u), u.param("γ", 4), u.ok(G.Tanh(u.param("β", 4)))))
		}, []string{`node "tanh(`, "is no parameter"}},
		{"layer normalization by one parameter twice", func(u user) *G.Node {
			return u.ok(G.ApplyOp(newLayerNorm(2, 1e-5), hidden(u), u.param("γ", 4), u.param("γ", 4)))
		}, []string{"LayerNorm{1e-05}", `"γ" is used a second time`}},
		{"layer normalization without an epsilon", func(u user) *G.Node {
			return u.ok(G.ApplyOp(newLayerNorm(2, 0), hidden(u), u.param("γ", 4), u.param("β", 4)))
		}, []string{"layernorm1", "epsilon 0"}},
		{"layer normalization of single elements", func(u user) *G.Node {
			h := u.reshape(hidden(u), 2, 4, 1)
			return u.ok(G.ApplyOp(newLayerNorm(3, 1e-5), h, u.param("γ", 1), u.param("β", 1)))
		}, []string{"layernorm1", "lines of one element"}},
		{"layer normalization with a second bias", func(u user) *G.Node {
			h := u.ok(G.ApplyOp(newLayerNorm(2, 1e-5), hidden(u), u.param("γ", 4), u.param("β", 4)))
			return u.ok(G.BroadcastAdd(h, u.param("b", 1, 4), nil, []byte{0}))
		}, []string{`bias node "b"`, "right after the layer"}},
		{"gain that is computed", func(u user) *G.Node {
			return u.conv(image(u), standard(u, u.param("w", 4, 3, 3, 3), u.ok(G.Tanh(u.param("γ", 4, 1, 1, 1)))), nil, []int{1, 1}, nil)
		}, []string{`node "tanh(`, "is no parameter"}},
		{"weight that is computed and then standardized", func(u user) *G.Node {
			return u.conv(image(u), standard(u, u.ok(G.Tanh(u.param("w", 4, 3, 3, 3))), u.param("γ", 4, 1, 1, 1)), nil, []int{1, 1}, nil)
		}, []string{`node "tanh(`, "is no parameter"}},
		{"gain without a value", func(u user) *G.Node {
			return u.conv(image(u), standard(u, u.param("w", 4, 3, 3, 3), u.leaf("γ", 4, 1, 1, 1)), nil, []int{1, 1}, nil)
		}, []string{`node "γ": the parameter has no value`}},
		{"one gain of all kernels", func(u user) *G.Node {
			_, gain, err := G.Broadcast(u.leaf("like", 4, 1, 1, 1), u.param("γ", 1, 1, 1, 1), G.NewBroadcastPattern(nil, []byte{0}))
			return u.conv(image(u), standard(u, u.param("w", 4, 3, 3, 3), u.ok(gain, err)), nil, []int{1, 1}, nil)
		}, []string{`node "γ"`, "is broadcast to"}},
		{"gain used twice", func(u user) *G.Node {
			h := u.conv(image(u), standard(u, u.param("w", 4, 3, 3, 3), u.param("γ", 4, 1, 1, 1)), nil, []int{1, 1}, nil)
			return u.conv(h, standard(u, u.param("v", 4, 4, 2, 2), u.param("γ", 4, 1, 1, 1)), nil, []int{1, 1}, nil)
		}, []string{`"γ" is used a second time`}},
		{"standardized weight used twice", func(u user) *G.Node {
			w := standard(u, u.param("w", 3, 3, 3, 3), u.param("γ", 3, 1, 1, 1))
			return u.conv(u.conv(image(u), w, nil, []int{1, 1}, nil), w, nil, []int{1, 1}, nil)
		}, []string{`"w" is used a second time`}},
		{"weight used with and without standardization", func(u user) *G.Node {
			w := u.param("w", 3, 3, 3, 3)
			return u.conv(u.conv(image(u), w, nil, []int{1, 1}, nil), standard(u, w, u.param("γ", 3, 1, 1, 1)), nil, []int{1, 1}, nil)
		}, []string{`"w" is used a second time`}},
		{"standardized weight of a dense layer", func(u user) *G.Node {
			w := standard(u, u.param("w", 4, 1, 1, 3), u.param("γ", 4, 1, 1, 1))
			return u.ok(G.Mul(vector(u), u.reshape(w, 4, 3)))
		}, []string{"A × B", `node "Standardize(`, "is computed from parameters", "the filter of gorgonia.Conv2d"}},
		{"standardized weight left of the batch", func(u user) *G.Node {
			w := standard(u, u.param("w", 3, 1, 1, 4), u.param("γ", 3, 1, 1, 1))
			return u.ok(G.Mul(u.reshape(w, 3, 4), u.leaf("x", 4, 2)))
		}, []string{"batch is on the wrong side"}},
		{"standardized weight that is transposed", func(u user) *G.Node {
			w := standard(u, u.param("w", 3, 4, 3, 3), u.param("γ", 3, 1, 1, 1))
			return u.conv(image(u), u.ok(G.Transpose(w, 1, 0, 2, 3)), nil, []int{1, 1}, nil)
		}, []string{"is computed from parameters", "just as it is"}},
		{"standardized weight added", func(u user) *G.Node {
			w := standard(u, u.param("w", 2, 4, 4, 4), u.param("γ", 2, 1, 1, 1))
			return u.ok(G.Add(u.ok(G.Tanh(feature(u))), w))
		}, []string{`node "+`, "is computed from parameters"}},
		{"standardized weight as an activation", func(u user) *G.Node {
			w := standard(u, u.param("v", 2, 4, 4, 4), u.param("γ", 2, 1, 1, 1))
			return u.ok(G.Add(feature(u), u.ok(GELU(w))))
		}, []string{`node "Standardize(`, "stands where an activation is expected", "the filter of gorgonia.Conv2d"}},
		{"window unlike the standardized filter", func(u user) *G.Node {
			w := standard(u, u.param("w", 4, 3, 4, 1), u.param("γ", 4, 1, 1, 1))
			return u.ok(G.Conv2d(image(u), w, tensor.Shape{2, 2}, nil, []int{1, 1}, nil))
		}, []string{`filter node "w" has shape [4 3 4 1], its window needs [4 3 2 2]`}},
		{"leaky rectifier that falls", func(u user) *G.Node { return u.ok(G.LeakyRelu(hidden(u), -0.5)) }, []string{"slope -0.5", "between 0 and 1"}},
		{"leaky rectifier of two values", func(u user) *G.Node {
			h, zero := hidden(u), G.NewConstant(float32(0))
			x := u.ok(G.Rectify(h))
			y := u.ok(G.HadamardProd(vector(u), u.ok(G.Lt(vector(u), zero, true))))
			return u.ok(G.Add(x, u.ok(G.HadamardProd(y, G.NewConstant(float32(0.1))))))
		}, []string{"scaling by a constant"}},
		{"sum over the batch", func(u user) *G.Node { return u.ok(G.Sum(hidden(u), 0)) }, []string{"Σ", "reduces along the batch axis", "WithLoss"}},
		{"the cost instead of the logits", func(u user) *G.Node { return u.ok(G.Mean(hidden(u))) }, []string{"pass the logits, not the cost"}},
		{"maximum over the batch", func(u user) *G.Node { return u.ok(G.Max(hidden(u), 0)) }, []string{"reduces along the batch axis"}},
		{"sum over features", func(u user) *G.Node { return u.ok(G.Sum(hidden(u), 1)) }, []string{"reductions are not supported"}},
		{"softmax", func(u user) *G.Node { return u.ok(G.SoftMax(hidden(u))) }, []string{"Softmax", "pass the node before it, the logits", "WithLoss", "LogSoftMax of the same input"}},
		{"softmax over the batch", func(u user) *G.Node { return u.ok(G.SoftMax(hidden(u), 0)) }, []string{"along the batch axis mixes examples"}},
		{"softmax in the middle", func(u user) *G.Node { return u.dense(u.ok(G.LogSoftMax(hidden(u))), "e", 4, 2) }, []string{"pass the node before it"}},
		{"transposed batch", func(u user) *G.Node {
			h := u.ok(G.Transpose(hidden(u), 1, 0))
			return u.ok(G.Mul(h, u.param("w", 2, 3)))
		}, []string{`node "Aᵀ{1, 0}`, "moves the batch axis", "keep the batch as axis 0"}},
		{"transposed image", func(u user) *G.Node {
			h := u.ok(G.Transpose(image(u), 0, 2, 3, 1))
			return u.dense(u.reshape(h, 2, 108), "d", 108, 2)
		}, []string{"transposing activations"}},
		{"reshape over the batch", func(u user) *G.Node { return u.dense(u.reshape(hidden(u), 1, 8), "e", 8, 2) },
			[]string{"Reshape(1, 8)", "merges the batch axis with others, from (2, 4) to (1, 8)", "keep the batch, 2, as axis 0"}},
		{"batch on the right", func(u user) *G.Node { return u.ok(G.Mul(u.param("w", 3, 2), vector(u))) },
			[]string{"A × B", "batch is on the wrong side", "gorgonia.Mul(x, w)"}},
		{"batch on the right, deep", func(u user) *G.Node {
			h := u.ok(G.Tanh(u.ok(G.Mul(u.param("w", 3, 4), u.leaf("x", 4, 2)))))
			return u.ok(G.Mul(u.param("v", 2, 3), h))
		}, []string{"batch is on the wrong side"}},
		{"activation times the input", func(u user) *G.Node {
			x := u.leaf("x", 4, 4)
			return u.ok(G.Mul(u.ok(G.Tanh(u.dense(x, "d", 4, 4))), x))
		}, []string{"batch is on the wrong side"}},
		{"product of activations", func(u user) *G.Node {
			x := u.leaf("x", 4, 4)
			return u.ok(G.Mul(u.dense(x, "a", 4, 4), u.dense(x, "b", 4, 4)))
		}, []string{"multiplies two activations"}},
		{"vector on the left", func(u user) *G.Node { return u.ok(G.Mul(u.param("w", 2), vector(u))) },
			[]string{"moves the batch axis", "transpose the weight"}},
		{"batched product", func(u user) *G.Node { return u.ok(G.BatchedMatMul(u.leaf("x", 2, 3, 4), u.param("w", 2, 4, 3))) },
			[]string{"only the product of a matrix"}},
		{"parameter used twice", func(u user) *G.Node {
			w := u.param("tied", 4, 4)
			return u.ok(G.Mul(u.ok(G.Tanh(u.ok(G.Mul(vector(u), w)))), w))
		}, []string{"A × B", `parameter node "tied" is used a second time`, "give each layer its own"}},
		{"two leaves of one name", func(u user) *G.Node {
			h := u.ok(G.Tanh(u.ok(G.Mul(vector(u), u.param("same", 4, 4)))))
			return u.ok(G.Mul(h, u.param("same", 4, 4)))
		}, []string{`"same" is used a second time`, "one name and shape are one node"}},
		{"shared memory", func(u user) *G.Node {
			w := u.param("w", 4, 4)
			v := G.NewMatrix(u.g, u.of, G.WithShape(4, 4), G.WithName("v"), G.WithValue(w.Value()))
			return u.ok(G.Mul(u.ok(G.Mul(vector(u), w)), v))
		}, []string{`node "v": it shares its memory with node "w"`}},
		{"parameter without value", func(u user) *G.Node { return u.ok(G.Mul(vector(u), u.leaf("empty", 4, 2))) },
			[]string{`node "empty": the parameter has no value`, "WithValue"}},
		{"integer parameter", func(u user) *G.Node {
			u.of = tensor.Int
			w := G.NewMatrix(u.g, u.of, G.WithShape(4, 2), G.WithName("w"), G.WithValue(tensor.New(tensor.WithShape(4, 2), tensor.Of(tensor.Int))))
			return u.ok(G.Mul(vector(u), w))
		}, []string{`node "w"`, "of type int", "float32 or float64"}},
		{"scalar parameter", func(u user) *G.Node {
			s := G.NewScalar(u.g, u.of, G.WithName("s"), G.WithValue(float32(1)))
			return u.ok(G.Add(u.ok(G.Mul(vector(u), u.param("w", 4, 2))), s))
		}, []string{`node "s"`, "cannot be a scalar", "(1, 1)"}},
		{"column-major parameter", func(u user) *G.Node {
			v := tensor.New(tensor.WithShape(4, 2), tensor.AsFortran(make([]float32, 8)))
			return u.ok(G.Mul(vector(u), G.NewMatrix(u.g, u.of, G.WithShape(4, 2), G.WithName("w"), G.WithValue(v))))
		}, []string{`node "w"`, "not contiguous in row-major order", "clone"}},
		{"sliced parameter", func(u user) *G.Node {
			v, err := tensor.New(tensor.WithShape(4, 5), tensor.Of(tensor.Float32)).Slice(nil, tensor.S(1, 3))
			if err != nil {
				u.t.Fatal(err)
			}
			return u.ok(G.Mul(vector(u), G.NewMatrix(u.g, u.of, G.WithShape(4, 2), G.WithName("w"), G.WithValue(v))))
		}, []string{`node "w"`, "not contiguous"}},
		{"lazily transposed parameter", func(u user) *G.Node {
			v := tensor.New(tensor.WithShape(2, 4), tensor.Of(tensor.Float32))
			if err := v.T(); err != nil {
				u.t.Fatal(err)
			}
			return u.ok(G.Mul(vector(u), G.NewMatrix(u.g, u.of, G.WithShape(4, 2), G.WithName("w"), G.WithValue(v))))
		}, []string{`node "w"`, "not contiguous"}},
		{"column vector read as a slice", func(u user) *G.Node {
			v, err := tensor.New(tensor.WithShape(4, 5), tensor.Of(tensor.Float32)).Slice(nil, tensor.S(1))
			if err != nil {
				u.t.Fatal(err)
			}
			return u.ok(G.Mul(vector(u), G.NewVector(u.g, u.of, G.WithShape(4), G.WithName("w"), G.WithValue(v))))
		}, []string{`node "w"`, "not contiguous"}},
		{"threshold other than zero", func(u user) *G.Node {
			h := hidden(u)
			return u.ok(G.HadamardProd(h, u.ok(G.Gte(h, G.NewConstant(float32(1)), true))))
		}, []string{`node "⊙`, "only Rectify's own product"}},
		{"dropout", func(u user) *G.Node { return u.dense(u.ok(G.Dropout(hidden(u), 0.5)), "e", 4, 2) },
			[]string{"Dropout", "dropout is not supported", "leave it out"}},
		{"constant added", func(u user) *G.Node { return u.ok(G.Add(hidden(u), G.NewConstant(float32(1)))) },
			[]string{`node "+`, "adding a constant"}},
		{"constant factor", func(u user) *G.Node { return u.ok(G.HadamardProd(hidden(u), G.NewConstant(float32(2)))) },
			[]string{`node "⊙`, "scaling by a constant"}},
		{"element-wise product", func(u user) *G.Node { return u.ok(G.HadamardProd(hidden(u), u.param("p", 2, 4))) },
			[]string{"element by element with a parameter"}},
		{"element-wise product of activations", func(u user) *G.Node {
			h := hidden(u)
			return u.ok(G.HadamardProd(h, u.ok(G.Tanh(h))))
		}, []string{"only Rectify's own product"}},
		{"difference", func(u user) *G.Node {
			h := hidden(u)
			return u.ok(G.Sub(h, u.ok(G.Tanh(h))))
		}, []string{`node "-`, "element-wise operation -", "use Add"}},
		{"exponential", func(u user) *G.Node { return u.ok(G.Exp(hidden(u))) }, []string{`node "exp`, "element-wise function exp is not supported"}},
		{"concatenation", func(u user) *G.Node {
			h := hidden(u)
			return u.ok(G.Concat(1, h, h))
		}, []string{"Concat", "this op is not supported"}},
		{"slice of the batch", func(u user) *G.Node { return u.ok(G.Slice(hidden(u), G.S(0))) }, []string{"this op is not supported"}},
		{"random node", func(u user) *G.Node {
			return u.ok(G.Add(hidden(u), G.GaussianRandomNode(u.g, u.of, 0, 1, 2, 4)))
		}, []string{"this op is not supported"}},
		{"broadcast activation", func(u user) *G.Node {
			x := u.leaf("x", 1, 4)
			h := u.ok(G.Tanh(u.dense(x, "a", 4, 3)))
			return u.ok(G.BroadcastAdd(u.ok(G.Tanh(u.dense(x, "b", 4, 3))), h, nil, []byte{0}))
		}, []string{"Repeat", "broadcasts an activation"}},
		{"bare Im2Col", func(u user) *G.Node {
			h := u.ok(G.Im2Col(image(u), tensor.Shape{2, 2}, tensor.Shape{0, 0}, tensor.Shape{1, 1}, tensor.Shape{1, 1}))
			return u.dense(u.reshape(h, 2, 300), "d", 300, 2)
		}, []string{"im2col", "only as a part of gorgonia.Conv2d"}},
		{"window unlike the filter", func(u user) *G.Node {
			return u.ok(G.Conv2d(image(u), u.param("w", 4, 3, 4, 1), tensor.Shape{2, 2}, nil, []int{1, 1}, nil))
		}, []string{`filter node "w" has shape [4 3 4 1], its window needs [4 3 2 2]`}},
		{"average pool that is no mean", func(u user) *G.Node {
			return u.ok(G.AveragePool2D(feature(u), tensor.Shape{2, 1}, []int{0, 0}, []int{2, 2}))
		}, []string{"AvgPool", "divides by the image's width, 4, instead of the window's 2 elements", "nn.AvgPool"}},
		{"average pool scaled wrongly", func(u user) *G.Node {
			h := u.ok(G.AveragePool2D(feature(u), tensor.Shape{2, 1}, []int{0, 0}, []int{2, 2}))
			return u.ok(G.HadamardProd(h, G.NewConstant(float32(3))))
		}, []string{"nn.AvgPool"}},
		{"unequal paddings", func(u user) *G.Node {
			return u.ok(G.MaxPool2D(feature(u), tensor.Shape{2, 2}, []int{1, 0, 0, 0}, []int{2, 2}))
		}, []string{"MaxPool", "swaps the sides of unequal pool paddings (top 1, bottom 0, left 0, right 0)"}},
		{"pool padded by a whole window", func(u user) *G.Node {
			return u.dense(u.reshape(u.ok(G.MaxPool2D(feature(u), tensor.Shape{2, 2}, []int{2, 2}, []int{2, 2})), 2, 64), "d", 64, 2)
		}, []string{"maxpool1", "padded by a whole window"}},
		{"bias after the activation", func(u user) *G.Node {
			return u.ok(G.BroadcastAdd(u.ok(G.Tanh(hidden(u))), u.param("b", 1, 4), nil, []byte{0}))
		}, []string{`bias node "b" is added to node "tanh`, "right after the layer"}},
		{"bias on the input", func(u user) *G.Node {
			x := u.leaf("x", 2, 4)
			return u.ok(G.Add(x, u.dense(u.ok(G.BroadcastAdd(x, u.param("b", 1, 4), nil, []byte{0})), "d", 4, 4)))
		}, []string{"candidates for its input"}},
		{"second bias", func(u user) *G.Node {
			return u.ok(G.BroadcastAdd(hidden(u), u.param("b", 1, 4), nil, []byte{0}))
		}, []string{"right after the layer"}},
		{"two parameters added", func(u user) *G.Node {
			h := u.ok(G.Mul(vector(u), u.param("w", 4, 3)))
			return u.ok(G.Add(h, u.ok(G.Add(u.param("a", 2, 3), u.param("b", 2, 3)))))
		}, []string{"candidates for its input (x, a, b)"}},
		{"bias of every example", func(u user) *G.Node {
			return u.ok(G.Add(u.ok(G.Mul(vector(u), u.param("w", 4, 3))), u.param("b", 2, 3)))
		}, []string{`bias node "b" differs between the examples`, "broadcast"}},
		{"bias of every position", func(u user) *G.Node {
			return u.ok(G.BroadcastAdd(feature(u), u.param("b", 1, 4, 4, 1), nil, []byte{0, 3}))
		}, []string{`bias node "b" differs between the positions`, "(1, channels, 1, 1)"}},
		{"bias of one element", func(u user) *G.Node {
			return u.ok(G.BroadcastAdd(u.ok(G.Mul(vector(u), u.param("w", 4, 3))), u.param("b", 1, 1), nil, []byte{0, 1}))
		}, []string{"has 1 elements for 3 outputs"}},
		{"layer read before its bias", func(u user) *G.Node {
			h := u.ok(G.Mul(vector(u), u.param("w", 4, 3)))
			return u.ok(G.Add(u.ok(G.Tanh(h)), u.ok(G.BroadcastAdd(h, u.param("b", 1, 3), nil, []byte{0}))))
		}, []string{`read elsewhere without its bias node "b"`}},
		{"broadcast weight", func(u user) *G.Node {
			w := u.reshape(u.param("w", 4), 4, 1)
			_, w3, err := G.Broadcast(u.leaf("like", 4, 3), w, G.NewBroadcastPattern(nil, []byte{1}))
			return u.ok(G.Mul(vector(u), u.ok(w3, err)))
		}, []string{"is broadcast to"}},
		{"repeated weight", func(u user) *G.Node {
			_, w, err := G.Broadcast(u.leaf("like", 2, 3), u.param("w", 2, 3), G.NewBroadcastPattern(nil, []byte{0}))
			return u.ok(G.Mul(vector(u), u.ok(w, err)))
		}, []string{`node "w" is repeated along axis 0 from shape [2 3] to [4 3]`, "only axes of size 1"}},
		{"weight that no view describes", func(u user) *G.Node {
			w := u.reshape(u.ok(G.Transpose(u.param("v", 3, 4), 1, 0)), 2, 6)
			return u.ok(G.Mul(u.leaf("x", 3, 2), w))
		}, []string{`parameter node "v" is reshaped to [2 6] after a transposition`}},
		{"two inputs", func(u user) *G.Node {
			return u.ok(G.Add(u.dense(u.leaf("x", 2, 4), "a", 4, 3), u.dense(u.leaf("z", 2, 5), "b", 5, 3)))
		}, []string{"2 candidates for its input (x, z)", "WithInput"}},
		{"no parameters", func(u user) *G.Node { return u.ok(G.Tanh(vector(u))) }, []string{"no parameters", "nothing to train"}},
		{"the input as logits", vector, []string{`node "x": it depends on no parameters`}},
		{"vector input", func(u user) *G.Node { return u.ok(G.Tanh(u.leaf("x", 4))) }, []string{`node "x"`, "batch as axis 0"}},
		{"one logit for the cross-entropy", func(u user) *G.Node { return u.dense(vector(u), "d", 4, 1) }, []string{"at least two logits"}},
		{"scalar constant as logits", func(u user) *G.Node {
			return u.ok(G.Tanh(u.g.AddNode(G.NewConstant(float32(3)))))
		}, []string{"0 candidates"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := Lower(c.build(newUser(t)))
			if err == nil {
				t.Fatal("lowered")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "gorgonia rejected") {
				t.Errorf("the error comes from a panic: %q", err)
			}
		})
	}
}

func TestLowerRefusesInputs(t *testing.T) {
	u := newUser(t)
	x, z := u.leaf("x", 2, 4), u.leaf("z", 2, 4)
	h := u.dense(x, "a", 4, 3)
	image := u.leaf("image", 2, 1, 4, 4)
	filtered := u.conv(image, u.ok(G.Tanh(u.param("filter", 2, 1, 3, 3))), nil, []int{1, 1}, nil)
	both := u.ok(G.Add(h, u.dense(z, "b", 4, 3)))
	for _, c := range []struct {
		what   string
		logits *G.Node
		input  *G.Node
		want   string
	}{
		{"unused", h, z, `node "z": the input is unused`},
		{"computed", both, h, "the input must be a leaf"},
		{"two", both, x, `node "z": it stands where an activation is expected, but the input is node "x"`},
		{"computed filter", filtered, image, `node "tanh(%`},
		{"computed filter", filtered, image, "is no parameter"},
		{"nil logits", nil, x, "the logits are no node"},
	} {
		if _, err := Lower(c.logits, WithInput(c.input)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.what, err, c.want)
		}
	}
	if _, err := Lower(h, WithLoss(Logistic)); err == nil || !strings.Contains(err.Error(), "needs one logit, the network gives 3") {
		t.Errorf("wrong loss: %v", err)
	}
}

// A constant may hold records; its error must not show them.
func TestConstantsAreNotQuoted(t *testing.T) {
	u := newUser(t)
	data := G.NewConstant(tensor.New(tensor.WithShape(2, 4), tensor.WithBacking(narrow(noise(1, 8, 1)))))
	_, err := Lower(u.ok(G.Mul(data, u.param("w", 4, 3))))
	if err == nil || !strings.Contains(err.Error(), "a constant of shape (2, 4): constants are not supported") {
		t.Errorf("error %v", err)
	}
}

// LogSoftMax(x) after SoftMax(x) is the SoftMax node: a cross-entropy built on
// it would be wrong without a sign of it.
func TestKnownBugLogSoftMaxAfterSoftMax(t *testing.T) {
	u := newUser(t)
	logits := u.dense(u.leaf("x", 2, 4), "d", 4, 3)
	soft, log := u.ok(G.SoftMax(logits)), u.ok(G.LogSoftMax(logits))
	if soft != log {
		t.Error("gorgonia tells the two apart now; drop the remark from the refusal")
	}
	for _, n := range []*G.Node{soft, log} {
		if _, err := Lower(n); err == nil || !strings.Contains(err.Error(), "returns the SoftMax node for a LogSoftMax") {
			t.Errorf("error %v", err)
		}
	}
	if _, err := Lower(logits); err != nil {
		t.Errorf("the logits before it: %v", err)
	}
}

// Two dropouts of different probabilities are one node; both are refused, so
// that neither is mistaken for the other.
func TestKnownBugDropoutsMerge(t *testing.T) {
	u := newUser(t)
	h := u.dense(u.leaf("x", 2, 4), "d", 4, 3)
	a, b := u.ok(G.Dropout(h, 0.5)), u.ok(G.Dropout(h, 0.3))
	if a != b {
		t.Error("gorgonia tells the two apart now; drop the remark from the refusal")
	}
	for _, n := range []*G.Node{a, b} {
		if _, err := Lower(n); err == nil || !strings.Contains(err.Error(), "one node of two dropouts") {
			t.Errorf("error %v", err)
		}
	}
}

// Gorgonia's GroupNorm is off by more than the values that it normalizes. nn.GroupNorm is right (TestUserGraphs).
func TestKnownBugGroupNorm(t *testing.T) {
	u := newUser(t)
	x := u.leaf("x", 1, 1, 17, 17)
	one := G.NewTensor(u.g, u.of, 4, G.WithShape(1, 1, 1, 1), G.WithName("γ"), G.WithInit(G.Ones()))
	zero := G.NewTensor(u.g, u.of, 4, G.WithShape(1, 1, 1, 1), G.WithName("β"), G.WithInit(G.Zeroes()))
	y := u.ok(G.GroupNorm(x, one, zero, 1, 1, 1e-5))
	if u.ok(G.GroupNorm(x, one, zero, 1, 1, 0.5)) != y {
		t.Error("gorgonia tells two epsilons apart now; drop the remark from the package's comment")
	}
	if err := G.Let(x, tensor.New(tensor.WithShape(1, 1, 17, 17), tensor.WithBacking(narrow(noise(3, 289, 1))))); err != nil {
		t.Fatal(err)
	}
	m := G.NewTapeMachine(u.g)
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	variance := 0.0
	for _, v := range wide(t, y.Value().Data()) {
		variance += v * v / 289
	}
	if math.Abs(variance-1) < 0.1 {
		t.Errorf("gorgonia normalizes to the variance %v now; lower its GroupNorm whatever the size", variance)
	}
}

// Padded and overlapping pools can panic in Gorgonia's backward pass. They
// lower all the same, and their forward pass is Gorgonia's.
func TestKnownBugOverlappingPools(t *testing.T) {
	u := newUser(t)
	h := u.conv(u.leaf("x", 2, 1, 6, 7), u.param("w", 2, 1, 2, 2), nil, []int{1, 1}, nil)
	h = u.ok(G.MaxPool2D(h, tensor.Shape{3, 3}, []int{1, 2}, []int{1, 2}))
	s := h.Shape()
	net, err := Lower(u.dense(u.reshape(h, 2, s[1]*s[2]*s[3]), "d", s[1]*s[2]*s[3], 3))
	if err != nil {
		t.Fatal(err)
	}
	agree(t, net)
}
