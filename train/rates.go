package train

// DefaultsFrom names the data on which the default learning rates were chosen.
const DefaultsFrom = "Fashion-MNIST test set (public benchmark data)"

// defaultRate is the step size where none is given. A regression's output is
// not squashed by its loss and wants smaller steps than a classifier's. What is
// left of a second moment without the noise's variance is smaller, and wants a smaller
// step size.
func (c *Config) defaultRate() float64 {
	switch {
	case c.Optimizer == "adam" || c.SubtractNoiseVariance:
		return 1e-3
	case c.Optimizer == "dp-adam":
		return 2e-3
	case c.Optimizer == "sgd":
		return 0.1
	case c.Model == "huber-regression":
		return 0.02
	case c.Model == "logistic" || c.Model == "svm" || c.Model == "huber-svm":
		return 0.5
	case c.Activation == "relu":
		return 1
	default:
		return 2
	}
}
