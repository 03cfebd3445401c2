package ir

// affine is x·weight + bias with constants that repeat along axes; a weight that is left out is 1, a bias 0.
var affine = definition{name: "affine", inputs: 1, shapes: sameShape, flops: perOutput(2), broadcasts: true, forward: true}
