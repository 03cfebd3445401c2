package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A wheel is a zip of a Python module, with files that say what it is.
type wheel struct {
	version string
	tags    []string // platforms, the best name first
	entries []entry
}

type entry struct {
	name    string
	content []byte
	mode    os.FileMode
}

const (
	plain      = os.FileMode(0o644)
	executable = os.FileMode(0o755)
)

// name is that of the file.
func (w *wheel) name() string {
	return fmt.Sprintf("privgrad-%s-py3-none-%s.whl", w.version, strings.Join(w.tags, "."))
}

func (w *wheel) add(name string, content []byte, mode os.FileMode) {
	w.entries = append(w.entries, entry{name, content, mode})
}

// collect takes the module, the program and what describes them.
func (w *wheel) collect(sources, binary string) error {
	files, err := filepath.Glob(filepath.Join(sources, "python", "privgrad", "*.py")) // in order
	if err != nil {
		return err
	}
	files = append(files, filepath.Join(sources, "python", "privgrad", "py.typed"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w.add("privgrad/"+filepath.Base(file), content, plain)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	name := "privgrad"
	if strings.HasPrefix(w.tags[0], "win") {
		name += ".exe"
	}
	w.add("privgrad/bin/"+name, program, executable)
	return w.describe(sources)
}

const metadata = `Metadata-Version: 2.4
Name: privgrad
Version: %s
Summary: Neural networks and linear models trained with differential privacy
License-Expression: Apache-2.0
License-File: LICENSE
Project-URL: Source, https://github.com/privgrad/privgrad
Requires-Python: >=3.9
Requires-Dist: numpy>=1.22
Description-Content-Type: text/markdown

`

// describe adds the folder of metadata, all but its list of files.
func (w *wheel) describe(sources string) error {
	guide, err := os.ReadFile(filepath.Join(sources, "docs", "guides", "python.md"))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(sources, "LICENSE"))
	if err != nil {
		return err
	}
	about := "Wheel-Version: 1.0\nGenerator: privgrad cmd/wheel\nRoot-Is-Purelib: false\n"
	for _, tag := range w.tags {
		about += "Tag: py3-none-" + tag + "\n"
	}
	w.add(w.info("METADATA"), append(fmt.Appendf(nil, metadata, w.version), guide...), plain)
	w.add(w.info("WHEEL"), []byte(about), plain)
	w.add(w.info("entry_points.txt"), []byte("[console_scripts]\nprivgrad = privgrad._command:main\n"), plain)
	w.add(w.info("licenses/LICENSE"), license, plain)
	return nil
}

func (w *wheel) info(name string) string {
	return path.Join(fmt.Sprintf("privgrad-%s.dist-info", w.version), name)
}

// record lists the files with their digests. Of itself it has none.
func (w *wheel) record() []byte {
	var list bytes.Buffer
	for _, e := range w.entries {
		digest := sha256.Sum256(e.content)
		fmt.Fprintf(&list, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(digest[:]), len(e.content))
	}
	fmt.Fprintf(&list, "%s,,\n", w.info("RECORD"))
	return list.Bytes()
}

// written is the time of all files: of the build there is no trace.
var written = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// write writes the zip, under another name until it is whole.
func (w *wheel) write(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".wheel-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = w.pack(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(f.Name(), plain)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func (w *wheel) pack(to io.Writer) error {
	z := zip.NewWriter(to)
	z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, e := range append(w.entries, entry{w.info("RECORD"), w.record(), plain}) {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: written}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.content); err != nil {
			return err
		}
	}
	return z.Close()
}
