//go:build !amd64

package exact

import "runtime"

// fused says whether the processor multiplies and adds with one rounding; in software that takes longer than cells.
var fused = runtime.GOARCH == "arm64" || runtime.GOARCH == "ppc64le" || runtime.GOARCH == "riscv64" || runtime.GOARCH == "s390x"
