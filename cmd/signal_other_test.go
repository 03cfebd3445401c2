//go:build !unix

package cmd

// child is the command as main runs it.
func child() { main() }
