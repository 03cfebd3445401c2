//go:build !unix

package main

// tameSignals does nothing: the signals are Unix's.
func tameSignals() {}
