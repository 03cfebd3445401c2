package dpoptim

// updates are steps of one sum of gradients and one update by it each, of a step size
// that is fixed before the run.
type updates struct {
	engine    Engine
	optimizer Optimizer
	sum       Sum
}

// NewUpdates records an optimizer's update behind the release of a sum.
func NewUpdates(e Engine, o Optimizer) (Steps, error) {
	sum, err := e.Sum(SumQuery{Then: func(q Queue, g Noisy) error { return o.Record(q, e.Params(), g) }})
	return &updates{e, o, sum}, err
}

func (u *updates) Step() (int, error) {
	return 1, u.sum.Ask(SumAsk{Set: func(s *Scalars) {
		u.optimizer.Set(s, u.engine.Update())
		s[SlotRate] = float32(u.engine.Facts().Rate.At(u.engine.Slot() + 1))
	}})
}

func (u *updates) State() []State { return u.optimizer.State() }
