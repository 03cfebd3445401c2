// Package canary puts made-up public records into a run, so that the run can be audited. A canary takes part if a secret coin says
// so. From what the run releases, an adversary guesses the coins. If more guesses are right than the claimed ε allows, the claim is false.
//
// Every canary has an input of its own, which is zero in all other records. A linear map of these inputs is added to the
// outputs of the network. So a canary's gradient lies almost wholly in parameters that no other record moves, whatever the
// network is, and the network behaves towards all other records as it would without canaries.
package canary

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// A canary's own input is loudness clip norms, and at least loudness. Then its gradient is longer than the clip norm unless the network is all but sure
// of its label, and the rest of the network gets a very small part of it. Features in half precision can be as large as loudest.
const (
	loudness = 10_000
	loudest  = 1 << 15
)

// quiet is the largest value of what a network reads of a canary in place of a record: small, and not zero, which normalization would divide by next to
// nothing.
const quiet = 0.1

// Canaries are the made-up records of a run. All but the coins is public.
type Canaries struct {
	Record  []float32 // the values that stand for those of a record, the same of all canaries
	Value   float64   // of a canary's own input
	Clip    float64
	Classes []int // its label
	Network *ir.Program
	Coins   []bool // whether it takes part
}

// New makes one canary for each coin, with labels that are drawn by a public seed. The network is the one without them.
func New(network *ir.Program, clip float64, classes int, coins []bool) *Canaries {
	value := half.ToFloat32(half.FromFloat32(float32(min(loudness*max(clip, 1), loudest))))
	c := &Canaries{Value: float64(value), Clip: clip, Network: network, Coins: coins}
	random := rand.New(rand.NewPCG(0x63616e617279, 1))
	for range ir.Size(network.Shape) {
		c.Record = append(c.Record, half.ToFloat32(half.FromFloat32(float32(quiet*(2*random.Float64()-1)))))
	}
	for range coins {
		c.Classes = append(c.Classes, random.IntN(classes))
	}
	return c
}

// Program is the network with inputs and parameters for so many canaries. The parameters of the network come first, then one for each output and
// canary: the canaries' of the first output, of the second, and so on.
func Program(p *ir.Program, canaries int) *ir.Program {
	q, size, outputs := *p, ir.Size(p.Shape), p.Outputs()
	all := []int{size + canaries}
	pick := func(name string, from int, out []int) ir.Op {
		op := ir.Op{Kind: ir.Pick, Name: name, In: []ir.Value{ir.Input}, Shape: all, Out: out, Weight: ir.None, Bias: ir.None}
		for i := range ir.Size(out) {
			op.Index = append(op.Index, int32(from+i))
		}
		return op
	}
	q.Shape = all
	q.Ops = []ir.Op{pick("record", 0, p.Shape), pick("canaries", size, []int{canaries})}
	const record, own = 1, 2 // the values of these ops
	for _, op := range p.Ops {
		in := make([]ir.Value, len(op.In))
		for i, v := range op.In {
			if in[i] = v + own; v == ir.Input {
				in[i] = record
			}
		}
		op.In = in
		q.Ops = append(q.Ops, op)
	}
	network := q.Logits()
	q.Params = append(q.Params[:len(q.Params):len(q.Params)], ir.Param{Name: "canaries.weight", Shape: []int{outputs, canaries}, Offset: p.NumParams()})
	out := p.Ops[len(p.Ops)-1].Out
	q.Ops = append(q.Ops,
		ir.Op{Kind: ir.Dense, Name: "canary", In: []ir.Value{own}, Shape: []int{canaries}, Out: []int{outputs}, Weight: len(q.Params) - 1, Bias: ir.None},
		ir.Op{Kind: ir.Add, Name: "with canary", In: []ir.Value{network, network + 1}, Shape: out, Out: out, Weight: ir.None, Bias: ir.None})
	return &q
}

// Targets are those of the canaries, NaN for one that does not take part: such a record counts as zero.
func (c *Canaries) Targets() []float32 {
	all := make([]float32, len(c.Coins))
	for i, class := range c.Classes {
		switch {
		case !c.Coins[i]:
			all[i] = float32(math.NaN())
		case c.Network.Loss == ir.SoftmaxCrossEntropy:
			all[i] = float32(class)
		default:
			all[i] = 2*float32(class) - 1
		}
	}
	return all
}

// Toss gives fair coins. The key must be used for nothing else.
func Toss(key stream.Key, n int) ([]bool, error) {
	s, err := stream.New(stream.ChaCha20, key)
	if err != nil {
		return nil, err
	}
	coins, bits := make([]bool, n), make([]byte, (n+7)/8)
	s.Fill(bits, 0, 0)
	for i := range coins {
		coins[i] = bits[i/8]>>(i%8)&1 == 1
	}
	return coins, nil
}
