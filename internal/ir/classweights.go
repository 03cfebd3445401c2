package ir

import (
	"fmt"
	"slices"
)

// MostClassWeight is the largest weight of a class, and its inverse the smallest: gradients stay far from the ends of float32.
const MostClassWeight = 1e6

// checkClassWeights finds weights that the program's loss cannot have.
func (p *Program) checkClassWeights() error {
	classes := max(p.Outputs(), 2)
	switch {
	case p.ClassWeights == nil:
		return nil
	case p.Loss == Huber:
		return fmt.Errorf("program %s: the %s loss has no classes that weights could be of", p.Name, p.Loss)
	case len(p.ClassWeights) != classes:
		return fmt.Errorf("program %s has %d classes and %d class weights; give one a class, in their order", p.Name, classes, len(p.ClassWeights))
	case slices.ContainsFunc(p.ClassWeights, func(w float32) bool { return !(w >= 1/float32(MostClassWeight) && w <= MostClassWeight) }):
		return fmt.Errorf("program %s: class weights %v must be from %g to %g", p.Name, p.ClassWeights, 1/MostClassWeight, MostClassWeight)
	}
	return nil
}

// Weight is that of a record's class; the target is one that the loss accepts.
func (p *Program) Weight(target float32) float32 {
	switch {
	case p.ClassWeights == nil:
		return 1
	case p.Loss == SoftmaxCrossEntropy:
		return p.ClassWeights[int(target)]
	case target > 0:
		return p.ClassWeights[1]
	}
	return p.ClassWeights[0]
}
