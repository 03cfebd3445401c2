// Package convex solves linear models on the host, in float64. Its Table is private: what
// a solver finds leaves a run by a mechanism alone.
package convex

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// Model is a linear model with a convex loss whose gradient is Lipschitz: f(w; x, y) = ℓ(Wx + b, y).
// Its parameters are those of the network, in their order.
type Model struct {
	Loss            ir.Loss
	Inputs, Outputs int
	Bias            bool

	weight, bias int // where they begin
}

// Of gives the linear model that a network is. The error says why it is none.
func Of(p *ir.Program) (*Model, error) {
	if len(p.Ops) != 1 || p.Ops[0].Kind != ir.Dense {
		return nil, fmt.Errorf("network %s is no linear model: its loss is not convex in its weights", p.Name)
	}
	if p.Loss == ir.Hinge {
		return nil, errors.New("the hinge loss has a kink, so that its gradient is not Lipschitz: use --model huber-svm")
	}
	op := p.Ops[0]
	m := &Model{Loss: p.Loss, Inputs: ir.Size(p.Shape), Outputs: p.Outputs(), Bias: op.Bias != ir.None, weight: p.Params[op.Weight].Offset}
	if m.Bias {
		m.bias = p.Params[op.Bias].Offset
	}
	return m, nil
}

// Params is their number.
func (m *Model) Params() int {
	if m.Bias {
		return m.Outputs * (m.Inputs + 1)
	}
	return m.Outputs * m.Inputs
}

// norm is that of what the weights multiply, for features of norm z: an intercept is one
// more feature, of value 1.
func (m *Model) norm(z float64) float64 {
	if m.Bias {
		return math.Hypot(z, 1)
	}
	return z
}

// Lipschitz bounds the norm of a record's gradient, for features of norm z at most.
func (m *Model) Lipschitz(z float64) float64 {
	if m.Loss == ir.SoftmaxCrossEntropy {
		return math.Sqrt2 * m.norm(z) // ‖p − e_y‖ ≤ √2
	}
	return m.norm(z) // |ℓ'| ≤ 1
}

// Monotone reports whether the slope of a record's loss never changes its sign.
func (m *Model) Monotone() bool { return m.Loss == ir.Logistic || m.Loss == ir.HuberHinge }

// Regression reports whether targets are numbers, which tables scale to [0, 1].
func (m *Model) Regression() bool { return m.Loss == ir.Huber }

// Smoothness bounds how fast a record's gradient changes, for features of norm z at most.
func (m *Model) Smoothness(z float64) float64 {
	n := m.norm(z)
	return m.curvature() * n * n
}

// curvature is the most that ℓ” can be; of softmax, the largest eigenvalue of diag(p) − pp^T.
func (m *Model) curvature() float64 {
	switch m.Loss {
	case ir.SoftmaxCrossEntropy:
		return 0.5
	case ir.Logistic:
		return 0.25
	case ir.HuberHinge:
		return 1 / (2 * ir.HuberHingeWidth)
	}
	return 1 // Huber
}

// Trace bounds that of the Hessian of a record's loss, for features of norm z at most: normal noise
// of variance σ² in every parameter raises the expected loss by Trace·σ²/2 at most.
func (m *Model) Trace(z float64) float64 {
	if m.Loss == ir.SoftmaxCrossEntropy {
		n := m.norm(z)
		return (1 - 1/float64(m.Outputs)) * n * n // 1 − Σp², at most
	}
	return m.Smoothness(z) // one score has one curved direction
}

// LossAtZero bounds a record's loss where all parameters are zero; of a regression it is that
// of a target in [0, 1], as tables have them.
func (m *Model) LossAtZero() float64 {
	if m.Loss == ir.SoftmaxCrossEntropy {
		return math.Log(float64(m.Outputs))
	}
	return host.ScalarLoss(m.Loss, 0, 1)
}
