package ir

// Costs are nominal speeds of a device's core, by whose ratios a strategy compares its
// choices. They are constants of a code path: measured ones would make bits depend on how
// busy the machine is.
type Costs struct {
	GEMM   float64 // floating-point operations a second in large matrix products
	Gram   float64 // floating-point operations a second in the Gram matrices of NormGram
	Memory float64 // bytes a second to and from memory
	Launch float64 // seconds that a step takes whatever its batch
	Passes bool    // stored gradients go into the sum one by one where they can (Schedule.Passing)
	// Summed is how many examples' gradients of a convolution that are not stored go into a partial sum before it is written; 0 stands for 1.
	Summed int
	// Whole devices launch every part of a run, whether rows are left for it or not.
	Whole bool
	// Of examples that go through the network together, fewer than Fewest leave cores without work, and more than Most make
	// no step faster.
	Fewest, Most int
}

// Processor are the costs of a core with AVX2, of a server of about 2021. A core takes 8 examples or more of a convolution at
// a time (internal/cpu), so that many cores share 256 evenly.
var Processor = Costs{GEMM: 7e10, Gram: 1.2e10, Memory: 1e10, Launch: 1e-5, Passes: true, Summed: 1, Fewest: 256, Most: 512}
