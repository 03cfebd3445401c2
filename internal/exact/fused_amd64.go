package exact

import "golang.org/x/sys/cpu"

// fused says whether the processor multiplies and adds with one rounding; in software that takes longer than cells.
var fused = cpu.X86.HasFMA
