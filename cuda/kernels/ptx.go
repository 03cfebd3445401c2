package kernels

import (
	"embed"
	"fmt"
)

//go:embed *.ptx
var files embed.FS

// PTX is the assembly of a module.
func PTX(module string) ([]byte, error) {
	ptx, err := files.ReadFile(module + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("there is no module %s of kernels", module)
	}
	return ptx, nil
}
