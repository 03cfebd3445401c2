// Package fault turns faults of the program, which are panics, into errors: of a
// goroutine that works on private records, for its caller, and of a whole run, for
// its user.
//
// A panic's own text may quote a record, or how many there are in a batch ("index 5 out
// of range with length 3"). What is said in its place is where the program is at
// fault, and nothing of what it was working on.
package fault

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Error is a fault of the program.
type Error struct {
	Place  string // file and line of the source
	Mapped bool   // it was no fault: memory that stands for a file could not be read
}

func (e *Error) Error() string {
	if e.Mapped {
		return "a file of the data cannot be read any more: it was cut off or replaced, or its disk failed; restore the files, then resume the run"
	}
	return fmt.Sprintf("internal error (at %s): this is a fault of the program; please report it with the command line and the output of privgrad info", e.Place)
}

// Recover, deferred, makes an error of a panic.
func Recover(err *error) {
	v := recover()
	if v == nil {
		return
	}
	var e *Error
	if known, ok := v.(error); !ok || !errors.As(known, &e) {
		_, mapped := v.(interface{ Addr() uintptr }) // as the runtime's error at such an address has
		e = &Error{origin(), mapped}
	}
	*err = e
}

// Map is called by a goroutine that reads memory which may stand for a file. If the file gets shorter or its
// disk fails, that is a panic from then on, which Recover finds. Otherwise the program ends with a trace of
// what it was working on.
func Map() { debug.SetPanicOnFault(true) }

// Raise hands a goroutine's fault on to its caller, who has no error to return: up to
// the next Recover. Of nil it does nothing.
func Raise(err error) {
	if err != nil {
		panic(err)
	}
}

// origin is the place of a panic that is being recovered.
func origin() string {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			dir := strings.LastIndex(f.File, "/")
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndex(f.File[:max(dir, 0)], "/")+1:], f.Line)
		}
		panicked = panicked || inRuntime
		if !more {
			return "an unknown place"
		}
	}
}
