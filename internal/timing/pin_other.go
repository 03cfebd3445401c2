//go:build !linux

package timing

import "os/exec"

// startPinned only starts the command: it is told its threads, and here that
// must do.
func startPinned(cmd *exec.Cmd, _ int) error { return cmd.Start() }
