package engine

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// Given is a Supply of batches that its owner chose, for steps that no ledger pays: those
// of audits, whose records are made up, and those that are timed.
type Given struct {
	Rows []int32 // of every question's batch
	Done int     // steps; noise positions count with them, from 1
}

// Step has an engine of this supply make a step on a batch.
func (g *Given) Step(e *Engine, rows []int32) error {
	g.Rows = rows
	_, err := e.Steps.Step()
	g.Done++ // also where it failed: no position serves twice
	return err
}

func (g *Given) Slot() int   { return g.Done }
func (g *Given) Update() int { return g.Done + 1 }

func (g *Given) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	if !skip {
		dst = append(dst, g.Rows...)
	}
	return dst, uint64(g.Done) + 1
}

func (g *Given) Admit(...accountant.Mechanism) error { return nil } // nothing is charged
func (g *Given) Left() float64                       { return 1 }
func (g *Given) Stopped() error                      { return nil }
