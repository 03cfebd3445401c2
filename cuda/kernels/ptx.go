package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed ptx/*.ptx
var files embed.FS

//go:embed sass/*.csv
var tables embed.FS

// Modules lists the modules.
func Modules() ([]string, error) {
	entries, err := files.ReadDir("ptx")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".ptx"))
	}
	return names, err
}

// PTX is the assembly of a module.
func PTX(module string) ([]byte, error) {
	ptx, err := files.ReadFile("ptx/" + module + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("there is no module %s of kernels", module)
	}
	return ptx, nil
}

// Assembled is the table of what assemblers make of a module, as internal/sass reads it.
func Assembled(module string) ([]byte, error) {
	table, err := tables.ReadFile("sass/" + module + ".csv")
	if err != nil {
		return nil, fmt.Errorf("module %s of kernels has no table of what it assembles to; make sass writes it", module)
	}
	return table, nil
}
