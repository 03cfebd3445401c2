//go:build gocuda && cgo && linux

package gputest

const built = true // with the installed driver
