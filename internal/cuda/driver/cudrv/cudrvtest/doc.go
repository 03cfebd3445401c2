// Package cudrvtest puts the fake driver behind cudrv in the place of libcuda,
// so that cudrv, gorgonia.org/cu and the loading of modules run from end to end
// without a GPU. It has a package of its own because tests cannot use cgo.
package cudrvtest
