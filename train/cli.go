package train

import (
	"maps"
	"slices"
)

// What a command line needs to name.
const (
	ConfigFile  = fileConfig
	PictureFile = filePicture
)

// Optimizers lists the names that a configuration may give.
func Optimizers() []string { return slices.Sorted(maps.Keys(optimizers)) }
