package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/internal/device"
)

var errSoon = errors.New("not on cuda yet")

func (q *queue) FirstAbove(src device.Sum, s device.Search)           { q.check(errSoon) }
func (q *queue) Axpy(y device.Vector, a device.Slot, x device.Vector) { q.check(errSoon) }
func (q *queue) Dot(x, y device.Vector)                               { q.check(errSoon) }
