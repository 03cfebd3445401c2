// Package fashion carries all of Fashion-MNIST in the binary (31 MB), so that a
// first run needs no download. Its licence stands beside the files.
package fashion

import (
	"embed"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist"
)

//go:embed *-ubyte.gz
var files embed.FS

// Licence is the notice under which Fashion-MNIST is redistributed.
//
//go:embed LICENSE
var Licence string

// Open returns Fashion-MNIST.
func Open() (*datasets.Set, error) { return mnist.Fashion.OpenFS(files) }

// Verify checks the built-in files.
func Verify() (*datasets.Report, error) { return datasets.VerifyFS(files, &mnist.Fashion) }
