// Package runtime runs a fixed public ONNX graph by ONNX Runtime, whose shared library is looked for when it is needed. Nothing of it
// is needed to build.
//
// A session takes one record at a time, on one thread and in a fixed order of operations. So a row is a function of its record, of the
// graph, of the library and of the kind of processor, and of nothing else: the same bits alone, among others, in any order and after any
// other record.
package runtime

import (
	"fmt"
	stdruntime "runtime"
	"strconv"
	"strings"
)

// The oldest release that is used. Its number is that of its table of functions, too: release 1.19 has table 19.
const (
	leastMajor = 1
	leastMinor = 19
)

// install says how to get the library.
const install = "install it by “pip install onnxruntime” (1.19 or later), or name the library's file in " + Variable

// A Library is ONNX Runtime. It stays loaded until the process ends.
type Library struct {
	path, version string
	api           *table
	environment   uintptr
}

// Path is the file from which it was loaded, or the name that the system's loader knows.
func (l *Library) Path() string { return l.path }

// Version is the library's own, such as 1.32.0.
func (l *Library) Version() string { return l.version }

// open loads a library and makes its environment, of which a process has one.
func open(path string) (*Library, error) {
	entry, err := load(path)
	if err != nil {
		return nil, err
	}
	base := at[struct{ table, version uintptr }](call(entry))
	l := &Library{path: path, version: text(call(base.version))}
	if !recent(l.version) {
		return nil, fmt.Errorf("it is version %s, which is too old", l.version)
	}
	functions := call(base.table, leastMinor)
	if functions == 0 {
		return nil, fmt.Errorf("version %s does not have table %d of functions", l.version, leastMinor)
	}
	l.api = at[table](functions)
	var held stdruntime.Pinner
	defer held.Unpin()
	if l.environment, err = l.api.made(createEnv, fatalAlone, address(&held, terminated("privgrad"))); err != nil {
		return nil, err
	}
	return l, l.api.done(disableTelemetry, l.environment)
}

// recent reports whether a version is at least 1.19.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, e1 := strconv.Atoi(major)
	b, e2 := strconv.Atoi(minor)
	return e1 == nil && e2 == nil && a == leastMajor && b >= leastMinor
}
