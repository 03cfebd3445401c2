package nn

// affine is W·x + b over the flattened input, started at zero. Logistic
// regression, the support vector machines and Huber regression differ in their
// losses alone; of more than two classes, logistic regression has a logit each.
func affine(k kit) []Layer {
	return []Layer{Flatten, Dense("fc1", k.outputs, Zeros)}
}
