// Command wheel writes the Python module with the program in it, as a wheel for each binary that it is given. It needs no
// Python. Run it in the root of the sources:
//
//	go run ./cmd/wheel -out bin bin/wheel/*/privgrad*
//
// What a wheel runs on follows from its binary alone. The same binary and sources give the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "bin", "folder to write wheels to")
	flag.Parse()
	if err := makeAll(".", *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// makeAll writes a wheel for each binary, from the sources in a folder.
func makeAll(sources, out string, binaries []string) error {
	if len(binaries) == 0 {
		return fmt.Errorf("no binary was given: build some, as make wheel does")
	}
	changelog, err := os.ReadFile(filepath.Join(sources, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	version, err := versionOf(string(changelog))
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		tags, err := tagsOf(binary)
		if err != nil {
			return fmt.Errorf("%s: %w", binary, err)
		}
		w := wheel{version: version, tags: tags}
		if err := w.collect(sources, binary); err != nil {
			return err
		}
		path := filepath.Join(out, w.name())
		if err := w.write(path); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %.1f MB\n", path, float64(info.Size())/1e6)
	}
	return nil
}
