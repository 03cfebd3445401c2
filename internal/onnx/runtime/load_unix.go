//go:build ((linux && (cgo || onnxruntime)) || darwin) && (amd64 || arm64)

package runtime

import "github.com/ebitengine/purego"

// load loads a library, and gives the function that all others are had from.
func load(path string) (entry uintptr, err error) {
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(library, entryName)
}
