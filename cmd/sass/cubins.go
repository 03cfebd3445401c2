package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
)

// compareCubins holds the committed machine code against what was assembled now, or writes it, and says how many files
// differ. A file's comment is the digest of the PTX, by which a test without an assembler knows what is out of date.
func compareCubins(w io.Writer, folder string, modules map[string][]byte, cubins map[[2]string]string, write bool) (int, error) {
	bad, known := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		for _, capability := range kernels.Capabilities {
			code, digest := cubins[[2]string{name, fmt.Sprintf("sm_%d", capability)}], digestOf(modules[name])
			file := filepath.Join(folder, kernels.CubinFile(name, capability))
			known[file] = true
			if old, from := unpack(file); old == code && from == digest {
				continue
			}
			if write {
				if err := pack(file, code, digest); err != nil {
					return 0, err
				}
				continue
			}
			bad++
			fmt.Fprintf(w, "%s is not what ptxas makes of %s.ptx\n", file, name)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "cubin", "*"))
	for _, file := range files {
		if known[file] {
			continue
		}
		if !write {
			bad++
			fmt.Fprintf(w, "%s is of no module\n", file)
			continue
		}
		err = errors.Join(err, os.Remove(file))
	}
	return bad, err
}
