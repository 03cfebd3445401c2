//go:build !noasm

package peak

var widest = loop{"NEON", 4, chainsNEON}
