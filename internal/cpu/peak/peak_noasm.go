//go:build !amd64 || noasm

package peak

var widest loop
