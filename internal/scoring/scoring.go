// Package scoring measures a model as it is trained: on public test records, and on training records for those who may
// see what is found on them.
package scoring

import (
	"fmt"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/tables"
)

// A Scorer measures what an engine trains. Its zero value measures nothing.
type Scorer struct {
	test, average, training func() (device.Score, error) // nil: not measured
	figures                 func() (outputs.Figures, error)
}

// Scores are those on public test records, zero where there are none.
type Scores struct {
	Test    device.Score
	Average device.Score    // of the average of the parameters, where one is kept
	Figures outputs.Figures // of a regression, or of two classes
}

// OpenTest makes ready to measure the network on public test records.
func (s *Scorer) OpenTest(e *engine.Engine, network *ir.Program, test tables.Records, b datasets.Bounds, threads int) (err error) {
	if s.test, err = e.Scorer(test.Data, false); err != nil {
		return err
	}
	if s.average, err = e.Scorer(test.Data, true); err != nil {
		return err
	}
	s.figures, err = outputs.Measurer(network, test, b, threads, e.ReadParams)
	return err
}

// OpenTraining makes ready to measure on training records.
func (s *Scorer) OpenTraining(e *engine.Engine, records tables.Records) (err error) {
	s.training, err = e.Scorer(records.Data, false)
	return err
}

// Test measures on test records after a step.
func (s *Scorer) Test(step int) (all Scores, err error) {
	if all.Test, err = score(s.test, "evaluation", step); err != nil {
		return all, err
	}
	if all.Average, err = score(s.average, "evaluation of the average", step); err != nil {
		return all, err
	}
	if s.figures != nil {
		if all.Figures, err = s.figures(); err != nil {
			return all, fmt.Errorf("evaluation after step %d: %w", step, err)
		}
	}
	all.Figures.BalancedAccuracy = outputs.Balanced(all.Test.Confusion)
	return all, nil
}

// Training measures on training records after a step.
func (s *Scorer) Training(step int) (device.Score, error) {
	return score(s.training, "evaluation", step)
}

func score(measure func() (device.Score, error), what string, step int) (found device.Score, err error) {
	if measure == nil {
		return found, nil
	}
	if found, err = measure(); err != nil {
		err = fmt.Errorf("%s after step %d: %w", what, step, err)
	}
	return found, err
}
