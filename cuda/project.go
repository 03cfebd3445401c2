package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

func (q *queue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	if !q.check(l.Check()) {
		return
	}
	n := q.net.params
	x, y := q.vec(p, n), q.vec(g, n)
	w, s := q.vec(weights, l.Weights()), q.vec(state, n*l.States())
	if q.err != nil {
		return
	}
	q.then(func() { q.try(kernels.Project(q.net.arena.run, l, n, x, y, w, s)) })
}

func (q *queue) Norm(dst, src device.Sum) {
	n := q.net
	if n.options.Exact {
		q.check(errors.New("exact nets release no norms: a record could move one by more than their integers tell"))
		return
	}
	to, from := q.scalars(dst, 1), q.gradients(src)
	if q.err != nil {
		return
	}
	q.then(func() {
		parts := kernels.Dots(n.params)
		at, err := n.alloc(int64(8*parts), "the norm of a sum", lessMemory)
		if !q.check(err) {
			return
		}
		q.launch(kernels.SquareParts(n.params, kernels.Ptr(from.at), kernels.Ptr(at)))
		q.launch(kernels.AddNorm(parts, kernels.Ptr(at), kernels.Ptr(to.at)))
	})
}
