package host

import "github.com/privgrad/privgrad/internal/device"

func (q *queue[T]) Project(l device.LSTM, p, g, weights, state device.Vector) {
	if !q.check(l.Check()) {
		return
	}
	n := q.net
	u := &Projection[T]{
		LSTM: l,
		P:    q.vec(p, n.params), G: q.vec(g, n.params),
		W: q.vec(weights, l.Weights()), State: q.vec(state, n.params*l.States()),
	}
	if q.err != nil {
		return
	}
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		u.Scalars = in.Scalars
		n.backend.Project(u)
	})
}

// Each applies the scalar definition to parameters lo to hi.
func (u *Projection[T]) Each(lo, hi int) {
	w, state := make([]float64, len(u.W)), make([]float64, u.LSTM.States())
	for i, x := range u.W {
		w[i] = float64(x)
	}
	for i := lo; i < hi; i++ {
		for k := range state {
			state[k] = float64(u.State[k*len(u.P)+i])
		}
		u.P[i] = T(u.LSTM.Apply(&u.Scalars, w, float64(u.P[i]), float64(u.G[i]), state))
		for k, x := range state {
			u.State[k*len(u.P)+i] = T(x)
		}
	}
}
