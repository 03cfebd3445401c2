//go:build !gocuda || !cgo || !linux

package gputest

const built = false // without the installed driver
