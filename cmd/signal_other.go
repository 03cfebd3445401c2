//go:build !unix

package cmd

// tameSignals does nothing: the signals are Unix's.
func tameSignals() {}
