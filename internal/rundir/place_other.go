//go:build !unix

package rundir

import "path/filepath"

// located says where a directory is: by its path.
func located(dir string) (string, error) { return filepath.Abs(dir) }
