//go:build !unix

package main

// ignoreFileSizeSignal does nothing: the signal is Unix's.
func ignoreFileSizeSignal() {}
