//go:build amd64 || arm64

package runtime

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// load loads a library, and gives the function that all others are had from.
func load(path string) (entry uintptr, err error) {
	// Not from the working directory, where anybody's file may lie.
	where := uintptr(windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
	if filepath.IsAbs(path) {
		where |= windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR
	}
	library, err := windows.LoadLibraryEx(path, 0, where)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(library, entryName)
}
