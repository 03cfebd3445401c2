//go:build ((linux && (cgo || onnxruntime)) || darwin || windows) && (amd64 || arm64)

package runtime

import "github.com/ebitengine/purego"

// entryName is the one function that the library exports.
const entryName = "OrtGetApiBase"

// call calls a function of the library. All its functions here take and give whole numbers and pointers.
func call(f uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(f, args...)
	return result
}
