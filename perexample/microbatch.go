package perexample

import "github.com/privgrad/privgrad/internal/plan"

// microbatch is materialise with one example at a time.
func microbatch(p *plan.Program) *plan.Schedule {
	s := materialise(p)
	s.Chunk = 1
	return s
}
