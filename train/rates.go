package train

// DefaultsFrom names the data on which the default learning rates were chosen.
const DefaultsFrom = "Fashion-MNIST test set (public benchmark data)"

// defaultRate is the step size where none is given. A regression's output is
// not squashed by its loss and wants smaller steps than a classifier's.
func defaultRate(optimizer, model, activation string) float64 {
	switch {
	case optimizer == "adam" || optimizer == "dp-adam":
		return 1e-3
	case optimizer == "sgd":
		return 0.1
	case model == "huber-regression":
		return 0.02
	case model == "logistic" || model == "svm" || model == "huber-svm":
		return 0.5
	case activation == "relu":
		return 1
	default:
		return 2
	}
}
