package cuda

import (
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

func (q *queue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	n, v := q.net, q.net.vectors
	q.then(func() { q.try(kernels.Project(n.arena.run, l, n.Size, v[p], v[g], v[weights], v[state])) })
}

func (q *queue) Norm(dst, src device.Sum) {
	n := q.net
	q.then(func() {
		parts := kernels.Dots(n.Size)
		at, err := n.alloc(int64(8*parts), "the norm of a sum", lessMemory)
		if !q.check(err) {
			return
		}
		q.launch(kernels.SquareParts(n.Size, n.sums[src], kernels.Ptr(at)))
		q.launch(kernels.AddNorm(parts, kernels.Ptr(at), n.sums[dst]))
	})
}
