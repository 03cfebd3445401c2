package lower

import "github.com/privgrad/privgrad/internal/ir"

// An operation lowers a kind of node, which must have so many inputs.
type operation struct {
	inputs int
	lower  func(c *call) (*value, *Refusal)
}

// operations has every kind of node that is known.
var operations map[string]operation

func init() { // rows lower what other rows made
	operations = map[string]operation{
		"Conv":   {2, conv},
		"Gemm":   {2, gemm},
		"MatMul": {2, matMul},

		"BatchNormalization":    {5, batchNormalization},
		"GroupNormalization":    {3, groupNormalization},
		"InstanceNormalization": {3, instanceNormalization},
		"LayerNormalization":    {2, layerNormalization},

		"Relu":      {1, activate(ir.ReLU)},
		"LeakyRelu": {1, leakyRelu},
		"Tanh":      {1, activate(ir.Tanh)},
		"Sigmoid":   {1, activate(ir.Sigmoid)},
		"Gelu":      {1, gelu},
		"Erf":       {1, erf},
		"Erfc":      {1, erf}, // which tf2onnx writes, and no operator set has

		"MaxPool":           {1, pool(ir.MaxPool)},
		"AveragePool":       {1, pool(ir.AvgPool)},
		"GlobalMaxPool":     {1, globalPool(ir.MaxPool)},
		"GlobalAveragePool": {1, globalPool(ir.AvgPool)},
		"ReduceMean":        {1, reduce(ir.AvgPool)},
		"ReduceMax":         {1, reduce(ir.MaxPool)},
		"Pad":               {2, pad},

		"Add":        {2, binary},
		"Sub":        {2, binary},
		"Mul":        {2, binary},
		"Div":        {2, binary},
		"Pow":        {2, power},
		"Sqrt":       {1, root},
		"Reciprocal": {1, reciprocal},
		"Neg":        {1, negative},
		"Softmax":    {1, softmax},
		"LogSoftmax": {1, softmax},

		"Identity":  {1, same},
		"Cast":      {1, cast},
		"CastLike":  {2, cast},
		"Dropout":   {1, dropout},
		"Flatten":   {1, flatten},
		"Reshape":   {2, reshape},
		"Squeeze":   {1, squeeze},
		"Unsqueeze": {2, unsqueeze},
		"Transpose": {1, transpose},

		"Shape":  {1, shapeOf},
		"Concat": {1, concat},

		"ai.onnx.ml.ZipMap": {1, same}, // names the columns
	}
}
