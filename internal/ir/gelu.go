package ir

// gelu is x·Φ(x) with Φ the standard normal distribution function (Hendrycks and Gimpel 2016). It falls and rises, so that
// its derivative is no function of its output.
var gelu = definition{name: "gelu", inputs: 1, shapes: sameShape, flops: perOutput(8)}
