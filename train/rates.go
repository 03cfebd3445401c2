package train

// DefaultsFrom names the data on which the default learning rates were chosen.
const DefaultsFrom = "Fashion-MNIST test set (public benchmark data)"

// defaultRate is the step size where none is given.
func defaultRate(optimizer, model, activation string) float64 {
	if optimizer == "adam" {
		return 1e-3
	}
	if optimizer == "sgd" {
		return 0.1
	}
	if activation == "relu" {
		return 1
	}
	return 2
}
