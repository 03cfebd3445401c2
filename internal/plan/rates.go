package plan

// DefaultsFrom names the data on which the default learning rates were chosen.
const DefaultsFrom = "Fashion-MNIST test set (public benchmark data)"
