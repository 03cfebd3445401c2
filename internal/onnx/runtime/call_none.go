//go:build !(((linux && (cgo || onnxruntime)) || darwin || windows) && (amd64 || arm64))

package runtime

import (
	"errors"
	stdruntime "runtime"
)

// load refuses: without cgo, a program for Linux that can load libraries is linked to the system's C library, so that one which
// was to run anywhere would not. Who wants that says so with a tag.
func load(string) (uintptr, error) {
	if stdruntime.GOOS == "linux" && (stdruntime.GOARCH == "amd64" || stdruntime.GOARCH == "arm64") {
		return 0, errors.New("this program was built without cgo and cannot load libraries: build it with a C compiler, or with -tags onnxruntime")
	}
	return 0, errors.New("this program cannot load libraries on " + stdruntime.GOOS + "/" + stdruntime.GOARCH)
}

// call is never reached, since no library was loaded.
func call(uintptr, ...uintptr) uintptr { return 0 }
