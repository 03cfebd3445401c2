//go:build !unix

package main

// child is the command as main runs it.
func child() { main() }
