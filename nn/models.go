package nn

import "fmt"

// spec is a named model: layers over images, then dense layers of so many units, then the
// logits, with the activation behind all but those. With neither it is linear. Models of any input begin with logits of zero.
type spec struct {
	Info
	front front // or nil
	dense []int
}

type front interface {
	layers(act Layer, init Init) []Layer
}

// convolutions come one after the other, each with the stride of the 2×2 pool behind it, 0 for none.
type convolutions []struct{ out, kernel, stride, pad, pool int }

var (
	image, colour = [3]int{1, 28, 28}, [3]int{3, 32, 32}

	specs = []spec{
		{network("mlp-mnist", image, 795010, "fmnist"), nil, []int{1000}},
		{network("mlp-fmnist", image, 269322, "fmnist"), nil, []int{256, 256}},
		// With two classes and sigmoids the network of Hong et al. 2021, appendix C.3.
		{network("mlp-small", image, 15910, "fmnist"), nil, []int{20}},
		// A LeNet-5 with other dense layers.
		{network("cnn-mnist", image, 102550, "fmnist"), convolutions{{6, 5, 1, 0, 2}, {16, 5, 1, 0, 2}}, []int{256, 128}},
		// That of TensorFlow Privacy's MNIST tutorial.
		{network("mnist-tf", image, 26010, "fmnist"), convolutions{{16, 8, 2, 3, 1}, {32, 4, 2, 0, 1}}, []int{32}},
		{network("cifar-small", colour, 550570, "cifar10"), pairs(32, 32, 64, 64, 128, 128), []int{128}},
		// That of DP-BLSGD's CIFAR-10 experiments (section 5.7).
		{network("cifar-paper", colour, 5851338, "cifar10"), pairs(32, 64, 128, 128, 256, 256), []int{1024, 512}},
		{network("resnet-small", colour, 378730, "cifar10").rectified(), preactivated{16, []block{{32, 2}, {64, 2}, {64, 1}, {128, 2}}, Conv, func(channels int) int { return channels / groupSize }}, nil},
		{network("wrn-16-4", colour, 2753818, "cifar10").rectified(), wideResidual{16, 4}, nil},
		{network("wrn-40-4", colour, 8961306, "cifar10").rectified(), wideResidual{40, 4}, nil},
		linear("logistic", Logistic),
		linear("svm", Hinge),
		linear("huber-svm", HuberHinge),
		linear("huber-regression", Huber),
		// Chosen on held-out records of tables (docs/explain/accuracy.md).
		table("mlp-table", Logistic, 64),
		table("mlp-regression", Huber, 64),
	}
)

func network(name string, input [3]int, parameters int, data string) Info {
	return Info{Name: name, Input: input, Classes: 10, Loss: SoftmaxCrossEntropy, Parameters: parameters, Data: data, Activation: "tanh"}
}

// rectified is a network with ReLU where no activation is chosen.
func (i Info) rectified() Info { i.Activation = "relu"; return i }

// linear models differ in their losses alone; of more than two classes, logistic
// regression has a logit each.
func linear(name string, loss Loss) spec {
	return spec{Info: Info{Name: name, Linear: true, Classes: 2, Loss: loss, Parameters: 785, Data: "fmnist", Activation: "tanh"}}
}

// table is a network of one hidden layer for any input, with the losses of linear models.
func table(name string, loss Loss, units int) spec {
	s := linear(name, loss)
	s.Linear, s.Parameters, s.Activation, s.dense = false, 785*units+units+1, "gelu", []int{units}
	return s
}

// pairs are 3×3 convolutions with a pool behind every other.
func pairs(outs ...int) convolutions {
	all := make(convolutions, len(outs))
	for i, out := range outs {
		all[i].out, all[i].kernel, all[i].stride, all[i].pad, all[i].pool = out, 3, 1, 1, i%2*2
	}
	return all
}

func (list convolutions) layers(act Layer, init Init) (all []Layer) {
	for i, c := range list {
		all = append(all, Conv(fmt.Sprintf("conv%d", i+1), c.out, c.kernel, c.stride, c.pad, init), act)
		if c.pool > 0 {
			all = append(all, MaxPool(2, c.pool))
		}
	}
	return all
}

func (s *spec) layers(act Layer, init Init, outputs int) (all []Layer) {
	if s.front != nil {
		all = s.front.layers(act, init)
	}
	all = append(all, Flatten)
	for i, units := range s.dense {
		all = append(all, Dense(fmt.Sprintf("fc%d", i+1), units, init), act)
	}
	if s.Input == [3]int{} { // of tables, where outputs of zero are a better start than random ones
		init = Zeros
	}
	return append(all, Dense(fmt.Sprintf("fc%d", len(s.dense)+1), outputs, init))
}
