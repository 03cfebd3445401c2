package main

import "testing"

// suites are the tests that this program also is, by the name under which it runs them. They are
// there in the bundle alone: cmd/gpucheck/gather adds a file that fills them.
var suites = map[string][]testing.InternalTest{}
