package train

import "github.com/privgrad/privgrad/internal/rundir"

// What a command line needs to name.
const (
	ConfigFile  = rundir.Config
	PictureFile = rundir.Picture
)
