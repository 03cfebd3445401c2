//go:build !amd64 || noasm

package peak

// Run does nothing and reports false: there is no kernel for this processor.
func Run(int) bool { return false }
