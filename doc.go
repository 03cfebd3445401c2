// Package privgrad is the root of a differentially private neural-network
// training backend: a Gorgonia graph is lowered by package nn, scheduled with
// per-example clipping by perexample, run on a device, released through a noise
// mechanism of dpoptim/mechanism and priced by accountant; package train wires
// a whole run together, and cmd/privgrad is the command line. This package
// itself holds no code.
package privgrad
