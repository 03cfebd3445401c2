//go:build (!amd64 && !arm64) || noasm

package peak

var widest loop
