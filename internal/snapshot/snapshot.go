// Package snapshot holds what a run keeps of its engine: parameters and their average, the vectors and the state of the
// method, and the clip norm where it moves. From a checkpoint of it a run goes on exactly.
package snapshot

import (
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Snapshot is what was last read of an engine.
type Snapshot struct {
	Params  []float32
	Average []float32 // of the parameters; nil where none is kept

	engine *engine.Engine
	states [][]float32    // the method's vectors
	keeper dpoptim.Keeper // of the method's state, or of its budget alone; nil where there is none
}

// New has the parameters with which a run begins.
func New(e *engine.Engine, params []float32) *Snapshot {
	s := &Snapshot{Params: params, engine: e}
	for _, v := range e.Steps.State() {
		s.states = append(s.states, make([]float32, v.Width*len(params)))
	}
	if _, kept := e.Average(); kept {
		s.Average = slices.Clone(params)
	}
	if k, ok := e.Steps.(dpoptim.Keeper); ok {
		s.keeper = k
	} else if e.Filtered() {
		s.keeper = engine.SpentKeeper{}
	}
	return s
}

// Widths are those of the method's vectors, in values a parameter.
func (s *Snapshot) Widths() (all []int) {
	for _, v := range s.engine.Steps.State() {
		all = append(all, v.Width)
	}
	return all
}

// Values counts parameters and the method's vectors.
func (s *Snapshot) Values() int {
	all := len(s.Params)
	for _, v := range s.states {
		all += len(v)
	}
	return all
}

// Begin gives the engine of a new run its parameters. A method may have begun with other vectors than zeros.
func (s *Snapshot) Begin() error {
	if err := s.readStates(); err != nil {
		return err
	}
	return s.write()
}

// Resume gives the engine what a checkpoint holds, and says what was spent. Errors name the run directory out.
func (s *Snapshot) Resume(out string, c *rundir.Checkpoint) (spent dpoptim.Spent, err error) {
	if a := s.engine.Adaptation; a != nil {
		if err := a.Rule.Validate(c.Clip); err != nil {
			return spent, usage.Errorf("%s: the checkpoint is not one of this run's: %w; restore the file, or start a new run in another directory", out, err)
		}
		a.Clip = c.Clip
	}
	if (s.Average != nil) != (c.Average != nil) {
		return spent, Foreign(out)
	}
	if s.keeper != nil {
		if spent, err = s.keeper.Restore([]byte(c.Method)); err != nil {
			return spent, usage.Errorf("%s: the checkpoint's %w; restore the file, or start a new run in another directory", out, err)
		}
	}
	s.Params, s.states, s.Average = c.Params, c.States, c.Average
	for i, v := range s.engine.Steps.State() {
		if err := s.engine.Write(v.Vector, s.states[i]); err != nil {
			return spent, err
		}
	}
	return spent, s.write()
}

// Foreign is the error of a checkpoint that no run of these settings writes.
func Foreign(out string) error {
	return usage.Errorf("%s: the checkpoint is not one of this run's: restore the file, or start a new run in another directory", out)
}

// write sets parameters and average.
func (s *Snapshot) write() error {
	if average, kept := s.engine.Average(); kept {
		if err := s.engine.Write(average, s.Average); err != nil {
			return err
		}
	}
	return s.engine.SetParams(s.Params)
}

// Read waits for the engine and reads all of it.
func (s *Snapshot) Read() error {
	if err := s.engine.Wait(); err != nil {
		return err
	}
	if err := s.engine.ReadParams(s.Params); err != nil {
		return err
	}
	if err := s.readStates(); err != nil {
		return err
	}
	if average, kept := s.engine.Average(); kept {
		return s.engine.Read(average, s.Average)
	}
	return nil
}

func (s *Snapshot) readStates() error {
	for i, v := range s.engine.Steps.State() {
		if err := s.engine.Read(v.Vector, s.states[i]); err != nil {
			return err
		}
	}
	return nil
}

// Fill adds what was last read to a checkpoint, and what was spent by then.
func (s *Snapshot) Fill(c *rundir.Checkpoint, spent dpoptim.Spent) error {
	c.Params, c.States, c.Average = s.Params, s.states, s.Average
	if a := s.engine.Adaptation; a != nil {
		c.Clip = a.Clip
	}
	if s.keeper == nil {
		return nil
	}
	state, err := s.keeper.Save(spent)
	c.Method = string(state)
	return err
}
