package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/internal/device"
)

func (q *queue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	q.check(errors.New("learned update rules do not run on GPUs"))
}

func (q *queue) Norm(dst, src device.Sum) {
	q.check(errors.New("norms of sums are not released on GPUs"))
}
