package ir

// add is the sum of two values of one shape.
var add = definition{name: "add", inputs: 2, shapes: sameShape, flops: perOutput(1)}
