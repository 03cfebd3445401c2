package sass

// Architecture is what one multiprocessor has, from the table of technical specifications of the CUDA C++
// programming guide. Each also has 65,536 registers, in four parts.
type Architecture struct {
	Name          string
	Warps, Blocks int
	Shared        int // bytes
	SharedOptIn   int // of these, what a block may ask for
}

// Architectures are those that the modules are assembled for.
var Architectures = []Architecture{
	{"sm_80", 64, 32, 164 << 10, 163 << 10},  // A100
	{"sm_86", 48, 16, 100 << 10, 99 << 10},   // RTX 30 and 40
	{"sm_90", 64, 32, 228 << 10, 227 << 10},  // H100
	{"sm_100", 64, 32, 228 << 10, 227 << 10}, // B200
	{"sm_120", 48, 24, 100 << 10, 99 << 10},  // RTX 50
}

// Needs is what a kernel takes of a multiprocessor.
type Needs struct {
	Threads         int // a block, the most that it may be launched with
	Registers       int // a thread
	Static, Dynamic int // bytes of shared memory a block
}

// Fit is how many blocks fit a multiprocessor.
func (a *Architecture) Fit(n Needs) int {
	const registers, parts = 65536, 4
	up := func(n, to int) int { return (n + to - 1) / to * to }
	warps := up(n.Threads, 32) / 32
	// A warp's registers are given out by 256 and lie in one part; a block's shared memory by 128, and the system keeps 1,024 bytes of it.
	byRegisters := registers / parts / up(n.Registers*32, 256) * parts / warps
	byShared := a.Shared / up(n.Static+n.Dynamic+1024, 128)
	return min(a.Blocks, a.Warps/warps, byRegisters, byShared)
}
