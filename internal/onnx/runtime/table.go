package runtime

import (
	"errors"
	stdruntime "runtime"
	"unsafe"
)

// A function is a place in ONNX Runtime's table of functions.
type function int

// The places that are used, as struct OrtApi of include/onnxruntime/core/session/onnxruntime_c_api.h orders them. All are of version 1
// of the table, to which later versions only append: onnxruntime_c_api.cc asserts that version 1 ends at place 101.
const (
	getErrorMessage          function = 2
	createEnv                function = 3
	disableTelemetry         function = 6
	createSessionFromArray   function = 8
	run                      function = 9
	createSessionOptions     function = 10
	setExecutionMode         function = 13
	disableMemPattern        function = 17
	disableCPUMemArena       function = 19
	setGraphOptimization     function = 23
	setIntraOpThreads        function = 24
	setInterOpThreads        function = 25
	sessionInputCount        function = 30
	sessionOutputCount       function = 31
	sessionInputTypeInfo     function = 33
	sessionInputName         function = 36
	sessionOutputName        function = 37
	createTensor             function = 48
	getTensorData            function = 51
	castTypeInfoToTensorInfo function = 55
	getTensorElementType     function = 60
	getDimensionsCount       function = 61
	getDimensions            function = 62
	getTensorTypeAndShape    function = 65
	getValueType             function = 67
	allocatorFree            function = 76
	defaultAllocator         function = 78
	releaseStatus            function = 93
	releaseSession           function = 95
	releaseValue             function = 96
	releaseTypeInfo          function = 98
	releaseTensorInfo        function = 99
	releaseSessionOptions    function = 100
)

// Values of the header's enumerations.
const (
	fatalAlone       = 4  // a level of logging: messages of others may say something of a record
	sequential       = 0  // a mode of execution
	allOptimizations = 99 // a level of optimization of graphs
	ofFloats         = 1  // a type of elements
	aTensor          = 1  // a type of values
)

// A table is struct OrtApi up to the last function of version 1.
type table [102]uintptr

// done calls a function that gives a status, and turns that into an error with ONNX Runtime's own message.
func (t *table) done(f function, args ...uintptr) error {
	status := call(t[f], args...)
	if status == 0 {
		return nil
	}
	defer t.release(releaseStatus, status)
	return errors.New("ONNX Runtime: " + text(call(t[getErrorMessage], status)))
}

// made calls a function whose last argument is the place of what it gives: a pointer, or a number of at most its size.
func (t *table) made(f function, args ...uintptr) (uintptr, error) {
	var held stdruntime.Pinner
	defer held.Unpin()
	out := make([]uintptr, 1)
	err := t.done(f, append(args, address(&held, out))...)
	return out[0], err
}

// release frees what a function made; nothing where it made nothing.
func (t *table) release(f function, made uintptr) {
	if made != 0 {
		call(t[f], made)
	}
}

// address holds a slice where it is, until it is let go, and gives its address to the library.
func address[T any](held *stdruntime.Pinner, s []T) uintptr {
	first := unsafe.SliceData(s)
	held.Pin(first)
	return uintptr(unsafe.Pointer(first))
}

// at gives what lies at an address of the library's.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// terminated gives a text as C reads it.
func terminated(s string) []byte { return append([]byte(s), 0) }

// text copies one of the library's.
func text(address uintptr) string {
	if address == 0 {
		return ""
	}
	n := 0
	for *at[byte](address + uintptr(n)) != 0 {
		n++
	}
	return string(unsafe.Slice(at[byte](address), n))
}
