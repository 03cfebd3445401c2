package nn

// oneLogit is w·x + b over the flattened input, started at zero. Logistic
// regression, the support vector machines and Huber regression differ in their
// losses alone.
func oneLogit(kit) []Layer {
	return []Layer{Flatten, Dense("fc1", 1, Zeros)}
}
